"""A table of word vectors, one per word of the vocabulary, instead of the character CNN."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.layers.initial_values import InitialValues
from elmo_tf.layers.variable_rows import gather_rows


@keras.saving.register_keras_serializable(package="elmo_tf")
class WordEmbedding(keras.layers.Layer):
    """Reads the vector of each word from a table: y = embedding[id - 1].

    The gradient is a `tf.IndexedSlices` with only the rows in use, so the cost of a training step
    does not depend on the number of words.

    Weight: `embedding [vocabulary_size, projection_dim]`, initialized with normal(0, 1 /
    sqrt(projection_dim)), so that vectors have length 1 on average. bilm-tf initializes its softmax
    in this way, which also suits a table shared with the softmax. bilm-tf's own table has Glorot's
    uniform(-a, a), a = sqrt(6 / (vocabulary_size + projection_dim)), which is almost zero for a
    large vocabulary. The table is float32 under any dtype policy; results have the compute dtype.

    Args:
      vocabulary_size: number of words.
      projection_dim: width of the result.
      seed: integer seed of the initial weights; None: not repeatable.
      without_initialization: whether weights start as zeros, for weights read from a file.

    Call arguments:
      word_ids: int32 of any shape, from 0 to vocabulary_size inclusive; 0 is padding. Other ids are
        an error on CPUs; GPUs and XLA don't check.
      static_shapes: for compatibility with `CharCnn`; ignored, as shapes never depend on values.

    Returns:
      float `[..., projection_dim]`. Vectors of padding are not zero: the caller masks them.

    Example:
      >>> layer = WordEmbedding(vocabulary_size=10_000, projection_dim=64)
      >>> layer(tf.constant([[17, 4, 0]])).shape
      TensorShape([1, 3, 64])

    Reference:
      bilm-tf, with options that have no `char_cnn`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        projection_dim: int,
        seed: int | None = None,
        without_initialization: bool = False,
        **kwargs: Any,
    ) -> None:
        # No autocast, here and for the weight: it would copy the whole table in each step.
        super().__init__(autocast=False, **kwargs)
        if vocabulary_size < 1:
            raise ValueError(
                f"WordEmbedding: vocabulary_size must be at least 1, got {vocabulary_size}"
            )
        self.vocabulary_size = vocabulary_size
        self.projection_dim = projection_dim
        self.seed = seed
        self._initial_values = InitialValues(seed, without_initialization)

    def build(self, word_ids_shape: tuple[int | None, ...]) -> None:
        self.embedding = self.add_weight(
            name="embedding",
            shape=(self.vocabulary_size, self.projection_dim),
            initializer=self._initial_values.normal(
                1 / math.sqrt(self.projection_dim), "embedding"
            ),
            dtype="float32",
            autocast=False,
        )

    def call(self, word_ids: tf.Tensor, static_shapes: bool = False) -> tf.Tensor:
        word_ids = tf.convert_to_tensor(word_ids)
        rows = tf.where(word_ids == 0, 0, word_ids - 1)  # negative ids remain negative: an error
        # Not a copy of the table, whose gradient would be dense.
        return tf.cast(gather_rows(self.embedding, rows), self.compute_dtype)

    def compute_output_shape(self, word_ids_shape: Sequence[int | None]) -> tuple:
        return (*word_ids_shape, self.projection_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "projection_dim": self.projection_dim,
            "seed": self.seed,
        }
