"""Token vectors from a word table and a character CNN, concatenated and projected."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.layers.char_cnn import CharCnn
from elmo_tf.layers.initial_values import InitialValues
from elmo_tf.layers.seeds import derive_seed
from elmo_tf.layers.word_embedding import WordEmbedding


@keras.saving.register_keras_serializable(package="elmo_tf")
class DictionaryEmbedding(keras.layers.Layer):
    """Computes token vectors like the token embedder of ELMoForManyLangs.

        x = [word_embedding[word id], char_cnn(character ids)]       [word_dim + num_filters]
        y = x @ projection_kernel + projection_bias                  [projection_dim]

    One of the two parts can be absent. `char_cnn` is a `CharCnn` without projection,
    `word_embedding` a `WordEmbedding`. The layer's own weights and their initial values are
    `projection_kernel [word_dim + num_filters, projection_dim]`, normal(0, sqrt(1 / (word_dim +
    num_filters))), and `projection_bias [projection_dim]`, zeros.

    Args:
      projection_dim: width of the result.
      word_dim: width of a word's vector; 0 for no word table.
      num_words: number of words.
      char_dim: width of a character's vector; 0 for no character CNN.
      num_characters: number of characters.
      filters: pairs (width in characters, number of filters).
      num_highway_layers: number of highway layers, 0 or more.
      activation: "relu" or "tanh".
      filler_id: id that pads a token to the maximum number of characters; None if there is none.
      seed: integer seed of the initial weights; None: not repeatable.
      without_initialization: whether weights start as zeros, for weights read from a file.

    Call arguments:
      token_ids: int32 `[..., parts]`: the word id, if there is a word table, followed by the
        character ids, if there is a character CNN. 0 is padding.
      static_shapes: as for `CharCnn`.

    Returns:
      float `[..., projection_dim]`. Vectors of padding are not zero: the caller masks them.

    Example:
      >>> layer = DictionaryEmbedding(6, word_dim=3, num_words=10, char_dim=2, num_characters=9,
      ...                             filters=[(1, 4), (2, 5)])
      >>> layer(tf.ones([2, 7, 1 + 12], tf.int32)).shape
      TensorShape([2, 7, 6])

    Reference:
      Che et al. 2018, "Towards Better UD Parsing", https://arxiv.org/abs/1807.03121, section 2.
    """

    def __init__(
        self,
        projection_dim: int,
        word_dim: int = 0,
        num_words: int = 0,
        char_dim: int = 0,
        num_characters: int = 0,
        filters: Sequence[tuple[int, int]] = ((1, 32),),
        num_highway_layers: int = 0,
        activation: str = "relu",
        filler_id: int | None = None,
        seed: int | None = None,
        without_initialization: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not word_dim and not char_dim:
            raise ValueError("DictionaryEmbedding: word_dim or char_dim must be at least 1, got 0")
        self.projection_dim = projection_dim
        self.word_dim = word_dim
        self.num_words = num_words
        self.char_dim = char_dim
        self.num_characters = num_characters
        self.filters = tuple((int(width), int(count)) for width, count in filters)
        self.num_highway_layers = num_highway_layers
        self.activation = activation
        self.filler_id = filler_id
        self.seed = seed
        self._initial_values = InitialValues(seed, without_initialization)
        self.num_filters = sum(count for _, count in self.filters) if char_dim else 0
        options = {"without_initialization": without_initialization, "dtype": self.dtype_policy}
        if word_dim:
            self.word_embedding = WordEmbedding(
                num_words,
                word_dim,
                seed=derive_seed(seed, "word_embedding"),
                name="word_embedding",
                **options,
            )
        if char_dim:
            self.char_cnn = CharCnn(
                char_dim,
                self.filters,
                num_highway_layers,
                projection_dim=self.num_filters,
                activation=activation,
                num_characters=num_characters,
                filler_id=filler_id,
                seed=derive_seed(seed, "char_cnn"),
                name="char_cnn",
                **options,
            )

    def build(self, token_ids_shape: tuple[int | None, ...]) -> None:
        width = self.word_dim + self.num_filters
        if self.word_dim:
            self.word_embedding.build(token_ids_shape[:-1])
        if self.char_dim:
            self.char_cnn.build(token_ids_shape)
        self.projection_kernel = self.add_weight(
            name="projection_kernel",
            shape=(width, self.projection_dim),
            initializer=self._initial_values.normal(math.sqrt(1 / width), "projection_kernel"),
        )
        self.projection_bias = self.add_weight(
            name="projection_bias", shape=(self.projection_dim,), initializer="zeros"
        )

    def call(self, token_ids: tf.Tensor, static_shapes: bool = False) -> tf.Tensor:
        token_ids = tf.convert_to_tensor(token_ids)
        parts = []
        if self.word_dim:
            parts.append(self.word_embedding(token_ids[..., 0]))
            token_ids = token_ids[..., 1:]
        if self.char_dim:
            parts.append(self.char_cnn(token_ids, static_shapes=static_shapes))
        joined = tf.concat(parts, axis=-1)  # [..., word_dim + num_filters]
        return tf.matmul(joined, self.projection_kernel) + self.projection_bias

    def compute_output_shape(self, token_ids_shape: Sequence[int | None]) -> tuple:
        return (*token_ids_shape[:-1], self.projection_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "projection_dim": self.projection_dim,
            "word_dim": self.word_dim,
            "num_words": self.num_words,
            "char_dim": self.char_dim,
            "num_characters": self.num_characters,
            "filters": self.filters,
            "num_highway_layers": self.num_highway_layers,
            "activation": self.activation,
            "filler_id": self.filler_id,
            "seed": self.seed,
        }
