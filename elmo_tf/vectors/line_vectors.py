"""Vectors of tokenized lines, each read by itself or all as one text."""

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

# Lines that were computed together, and the vectors of each.
Computed = tuple[list[Line], list[np.ndarray]]


class PureLines:
    """Vectors of lines that are each read by themselves, in batches of similar length.

    Args:
      vectors: computes them.
      batch_tokens: see `batches_by_tokens`.
    """

    def __init__(self, vectors: SentenceVectors, batch_tokens: int) -> None:
        self._vectors = vectors
        self._batch_tokens = batch_tokens

    def __call__(self, lines: Sequence[Line]) -> Iterator[Computed]:
        """Yields all the lines, in any order."""
        blank = [line for line in lines if not line.tokens]
        if blank:
            yield blank, [self._vectors.empty()] * len(blank)
        words = self._vectors.words(token for line in lines for token in line.tokens)
        # The longest first, so that what does not fit into memory fails at once.
        by_length = sorted((line for line in lines if line.tokens), key=_length, reverse=True)
        for batch in batches_by_tokens(by_length, self._batch_tokens, length=_length):
            yield batch, self._vectors([line.tokens for line in batch], words)

    def state(self) -> None:
        """There is none."""


class CarriedLines:
    """Vectors of lines read one at a time, the LSTM state going on from each to the next.

    Both directions continue where they ended: the backward one at the first token of the line
    before. A line without tokens is still read, as its two boundaries. This is how the function
    `dump_bilm_embeddings` of bilm-tf reads a file, given the state variables of its graph.

    Args:
      vectors: computes them.
      state: where to start, as `state` gave it, or None for zeros.
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
        """The state after the last line, in characters of JSON and without loss."""
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
    """A digest of all that a model's vectors depend on: its options, its weights, and its words."""
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
    """Vectors of many sentences, quicker than calls of the encoder one after the other.

    Sentences of similar length share a batch, and each distinct word of all sentences passes the
    character CNN once. All results are in memory together; `elmo-embed` writes them to a file.

    Args:
      encoder: the model.
      sentences: lists of tokens; or raw strings, which become tokens by the model's own tokenizer
        and normalization, or at white space where the model does not know any;
        either in any form that `elmo_tf.text.forms` lists.
      layers: which vectors, see `SentenceVectors`.
      batch_tokens: see `batches_by_tokens`. It moves no vector by more than rounding does.

    Returns:
      For each sentence, in the order given, a float32 array as `SentenceVectors` says.

    Raises:
      InputError: `layers` or `batch_tokens` is not allowed; a token is not a string or holds white
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
