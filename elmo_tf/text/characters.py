"""Converts tokens to character ids. No other module knows the special codes and the shift by one.

A token is encoded as its UTF-8 bytes, in a row of `max_characters` ids:

    BEGIN_WORD, byte + 1, byte + 1, ..., END_WORD, FILLER, FILLER, ...

Only the first `max_characters - 2` bytes are encoded, even if that splits a character. Id 0 is
padding and means "no token", so bytes are shifted to 1..256. The tokens `<S>` and `</S>` are the
sentence boundaries; each is a single code instead of its bytes. This is the encoding of bilm-tf
(Peters et al. 2018, "Deep contextualized word representations"; Jozefowicz et al. 2016 for the
character input).

There are two implementations with the same steps in the same order: NumPy for Python lists and
TensorFlow for the graph. Only the graph's functions import `tensorflow`, so that data preparation
does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from elmo_tf.config import checks
from elmo_tf.text.forms import token_bytes, token_rows

if TYPE_CHECKING:
    import tensorflow as tf

PADDING = 0
BEGIN_SENTENCE = 257
END_SENTENCE = 258
BEGIN_WORD = 259
END_WORD = 260
FILLER = 261
NUM_CHARACTERS = 261  # ids with an embedding: 1..261, all but padding

BEGIN_TOKEN = b"<S>"
END_TOKEN = b"</S>"

DEFAULT_MAX_CHARACTERS = 50  # in all of bilm-tf's models
_MIN_MAX_CHARACTERS = 3  # BEGIN_WORD, one byte and END_WORD

_BYTE_SHIFT = 1


def encode_token(token: str | bytes, max_characters: int = DEFAULT_MAX_CHARACTERS) -> np.ndarray:
    """Encodes one token as `int32 [max_characters]`."""
    _check_max_characters(max_characters)
    return _encode_rows([token_bytes(token)], max_characters)[0]


def batch_to_ids(
    sentences: Sequence[Sequence[str | bytes]], max_characters: int = DEFAULT_MAX_CHARACTERS
) -> np.ndarray:
    """Encodes tokenized sentences as one array, padded at the end with zeros.

    Sentence boundaries are not included, since the encoder adds them.

    Args:
      sentences: a list of lists of tokens, `str` or `bytes`. Lengths may differ and may be 0.
        Arrays, pandas columns and ragged tensors are accepted too; see `elmo_tf.text.forms`.
      max_characters: ids per token, `max_characters_per_token` of the model; at least 3.

    Returns:
      `int32 [batch, max_tokens, max_characters]`; `[0, 0, max_characters]` for no sentences.

    Raises:
      InputError: a sentence is a string instead of a list of tokens, a token is not a string, or
        the only token of a sentence contains white space, which means that the text was not split.

    Example:
      >>> batch_to_ids([["First", "sentence", "."], ["Another", "."]]).shape
      (2, 3, 50)
    """
    _check_max_characters(max_characters)
    row_of_token: dict[bytes, int] = {}
    length_of_sentence: list[int] = []
    rows: list[int] = []
    for tokens in token_rows(sentences, "sentences"):
        length_of_sentence.append(len(tokens))
        rows.extend(row_of_token.setdefault(token, len(row_of_token)) for token in tokens)
    characters = _encode_rows(list(row_of_token), max_characters)  # [distinct, max_characters]

    lengths = np.asarray(length_of_sentence, dtype=np.int64)
    max_tokens = int(lengths.max(initial=0))
    is_token = np.arange(max_tokens) < lengths[:, np.newaxis]  # [batch, max_tokens]
    ids = np.full((len(lengths), max_tokens, max_characters), PADDING, dtype=np.int32)
    ids[is_token] = characters[np.asarray(rows, dtype=np.int64)]
    return ids


def boundary_characters(max_characters: int = DEFAULT_MAX_CHARACTERS) -> np.ndarray:
    """The character ids of `<S>` and `</S>`, `int32 [2, max_characters]`."""
    _check_max_characters(max_characters)
    return _encode_rows([BEGIN_TOKEN, END_TOKEN], max_characters)


def characters_of_tokens(
    tokens: tf.Tensor, max_characters: int = DEFAULT_MAX_CHARACTERS
) -> tf.Tensor:
    """Encodes tokens in the graph, with the same results as `encode_token` for any bytes.

    Every element counts as a real token, even `""`: the caller masks padding.
    Only core TensorFlow ops are used, so that a SavedModel needs no other library.

    Args:
      tokens: string tensor of any shape.
      max_characters: ids per token, a Python int of at least 3.

    Returns:
      `int32 tokens.shape + [max_characters]`.
    """
    import tensorflow as tf

    _check_max_characters(max_characters)
    tokens = tf.convert_to_tensor(tokens, dtype=tf.string)
    # One position more than the encoded bytes, for END_WORD. `decode_raw` pads with NUL, which is
    # also a valid byte of a token, so the token's end is derived from its length.
    width = max_characters - 1
    raw = tf.io.decode_raw(tokens, tf.uint8, fixed_length=width)  # tokens.shape + [width]
    codes = tf.cast(raw, tf.int32) + _BYTE_SHIFT
    lengths = tf.minimum(tf.strings.length(tokens, unit="BYTE"), max_characters - 2)

    for boundary, code in ((BEGIN_TOKEN, BEGIN_SENTENCE), (END_TOKEN, END_SENTENCE)):
        is_boundary = tf.equal(tokens, boundary)
        codes = tf.where(tf.expand_dims(is_boundary, -1), code, codes)
        lengths = tf.where(is_boundary, 1, lengths)

    positions = tf.range(width)
    lengths = tf.expand_dims(lengths, -1)
    after = tf.where(positions == lengths, END_WORD, FILLER)
    codes = tf.where(positions < lengths, codes, after)
    begin = tf.fill(tf.concat([tf.shape(tokens), [1]], axis=0), BEGIN_WORD)
    characters = tf.concat([begin, codes], axis=-1)  # tokens.shape + [max_characters]
    return tf.ensure_shape(characters, tokens.shape.concatenate([max_characters]))


def _encode_rows(tokens: Sequence[bytes], max_characters: int) -> np.ndarray:
    """`int32 [len(tokens), max_characters]`, by the same steps as `characters_of_tokens`."""
    width = max_characters - 1
    raw = b"".join(token[:width].ljust(width, b"\0") for token in tokens)
    codes = np.frombuffer(raw, np.uint8).reshape(-1, width).astype(np.int32) + _BYTE_SHIFT
    lengths = np.array([min(len(token), max_characters - 2) for token in tokens], np.int32)

    for row, token in enumerate(tokens):
        if token in (BEGIN_TOKEN, END_TOKEN):
            codes[row] = BEGIN_SENTENCE if token == BEGIN_TOKEN else END_SENTENCE
            lengths[row] = 1

    positions = np.arange(width)
    lengths = lengths[:, np.newaxis]
    after = np.where(positions == lengths, END_WORD, FILLER)
    codes = np.where(positions < lengths, codes, after)
    return np.insert(codes, 0, BEGIN_WORD, axis=1).astype(np.int32)


def _check_max_characters(max_characters: int) -> None:
    checks.integer(_MIN_MAX_CHARACTERS)(max_characters, "max_characters")
