"""Vectors of tokenized lines: one choice of an encoder's layers, and nothing computed besides."""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from elmo_tf import checks
from elmo_tf.batching import batches_by_tokens
from elmo_tf.encoder import ElmoEncoder
from elmo_tf.layers.bilm import BiLmState
from elmo_tf.text.chunks import Line
from elmo_tf.vectors.vector_file import LAYERS
from elmo_tf.weights.checkpoint import named_variables

# Lines that were computed together, and the vectors of each.
Computed = tuple[list[Line], list[np.ndarray]]


class SentenceVectors:
    """Computes one choice of vectors for batches of sentences.

    With P = `projection_dim` and n LSTM layers:

        all       `[n + 1, tokens, 2 * P]`  the word embedding doubled, then each LSTM layer
        elmo      `[tokens, 2 * P]`         the model's scalar mix of these
        top       `[tokens, 2 * P]`         the last LSTM layer
        average   `[tokens, 2 * P]`         the plain mean of all n + 1
        word      `[tokens, P]`             the word embedding; no LSTM is run

    One trace serves batches of every size and length.

    Args:
      encoder: the model.
      layers: one of the names above.
    """

    def __init__(self, encoder: ElmoEncoder, layers: str = "all") -> None:
        self._encoder = encoder
        self._layers = checks.one_of(*LAYERS)(layers, "layers")
        state = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec([None, tensor.shape[1]], tensor.dtype),
            encoder.zero_state(1),
        )
        signature = [tf.TensorSpec([None, None], tf.string), tf.TensorSpec([None], tf.int32)]
        self._pure = tf.function(self._compute, input_signature=signature, autograph=False)
        self._carrying = tf.function(
            self._compute, input_signature=[*signature, state], autograph=False
        )

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Of a sentence's vectors; None stands for its number of tokens."""
        lstm = self._encoder.config.lstm
        dim = lstm.projection_dim * (1 if self._layers == "word" else 2)
        return (lstm.num_layers + 1, None, dim) if self._layers == "all" else (None, dim)

    def zero_state(self) -> BiLmState:
        """The state before any text, of one row."""
        return self._encoder.zero_state(1)

    def empty(self) -> np.ndarray:
        """The vectors of a sentence without tokens."""
        return np.zeros([size or 0 for size in self.shape], np.float32)

    def __call__(self, sentences: Sequence[Sequence[bytes]]) -> list[np.ndarray]:
        """Vectors of each sentence, float32 of `shape`, each read by itself."""
        tokens, lengths = _padded(sentences)
        return _rows(self._pure(tokens, lengths)[0], lengths)

    def carry(
        self, sentences: Sequence[Sequence[bytes]], state: BiLmState
    ) -> tuple[list[np.ndarray], BiLmState]:
        """As the call, each row from its state; also the state after it, boundaries included."""
        tokens, lengths = _padded(sentences)
        vectors, state = self._carrying(tokens, lengths, state)
        return _rows(vectors, lengths), state

    def _compute(
        self, tokens: tf.Tensor, lengths: tf.Tensor, state: BiLmState | None = None
    ) -> tuple[tf.Tensor, BiLmState | None]:
        """Vectors `[batch, ..., max_tokens, dim]` and, if there was a state, the next one."""
        words = self._encoder.embed_tokens(tokens, lengths)  # [batch, max_tokens + 2, P]
        if self._layers == "word":
            return tf.cast(words[:, 1:-1], tf.float32), state
        layers, state = self._encoder.compute_layers(words, lengths, state, state is not None)
        if self._layers == "top":
            return layers[-1], state
        if self._layers == "elmo":
            return self._encoder.mix_layers(layers, lengths)["elmo"], state
        layers[0] = tf.concat([layers[0], layers[0]], axis=-1)
        if self._layers == "average":
            return tf.add_n(layers) / len(layers), state
        return tf.stack(layers, axis=1), state  # [batch, n + 1, max_tokens, 2 * P]


def _padded(sentences: Sequence[Sequence[bytes]]) -> tuple[tf.Tensor, np.ndarray]:
    """Tokens, string `[batch, max_tokens]`, and lengths, int32 `[batch]`."""
    lengths = np.array([len(sentence) for sentence in sentences], np.int32)
    width = lengths.max(initial=0)
    rows = [[*sentence, *[b""] * (width - len(sentence))] for sentence in sentences]
    return tf.reshape(tf.constant(rows, tf.string), [len(rows), width]), lengths


def _rows(vectors: tf.Tensor, lengths: np.ndarray) -> list[np.ndarray]:
    """Views of each row without its padding."""
    vectors = vectors.numpy()
    return [vectors[row, ..., :length, :] for row, length in enumerate(lengths)]


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
        # The longest first, so that what does not fit into memory fails at once.
        by_length = sorted((line for line in lines if line.tokens), key=_length, reverse=True)
        for batch in batches_by_tokens(by_length, self._batch_tokens, length=_length):
            yield batch, self._vectors([line.tokens for line in batch])

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
        parts = [np.ascontiguousarray(part) for part in tf.nest.flatten(self._state)]
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
    if encoder.vocabulary is not None:  # decides which word has which row of the table
        digest.update(repr(encoder.vocabulary.words).encode())
    for name, variable in sorted(named_variables(encoder).items()):
        values = np.ascontiguousarray(variable.numpy())
        digest.update(f"{name} {values.dtype.str} {values.shape} ".encode())
        digest.update(values)
    return digest.hexdigest()
