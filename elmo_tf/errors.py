"""Errors that a user can cause, and helpers for their messages; see `command_line.run`."""

import re
from collections.abc import Iterable

_LONGEST_NAME = 100
_LONGEST_LIST = 500
# Longer than any path in use, since the end of a message must survive: it says what to do.
_LONGEST_WORD = 300
_LONGEST_MESSAGE = 1500
_OVERLONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")
_TENSOR = re.compile(r"shape ?\[([0-9, ]*)\] and type (\w+)")
_BYTES_OF_TYPES = {"double": 8, "int64": 8, "half": 2, "bfloat16": 2, "bool": 1, "uint8": 1}


class InputError(ValueError):
    """Data, a file or a configuration is wrong. The message is one line; commands exit with 1.

    Args:
      message: one line. It names a function's arguments in Python's syntax:
        "batch_size must be ...", "overwrite=True replaces it".
      *arguments: the argument names in the message, one per occurrence. Commands replace them with
        their flags; see `elmo_tf.cli.command_line.in_flags`.
    """

    def __init__(self, message: str = "", *arguments: str) -> None:
        super().__init__(bounded(message))
        self.arguments = arguments

    # Without this attribute Keras adds lines and colour codes to an error that a layer raises.
    _keras_call_info_injected = True


class UsageError(InputError):
    """A command or function was called incorrectly; like `InputError`, but commands exit with 2."""


class OutOfMemoryError(InputError, MemoryError):
    """There is not enough memory. The message is one line that says what needed it."""


def bounded(message: str) -> str:
    """Replaces the middle of overlong words, and of an overlong message, with "...".

    Messages repeat user input, such as a flag's value, which can have any length.
    """
    if len(message) <= _LONGEST_WORD:
        return message
    message = _OVERLONG_WORD.sub(lambda word: _without_middle(word[0], _LONGEST_WORD), message)
    return _without_middle(message, _LONGEST_MESSAGE)


def _without_middle(text: str, most_characters: int) -> str:
    half = (most_characters - 3) // 2
    return text if len(text) <= most_characters else f"{text[:half]}...{text[-half:]}"


def printable(name: str) -> str:
    """A name from a user's file, safe for a one-line error: quoted and truncated if necessary."""
    return shortened(name if name.isprintable() else repr(name), _LONGEST_NAME)


def shortened(text: str, most_characters: int = _LONGEST_LIST) -> str:
    """The text, truncated with "..." if it is longer than `most_characters`."""
    return text if len(text) <= most_characters else f"{text[: most_characters - 3]}..."


def listed(
    items: Iterable[str],
    separator: str = "; ",
    more: str = "more",
    most_characters: int = _LONGEST_LIST,
) -> str:
    """The first items as text for a one-line error, followed by the number of the others.

    Args:
      items: what to list, in order.
      separator: put between two items.
      more: noun that follows the number of the others.
      most_characters: limit of the text. The first item is always shown, truncated if necessary.
    """
    items = [shortened(item, most_characters) for item in items]
    shown, length = 0, 0
    for item in items:
        length += len(item) + len(separator)
        if shown and length > most_characters + len(separator):
            break
        shown += 1
    rest = [f"and {len(items) - shown:,} {more}"] if shown < len(items) else []
    return separator.join([*items[:shown], *rest])


def counted(number: int, noun: str) -> str:
    """A number with a regular noun in singular or plural: "1 line", "2,500 lines"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def gigabytes(num_bytes: int) -> str:
    """A size as text, such as "0.4 GB"; scientific notation keeps absurd sizes short."""
    size = num_bytes / 1e9
    return f"{size:,.1f} GB" if size < 1e4 else f"{size:.1e} GB"


def out_of_memory(error: Exception) -> str:
    """One line for an allocation error of TensorFlow, NumPy or Python."""
    message = " ".join(str(getattr(error, "message", None) or error).split())
    if match := _TENSOR.search(message):
        num_bytes = _BYTES_OF_TYPES.get(match[2], 4)
        for size in filter(None, map(str.strip, match[1].split(","))):
            num_bytes *= int(size)
        shape = match[1].replace(" ", "").replace(",", ", ")
        message = f"no room for an array of shape [{shape}], {gigabytes(num_bytes)}"
    return f"out of memory: {shortened(message)}" if message else "out of memory"
