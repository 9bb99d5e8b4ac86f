"""Vectors of tokenized lines, independent of each other or with carried-over state."""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from elmo_tf.layers.bilm import BiLmState
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.variables import named_variables
from elmo_tf.text import forms
from elmo_tf.text.batches import DEFAULT_BATCH_TOKENS, batches_by_tokens
from elmo_tf.text.chunks import Line
from elmo_tf.vectors.sentence_vectors import SentenceVectors

# The lines of a batch, and the vectors of each.
Computed = tuple[list[Line], list[np.ndarray]]


class PureLines:
    """Vectors of independent lines, computed in batches of similar length.

    Args:
      vectors: computes the vectors.
      batch_tokens: see `batches_by_tokens`.
    """

    def __init__(self, vectors: SentenceVectors, batch_tokens: int) -> None:
        self._vectors = vectors
        self._batch_tokens = batch_tokens

    def __call__(self, lines: Sequence[Line]) -> Iterator[Computed]:
        """Yields all lines, in any order."""
        blank = [line for line in lines if not line.tokens]
        if blank:
            yield blank, [self._vectors.empty()] * len(blank)
        words = self._vectors.words(token for line in lines for token in line.tokens)
        # Longest lines first, so that running out of memory happens at once.
        by_length = sorted((line for line in lines if line.tokens), key=_length, reverse=True)
        for batch in batches_by_tokens(by_length, self._batch_tokens, length=_length):
            yield batch, self._vectors([line.tokens for line in batch], words)

    def state(self) -> None:
        """Independent lines have no state."""


class CarriedLines:
    """Vectors of lines computed one at a time, with the LSTM state carried over between lines.

    Both directions continue from their final state, which for the backward direction is that at the
    first token of the previous line. A line without tokens is read as its two boundaries. The
    function `dump_bilm_embeddings` of bilm-tf does the same, because its graph stores the state in
    variables.

    Args:
      vectors: computes the vectors.
      state: the initial state, as returned by `state`, or None for zeros.
    """

    def __init__(self, vectors: SentenceVectors, state: str | None = None) -> None:
        self._vectors = vectors
        self._state = vectors.zero_state()
        if state is not None:
            self._state = _unpack(state, self._state)

    def __call__(self, lines: Sequence[Line]) -> Iterator[Computed]:
        """Yields the lines one by one."""
        for line in lines:
            vectors, self._state = self._vectors.carry([line.tokens], self._state)
            yield [line], vectors

    def state(self) -> str:
        """The state after the last line, exactly, as a string for JSON."""
        parts = [np.asarray(part).tobytes() for part in tf.nest.flatten(self._state)]
        return base64.b64encode(b"".join(parts)).decode("ascii")


def _unpack(text: str, like: BiLmState) -> BiLmState:
    content, offset, parts = base64.b64decode(text), 0, []
    for part in tf.nest.flatten(like):
        values = np.frombuffer(content, part.dtype.as_numpy_dtype, np.prod(part.shape), offset)
        offset += values.nbytes
        parts.append(tf.reshape(tf.constant(values), part.shape))
    return tf.nest.pack_sequence_as(like, parts)


def _length(line: Line) -> int:
    return len(line.tokens)


def fingerprint(encoder: ElmoEncoder) -> str:
    """A digest of everything that determines a model's vectors: options, weights, vocabulary."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(encoder.config.to_options(), sort_keys=True).encode())
    digest.update(encoder.token_input.identity())
    for name, variable in sorted(named_variables(encoder).items()):
        values = np.ascontiguousarray(variable.numpy())
        digest.update(f"{name} {values.dtype.str} {values.shape} ".encode())
        digest.update(values.data)
    return digest.hexdigest()


def embed_sentences(
    encoder: ElmoEncoder,
    sentences: Iterable[str | bytes | Sequence[str | bytes]],
    layers: str = "elmo",
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
) -> list[np.ndarray]:
    """Vectors of many sentences, faster than separate calls of the encoder.

    Sentences of similar length share a batch, and the character CNN computes each distinct word
    once. All results are held in memory; to write them to a file, use `elmo-embed`.

    Args:
      encoder: the model.
      sentences: lists of tokens; or raw strings, which are split by the model's own tokenizer and
        normalization, or at white space if these are unknown. See `elmo_tf.text.forms` for the
        supported types.
      layers: the vectors to compute; see `SentenceVectors`.
      batch_tokens: see `batches_by_tokens`. It changes vectors only by rounding.

    Returns:
      A float32 array for each sentence, in the given order; see `SentenceVectors` for its shape.

    Raises:
      InputError: `layers` or `batch_tokens` is not valid; a token is not a string or contains white
        space; or the tokenizer needs `tensorflow_text`, which is not installed.

    Example:
      >>> vectors = embed_sentences(encoder, [["The", "cat", "sat"], ["Hello"]])
      >>> vectors[0].shape                                        # (3, 2 * projection_dim)
    """
    compute = SentenceVectors(encoder, layers)
    token_rows = forms.sentences(sentences, "sentences", encoder.make_tokenizer)
    lines = [Line(number, b"", tokens) for number, tokens in enumerate(token_rows)]
    results: dict[int, np.ndarray] = {}
    for batch, vectors in PureLines(compute, batch_tokens)(lines):
        results.update(zip((line.number for line in batch), vectors, strict=True))
    return [results[line.number] for line in lines]
