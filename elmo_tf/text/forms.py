"""Converts text and tokens from every common Python type to lists of `bytes`.

All entry points follow the same rules:

- Text is a batch of strings: a list, a tuple, another iterable, a NumPy array, a pandas column or
  a string tensor. A single string is a batch of one text.
- Tokens are a batch of lists of strings, of any lengths: nested lists, two-dimensional arrays, a
  data frame or a ragged tensor. The rows of arrays, data frames and dense tensors have equal width,
  so "" after the last token of a row is padding there. In a list, "" is a token, unless an entry
  point documents otherwise.
- A string is `str` or `bytes`. Any other element (None, NaN, a number, a list among strings) is an
  error that names its position.
- A token has no ASCII white space, since such a "token" is nearly always a text given as
  `[batch, 1]`. `batch_to_ids` allows it in a sentence of several tokens.

Arrays, columns and tensors are recognized by their methods, so this module imports no library for
them.
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

# Surrogates other than those that "surrogateescape" makes from undecodable bytes.
_SURROGATE_WITHOUT_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
# The separators of tokens; see `elmo_tf.text.tokens`.
_WHITE_SPACE = re.compile(rb"[ \t\n\v\f\r]")

_TEXT = "text (str or bytes)"
_TOKEN = "a token (str or bytes)"
# Methods that return an array's content as Python objects: of NumPy arrays and pandas columns, of
# ragged tensors and polars columns, and of Arrow columns.
_TO_LIST = ("tolist", "to_list", "to_pylist")


def token_bytes(token: str | bytes) -> bytes:
    """The bytes of a token, as the encoders and the graph need them.

    `bytes` are returned unchanged. A `str` becomes UTF-8; a surrogate that Python's
    "surrogateescape" made from an undecodable byte becomes that byte again, so text decoded in this
    way loses nothing. Other lone surrogates have no UTF-8 form and are dropped, as in bilm-tf.
    TensorFlow accepts no lone surrogate in a `str`, so pass it these bytes.
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
    """Converts text or tokens; see the module.

    The first element that is a string or a list decides which of the two `value` is. A batch
    without elements is text.

    Args:
      value: text or tokens of any supported type.
      name: its name in errors, such as "inputs".

    Raises:
      InputError: an element is invalid, or `value` is neither a string nor iterable.
    """
    elements = _elements(value, name, f"{_TEXT}, or a list of it or of tokens")
    if not any(map(_is_list, elements)) or _is_string(next(filter(_is_either, elements))):
        return [_string(text, f"{name}[{i}]", _TEXT) for i, text in enumerate(elements)]
    return _rows(elements, name)


def token_rows(value: Any, name: str) -> TokenRows:
    """Converts tokens; text is an error, also as `[batch, 1]`.

    A single token with white space is an error, since it is text that was not split. In a sentence
    of several tokens, white space is an ordinary byte.

    Raises:
      InputError: an element is invalid, or a sentence is a string instead of a list of tokens.
    """
    if _is_string(value):
        raise _not_split(name, "a list of token lists", value)
    rows = _without_padding(_rows(_elements(value, name, "a list of token lists"), name), value)
    check_white_space([row if len(row) == 1 else () for row in rows], name)
    return rows


def sentences(value: Any, name: str, make_tokenizer: Callable[[], Tokenizer]) -> TokenRows:
    """Converts tokens, or text, which is tokenized.

    Args:
      value: text or tokens of any supported type.
      name: its name in errors.
      make_tokenizer: returns the tokenizer. It is called only for text, since some tokenizers need
        another library.

    Raises:
      InputError: an element is invalid, or a token has white space.
    """
    found = strings(value, name)
    if found and isinstance(found[0], list):
        found = _without_padding(found, value)
        check_white_space(found, name)
        return found
    return make_tokenizer()(cast(Texts, found)) if found else []


def words(value: Any, name: str) -> Texts:
    """Converts a list of words, such as a vocabulary.

    Raises:
      InputError: `value` is a string, or an element is not a string.
    """
    if _is_string(value):
        raise checks.refusal(name, "a list of words (str or bytes)", value)
    elements = _elements(value, name, "a list of words (str or bytes)")
    return [
        _string(word, f"{name}[{i}]", "a word (str or bytes)") for i, word in enumerate(elements)
    ]


def integers(value: Any, name: str) -> list[int]:
    """Converts a list of integers of any type, clipped to 64 bits. 1.0 is not an integer.

    Raises:
      InputError: an element is not an integer, or `value` is not a list.
    """
    elements = _elements(value, name, "a list of integers")
    return [_integer(element, f"{name}[{i}]") for i, element in enumerate(elements)]


def check_white_space(rows: Sequence[Sequence[bytes]], name: str) -> None:
    """Checks that no token has ASCII white space.

    Raises:
      InputError: a token has some; the message has its position.
    """
    for i, row in enumerate(rows):
        # One search per row keeps the usual case, a row without white space, fast.
        if _WHITE_SPACE.search(b"\0".join(row)):
            j, token = next((j, t) for j, t in enumerate(row) if _WHITE_SPACE.search(t))
            shown = token.decode("utf-8", "replace")
            error = checks.refusal(f"{name}[{i}][{j}]", "a token without white space", shown)
            raise InputError(f"{error}; give text as a list of strings, or split it into tokens")


def is_numbers(value: Any) -> bool:
    """Whether a list or array holds numbers, judged by its first scalar element."""
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
    """Removes "" at the end of rows if `value` has rows of equal width, where it is padding."""
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
    """The Python object in a scalar array or tensor; any other value unchanged."""
    if getattr(value, "shape", None) == () and hasattr(value, "__array__"):
        return np.asarray(value).item()
    return value


def _elements(value: Any, name: str, allowed: str) -> Sequence[Any]:
    """The elements of a batch or row; a single string is one element."""
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
    if hasattr(value, "__array__"):  # a data frame, whose iterator yields column names
        return np.asarray(value, object).tolist()
    return list(value)


def _is_string(value: Any) -> bool:
    return isinstance(value, (str, bytes))


def _is_list(value: Any) -> bool:
    """Whether the value is an ordered collection, but not a string, a mapping or a buffer."""
    if isinstance(value, (list, tuple)):
        return True
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping, Set)):
        return False
    has_elements = isinstance(value, Iterable) or any(hasattr(value, each) for each in _TO_LIST)
    return has_elements and getattr(value, "shape", None) != ()


def _is_either(value: Any) -> bool:
    return _is_string(value) or _is_list(value)
