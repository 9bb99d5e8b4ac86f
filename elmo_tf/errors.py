"""The kinds of mistake that are the user's and not ours, and their text; see `command_line.run`."""

import re
from collections.abc import Iterable

_LONGEST_NAME = 100
_LONGEST_LIST = 500
# No path that people use is longer; the end of a message, which says what to do, must not be cut.
_LONGEST_WORD = 300
_LONGEST_MESSAGE = 1500
_OVERLONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")
_TENSOR = re.compile(r"shape ?\[([0-9, ]*)\] and type (\w+)")
_BYTES_OF_TYPES = {"double": 8, "int64": 8, "half": 2, "bfloat16": 2, "bool": 1, "uint8": 1}


class InputError(ValueError):
    """Data, a file or a configuration is wrong. The message is one line; commands exit with 1.

    Args:
      message: one line. Where it names arguments of a function, it names them as Python does:
        "batch_size must be ...", "overwrite=True replaces it".
      *arguments: these names, each as often as the message has it. A command, whose user knows no
        arguments, shows its flags in their place; see `elmo_tf.cli.command_line.in_flags`.
    """

    def __init__(self, message: str = "", *arguments: str) -> None:
        super().__init__(bounded(message))
        self.arguments = arguments

    # Keras adds several lines, with colour codes, to what a layer raises, unless it finds this.
    _keras_call_info_injected = True


class UsageError(InputError):
    """A command or function was called wrongly; as `InputError`, but commands exit with 2."""


class OutOfMemoryError(InputError, MemoryError):
    """More memory was asked for than there is. The message is one line that says for what."""


def bounded(message: str) -> str:
    """A message whose overlong words, and which itself if overlong, have "..." for their middle.

    Messages repeat what the user gave, such as a flag's value, which may have any length.
    """
    if len(message) <= _LONGEST_WORD:
        return message
    message = _OVERLONG_WORD.sub(lambda word: _without_middle(word[0], _LONGEST_WORD), message)
    return _without_middle(message, _LONGEST_MESSAGE)


def _without_middle(text: str, most_characters: int) -> str:
    half = (most_characters - 3) // 2
    return text if len(text) <= most_characters else f"{text[:half]}...{text[-half:]}"


def printable(name: str) -> str:
    """A name from a user's file as an error of one line shows it: quoted and cut where need be."""
    return shortened(name if name.isprintable() else repr(name), _LONGEST_NAME)


def shortened(text: str, most_characters: int = _LONGEST_LIST) -> str:
    """The text itself, or its beginning and "..."."""
    return text if len(text) <= most_characters else f"{text[: most_characters - 3]}..."


def listed(
    items: Iterable[str],
    separator: str = "; ",
    more: str = "more",
    most_characters: int = _LONGEST_LIST,
) -> str:
    """The first items as an error of one line shows them, and the number of those not shown.

    Args:
      items: what to list, in order.
      separator: put between two.
      more: what the others are called, after their number.
      most_characters: of all items that are shown. The first one is always shown, cut if need be.
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


def gigabytes(num_bytes: int) -> str:
    """A size in words: "0.4 GB"; four digits at most, so that a nonsensical size is short too."""
    size = num_bytes / 1e9
    return f"{size:,.1f} GB" if size < 1e4 else f"{size:.1e} GB"


def out_of_memory(error: Exception) -> str:
    """What TensorFlow, NumPy or Python could not allocate, in one line without their own words."""
    message = " ".join(str(getattr(error, "message", None) or error).split())
    if match := _TENSOR.search(message):
        num_bytes = _BYTES_OF_TYPES.get(match[2], 4)
        for size in filter(None, map(str.strip, match[1].split(","))):
            num_bytes *= int(size)
        shape = match[1].replace(" ", "").replace(",", ", ")
        message = f"no room for an array of shape [{shape}], {gigabytes(num_bytes)}"
    return f"out of memory: {shortened(message)}" if message else "out of memory"
