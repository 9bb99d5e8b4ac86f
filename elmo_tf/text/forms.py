"""Text and tokens in each form that Python has for them, as lists of `bytes`.

One rule for every entry point:

- Text is a batch of strings: a list, a tuple, another iterable, a NumPy array, a column of pandas,
  a string tensor. A single string is a batch of one text.
- Tokens are a batch of such lists, of any lengths: lists in lists, two-dimensional arrays, a data
  frame, a ragged tensor. In an array, a data frame or a dense tensor, whose rows have one width, ""
  after the last token of a row is padding. In a list it is a token, unless an entry point says
  otherwise.
- A string is `str` or `bytes`. Anything else (None, NaN, a number, a list where the other elements
  are strings) is refused, by its position.
- A token holds no ASCII white space. One that does is nearly always a text given as `[batch, 1]`.
  Functions that encode tokens only (`batch_to_ids`) take one among other tokens.

Arrays, columns and tensors are recognised by their methods, so that no library is imported here.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, cast

import numpy as np

from elmo_tf.config import checks
from elmo_tf.errors import InputError

Texts = list[bytes]
TokenRows = list[list[bytes]]
Tokenizer = Callable[[Sequence[bytes]], TokenRows]

# Surrogates that stand for no byte: what is left when those of "surrogateescape" are taken away.
_SURROGATE_WITHOUT_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
# What text is split at; see `elmo_tf.text.tokens`.
_WHITE_SPACE = re.compile(rb"[ \t\n\v\f\r]")

_TEXT = "text (str or bytes)"
_TOKEN = "a token (str or bytes)"
# Methods that return an array's content as Python objects: NumPy's arrays and columns of pandas
# have the first, ragged tensors and columns of polars the second, columns of Arrow the third.
_TO_LIST = ("tolist", "to_list", "to_pylist")


def token_bytes(token: str | bytes) -> bytes:
    """The bytes that `token` is encoded from, and that a graph must be fed.

    `bytes` pass unchanged. A `str` becomes UTF-8; a surrogate that Python's "surrogateescape" made
    from an undecodable byte becomes that byte again, so text read that way loses nothing. Any other
    lone surrogate has no UTF-8 form and is left out, as the published encoders do.
    TensorFlow refuses both kinds, hence give it these bytes and not the `str`.
    """
    if isinstance(token, bytes):
        return token
    if not isinstance(token, str):
        raise checks.refusal("token", _TOKEN, token)
    try:
        return token.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _SURROGATE_WITHOUT_BYTE.sub("", token).encode("utf-8", "surrogateescape")


def strings(value: Any, name: str) -> Texts | TokenRows:
    """Text or tokens, whichever `value` holds; see the module.

    The first element that is a string or a list decides. A batch without elements is text.

    Args:
      value: text or tokens in any form.
      name: what errors call it, such as "inputs".

    Raises:
      InputError: an element is wrong; or `value` is neither a string nor a list of anything.
    """
    elements = _elements(value, name, f"{_TEXT}, or a list of it or of tokens")
    if not any(map(_is_list, elements)) or _is_string(next(filter(_is_either, elements))):
        return [_string(text, f"{name}[{i}]", _TEXT) for i, text in enumerate(elements)]
    return _rows(elements, name)


def token_rows(value: Any, name: str) -> TokenRows:
    """Tokens; text is refused, and text as `[batch, 1]`.

    A sentence of one token that holds white space is refused: it is a text that was not split.
    Among other tokens, white space is part of a token like any byte.

    Raises:
      InputError: an element is wrong, or a sentence is a string and not a list of tokens.
    """
    if _is_string(value):
        raise _not_split(name, "a list of token lists", value)
    rows = _without_padding(_rows(_elements(value, name, "a list of token lists"), name), value)
    check_white_space([row if len(row) == 1 else () for row in rows], name)
    return rows


def sentences(value: Any, name: str, make_tokenizer: Callable[[], Tokenizer]) -> TokenRows:
    """Tokens, without white space, or text, which a tokenizer splits.

    Args:
      value: text or tokens in any form.
      name: what errors call it.
      make_tokenizer: called for text only, since some tokenizers need another library.

    Raises:
      InputError: an element is wrong, or a token holds white space.
    """
    found = strings(value, name)
    if found and isinstance(found[0], list):
        found = _without_padding(found, value)
        check_white_space(found, name)
        return found
    return make_tokenizer()(cast(Texts, found)) if found else []


def words(value: Any, name: str) -> Texts:
    """A list of words, as of a vocabulary; a single string would be a list of letters.

    Raises:
      InputError: `value` is a string, or an element is not.
    """
    if _is_string(value):
        raise checks.refusal(name, "a list of words (str or bytes)", value)
    elements = _elements(value, name, "a list of words (str or bytes)")
    return [
        _string(word, f"{name}[{i}]", "a word (str or bytes)") for i, word in enumerate(elements)
    ]


def integers(value: Any, name: str) -> list[int]:
    """A list of integers of any type, clipped to 64 bits; 1.0 is not an integer.

    Raises:
      InputError: an element is no integer, or `value` no list.
    """
    elements = _elements(value, name, "a list of integers")
    return [_integer(element, f"{name}[{i}]") for i, element in enumerate(elements)]


def check_white_space(rows: Sequence[Sequence[bytes]], name: str) -> None:
    """Refuses tokens that hold ASCII white space.

    Raises:
      InputError: with the position of the first of them.
    """
    for i, row in enumerate(rows):
        # One search for each row: a row without white space, the usual one, costs little.
        if _WHITE_SPACE.search(b"\0".join(row)):
            j, token = next((j, t) for j, t in enumerate(row) if _WHITE_SPACE.search(t))
            shown = token.decode("utf-8", "replace")
            error = checks.refusal(f"{name}[{i}][{j}]", "a token without white space", shown)
            raise InputError(f"{error}; give text as a list of strings, or split it into tokens")


def is_numbers(value: Any) -> bool:
    """Whether a list or array holds integers, going by the first element of all."""
    while isinstance(value, (list, tuple)):
        value = next((e for e in value if not isinstance(e, (list, tuple)) or e), None)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufc" or (value.size > 0 and is_numbers(value.flat[0]))
    return isinstance(value, (int, np.integer))


def _rows(elements: Sequence[Any], name: str) -> TokenRows:
    rows = []
    for i, row in enumerate(elements):
        if not _is_list(row):
            if _is_string(row):
                raise _not_split(f"{name}[{i}]", "a list of tokens", row)
            raise checks.refusal(f"{name}[{i}]", "a list of tokens", row)
        tokens = _elements(row, f"{name}[{i}]", "a list of tokens")
        rows.append([_string(token, f"{name}[{i}][{j}]", _TOKEN) for j, token in enumerate(tokens)])
    return rows


def _without_padding(rows: TokenRows, value: Any) -> TokenRows:
    """The rows without "" at their end, if `value` has rows of one width and needs it there."""
    shape: Any = getattr(value, "shape", ())
    if len(shape) != 2 or shape[1] is None:  # a list, or a ragged tensor
        return rows
    ends = [next((n for n in range(len(row), 0, -1) if row[n - 1]), 0) for row in rows]
    return [row[:end] for row, end in zip(rows, ends, strict=True)]


def _not_split(name: str, allowed: str, value: str | bytes) -> InputError:
    error = checks.refusal(name, allowed, value)
    return InputError(f"{error}; split it into tokens first, for instance with .split()")


def _string(value: Any, name: str, allowed: str) -> bytes:
    if not _is_string(value):
        value = _scalar(value)
        if not _is_string(value):
            raise checks.refusal(name, allowed, value)
    return token_bytes(value)


def _integer(value: Any, name: str) -> int:
    value = _scalar(value)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise checks.refusal(name, "an integer", value)
    return max(-(1 << 63), min(int(value), (1 << 63) - 1))


def _scalar(value: Any) -> Any:
    """The Python object in an array or tensor without dimensions; anything else as it is."""
    if getattr(value, "shape", None) == () and hasattr(value, "__array__"):
        return np.asarray(value).item()
    return value


def _elements(value: Any, name: str, allowed: str) -> Sequence[Any]:
    """What a batch or a row consists of; a single string is one element."""
    if isinstance(value, (list, tuple)):
        return value
    value = _scalar(value)
    if _is_string(value):
        return [value]
    if not _is_list(value):
        raise checks.refusal(name, allowed, value)
    for method in _TO_LIST:
        if hasattr(value, method):
            return getattr(value, method)()
    if hasattr(value, "__array__"):  # a data frame, whose iterator would give names of columns
        return np.asarray(value, object).tolist()
    return list(value)


def _is_string(value: Any) -> bool:
    return isinstance(value, (str, bytes))


def _is_list(value: Any) -> bool:
    """Whether the value has elements in an order, other than keys or bytes as numbers."""
    if isinstance(value, (list, tuple)):
        return True
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping, Set)):
        return False
    has_elements = isinstance(value, Iterable) or any(hasattr(value, each) for each in _TO_LIST)
    return has_elements and getattr(value, "shape", None) != ()


def _is_either(value: Any) -> bool:
    return _is_string(value) or _is_list(value)
