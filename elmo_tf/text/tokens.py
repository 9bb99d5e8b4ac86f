"""Splits text into tokens. The only module that imports `tensorflow_text`.

Models split text at runs of ASCII white space (space, tab, line feed, vertical tab, form feed,
carriage return) and nowhere else: `split_text` in the graph and `split_line` in Python agree on any
bytes. No-break spaces, ideographic spaces and NULs are parts of tokens.

In raw text, punctuation is rarely separated from words. `make_tokenizer` returns tokenizers for
such text, with optional Unicode normalization. Commands apply them before the model. They are not
part of an exported model, since a SavedModel with ops of `tensorflow_text` requires its users to
install that library.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.text import characters

if TYPE_CHECKING:
    import tensorflow as tf

Tokenizer = Callable[[Sequence[bytes]], list[list[bytes]]]

TOKENIZERS = ("whitespace", "unicode_whitespace", "unicode_script", "unicode_punctuation")
_FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
NORMALIZATIONS = ("none", *_FORMS)

# The characters with Unicode's property White_Space, in RE2's syntax.
_WHITE_SPACE = r"[\s\x{0B}\x{85}\p{Z}]+"
# Similar to BERT's splitting before word pieces.
_STANDS_ALONE = r"[\p{P}\p{S}\p{Han}]"

_BATCH_BYTES = 1 << 20


def split_text(text: tf.Tensor) -> tf.RaggedTensor:
    """Splits in the graph, with core TensorFlow ops only.

    Args:
      text: string `[batch]`.

    Returns:
      String `[batch, (tokens)]`. Text that is empty or all white space gives an empty row.
    """
    import tensorflow as tf

    # Without a separator, runs of white space count as one and the ends are trimmed; " " would
    # give empty tokens.
    return tf.strings.split(text)


def split_and_pad(text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Like `split_text`, but returns dense tensors.

    Returns:
      Tokens, string `[batch, max_tokens]`, padded with "", and their number, int32 `[batch]`.
    """
    import tensorflow as tf

    ragged = split_text(text)
    return ragged.to_tensor(""), tf.cast(ragged.row_lengths(), tf.int32)


def split_line(line: bytes | str) -> list[bytes]:
    """Splits in Python, with the same result as `split_text` for any bytes."""
    # `bytes.split` splits only at ASCII white space; `str.split` also at no-break spaces.
    return characters.token_bytes(line).split()


def make_tokenizer(name: str = "whitespace", normalize: str = "none") -> Tokenizer:
    """Returns a function that maps a batch of lines to lists of tokens.

    - `whitespace`: `split_line`.
    - `unicode_whitespace`: splits at every character with Unicode's property White_Space.
    - `unicode_script`: `tensorflow_text.UnicodeScriptTokenizer`, which also splits where the script
      changes: "don't" gives three tokens, but "$5.50," one, since its characters have no script.
    - `unicode_punctuation`: each punctuation mark, symbol and Han character is its own token.

    All of them split at ASCII white space. A piece between white space that is not UTF-8, or has a
    NUL, remains one unchanged token, since the ops would replace or lose part of it.

    `normalize` is applied before splitting. It uses Python's `unicodedata`, so that the default
    tokenizer needs no TensorFlow. Bytes that are not UTF-8 remain unchanged. Note that `nfkc`
    converts no-break and ideographic spaces to ASCII spaces, at which the line is then split.

    Raises:
      InputError: unknown name, or `tensorflow_text` is needed and not installed.
    """
    checks.one_of(*TOKENIZERS)(name, "tokenizer")
    checks.one_of(*NORMALIZATIONS)(normalize, "normalize")
    split_pieces = None if name == "whitespace" else _load_splitter(name)
    form = _FORMS.get(normalize)

    def tokenize(lines: Sequence[bytes]) -> list[list[bytes]]:
        if form is not None:
            lines = [_normalize(line, form) for line in lines]
        split_lines = [split_line(line) for line in lines]
        return split_lines if split_pieces is None else _split_further(split_lines, split_pieces)

    return tokenize


def tokenize_lines(lines: Iterable[bytes], tokenizer: Tokenizer) -> Iterator[list[bytes]]:
    """Yields the tokens of each line; tokenizes about a megabyte at a time."""
    batch, size = [], 0
    for line in lines:
        batch.append(line)
        size += len(line) + 1
        if size >= _BATCH_BYTES:
            yield from tokenizer(batch)
            batch, size = [], 0
    yield from tokenizer(batch)


def _normalize(line: bytes | str, form: Literal["NFC", "NFKC"]) -> bytes:
    line = characters.token_bytes(line)
    if line.isascii():
        return line
    # "surrogateescape" turns undecodable bytes into lone surrogates, which normalization ignores.
    text = unicodedata.normalize(form, line.decode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape")


def _load_splitter(name: str) -> Callable[[list[bytes]], list[list[bytes]]]:
    """The `tensorflow_text` function for pieces of valid UTF-8 without ASCII white space."""
    try:
        import tensorflow as tf
        import tensorflow_text
    except ImportError as error:
        raise InputError(f"tokenizer {name} needs tensorflow_text: {error}") from error

    # WhitespaceTokenizer of tensorflow_text 2.21 appends the first bytes of a multibyte white space
    # character to the preceding token, so use regex_split for both.
    if name == "unicode_whitespace":
        separators = {"delim_regex_pattern": _WHITE_SPACE}
        split = functools.partial(tensorflow_text.regex_split, **separators)
    elif name == "unicode_punctuation":
        separators = {
            "delim_regex_pattern": f"{_WHITE_SPACE}|{_STANDS_ALONE}",
            "keep_delim_regex_pattern": _STANDS_ALONE,
        }
        split = functools.partial(tensorflow_text.regex_split, **separators)
    else:
        split = tensorflow_text.UnicodeScriptTokenizer().tokenize
    return lambda pieces: split(tf.constant(pieces, tf.string)).to_list()


def _split_further(
    lines: list[list[bytes]], split_pieces: Callable[[list[bytes]], list[list[bytes]]]
) -> list[list[bytes]]:
    """Splits each piece of each line. Splits distinct pieces only once, since most occur often."""
    pieces = {piece: [piece] for line in lines for piece in line}
    splittable = [piece for piece in pieces if b"\0" not in piece and _is_utf8(piece)]
    pieces.update(zip(splittable, split_pieces(splittable), strict=True))
    return [[token for piece in line for token in pieces[piece]] for line in lines]


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
