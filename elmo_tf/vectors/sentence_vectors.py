"""Vectors of tokenized sentences, for one choice of layers."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.config import checks
from elmo_tf.layers.bilm import BiLmState
from elmo_tf.model import pipeline
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.vectors.choices import LAYERS
from elmo_tf.vectors.word_vectors import WordVectors


class Words(NamedTuple):
    """Word embeddings of a set of tokens.

    Attributes:
      rows: the row of each token, including both boundaries.
      embeddings: `[words, projection_dim]`.
    """

    rows: dict[bytes, int]
    embeddings: tf.Tensor


class SentenceVectors:
    """Computes one choice of vectors for batches of sentences.

    With P = `projection_dim` and n LSTM layers:

        all       `[n + 1, tokens, 2 * P]`  the word embedding, repeated, then each LSTM layer
        elmo      `[tokens, 2 * P]`         the model's scalar mix of these
        top       `[tokens, 2 * P]`         the last LSTM layer
        average   `[tokens, 2 * P]`         the mean of all n + 1 layers
        word      `[tokens, P]`             the word embedding; the LSTMs are not computed

    All batch sizes and lengths, and all objects of one encoder, share one trace.

    Args:
      encoder: the model.
      layers: one of the names above.
    """

    def __init__(self, encoder: ElmoEncoder, layers: str = "all") -> None:
        self._encoder = encoder
        self._layers = checks.one_of(*LAYERS)(layers, "layers")
        self._embed = WordVectors(encoder)
        self._boundaries = encoder.token_input.boundary_tokens

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape of a sentence's vectors, with None for its number of tokens."""
        lstm = self._encoder.config.lstm
        dim = lstm.projection_dim * (1 if self._layers == "word" else 2)
        return (lstm.num_layers + 1, None, dim) if self._layers == "all" else (None, dim)

    def zero_state(self) -> BiLmState:
        """The zero state of one row."""
        return self._encoder.zero_state(1)

    def empty(self) -> np.ndarray:
        """The vectors of a sentence without tokens."""
        return np.zeros([size or 0 for size in self.shape], np.float32)

    def words(self, tokens: Iterable[bytes]) -> Words:
        """Embeds each distinct token once, although it may occur in several batches.

        Batches share frequent words: of the tokens of 512 sentences of 30 tokens a quarter are
        distinct, in batches of 32 sentences half.
        """
        # Keep the order of first occurrence, so that a repeated run is bitwise equal.
        distinct = list(dict.fromkeys([*self._boundaries, *tokens]))
        rows = {token: row for row, token in enumerate(distinct)}
        return Words(rows, self._embed(distinct))

    def __call__(
        self, sentences: Sequence[Sequence[bytes]], words: Words | None = None
    ) -> list[np.ndarray]:
        """Vectors of independent sentences, float32 of `shape` each.

        Args:
          sentences: lists of tokens.
          words: embeddings of all these tokens, if already computed.
        """
        arguments = self._arguments(sentences, words)
        return _rows(self._run(*arguments)[0], arguments[-1])

    def carry(
        self, sentences: Sequence[Sequence[bytes]], state: BiLmState
    ) -> tuple[list[np.ndarray], BiLmState]:
        """Like a call, with an initial state per row; also returns the state after each row."""
        arguments = self._arguments(sentences, None)
        vectors, after = self._run(*arguments, state)
        assert after is not None  # because an initial state was given
        return _rows(vectors, arguments[-1]), after

    def _arguments(
        self, sentences: Sequence[Sequence[bytes]], words: Words | None
    ) -> tuple[tf.Tensor, np.ndarray, np.ndarray]:
        """Embeddings, row indices `[batch, max_tokens + 2]` into them, and lengths `[batch]`."""
        if words is None:
            words = self.words(token for sentence in sentences for token in sentence)
        lengths = np.array([len(sentence) for sentence in sentences], np.int32)
        begin, end = self._boundaries
        # Padding may have any index; that of `</S>` is always in the table.
        places = np.full([len(lengths), lengths.max(initial=0) + 2], words.rows[end], np.int32)
        places[:, 0] = words.rows[begin]
        for row, sentence in enumerate(sentences):
            places[row, 1 : len(sentence) + 1] = [words.rows[token] for token in sentence]
        return words.embeddings, places, lengths

    def _run(self, *arguments: Any) -> tuple[tf.Tensor, BiLmState | None]:
        return self._encoder.traced.run(
            _compute, *arguments, model=self._encoder.parts, name=self._layers
        )


def _compute(
    embeddings: tf.Tensor,
    places: tf.Tensor,
    lengths: tf.Tensor,
    state: BiLmState | None = None,
    *,
    model: pipeline.Model,
    name: str,
) -> tuple[tf.Tensor, BiLmState | None]:
    """Vectors `[batch, ..., max_tokens, dim]` and, with an initial state, the next state."""
    words = tf.gather(embeddings, places)  # [batch, max_tokens + 2, P]
    if name == "word":
        return tf.cast(words[:, 1:-1], tf.float32), state
    layers, state = pipeline.run_layers(
        words, lengths, model.bilm, initial_state=state, return_state=state is not None
    )
    if name == "top":
        return layers[-1], state
    if name == "elmo":
        return pipeline.mix(layers, lengths, model.scalar_mix), state
    layers = pipeline.doubled(layers)
    if name == "average":
        return tf.add_n(layers) / len(layers), state
    return tf.stack(layers, axis=1), state  # [batch, n + 1, max_tokens, 2 * P]


def _rows(vectors: tf.Tensor, lengths: np.ndarray) -> list[np.ndarray]:
    """Views of each row without its padding."""
    vectors = vectors.numpy()
    return [vectors[row, ..., :length, :] for row, length in enumerate(lengths)]
