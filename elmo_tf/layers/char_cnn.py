"""The character CNN: computes a vector for each token from its characters."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from elmo_tf.layers.highway import Highway
from elmo_tf.layers.initial_values import InitialValues
from elmo_tf.layers.seeds import derive_seed

ACTIVATIONS = {"relu": tf.nn.relu, "tanh": tf.nn.tanh}


@keras.saving.register_keras_serializable(package="elmo_tf")
class CharCnn(keras.layers.Layer):
    """Computes token vectors by convolution, maximum over time, highway layers and projection.

    For the characters c_1 .. c_M of a token, and the filters i of width w:

        e_t = embedding[c_t - 1], or zeros where c_t is 0
        h_i = activation(max over t of (convolution_bias_i
                  + sum over k < w of e_{t+k} @ convolution_kernel_i[k])),   1 <= t <= M - w + 1
        x   = the concatenated h_i, passed through the `Highway` layers      [num_filters]
        y   = x @ projection_kernel + projection_bias                        [projection_dim]

    There is no projection (`projection_kernel` is None) if num_filters == projection_dim.

    Weights and their initial values: `embedding [num_characters, embedding_dim]`, uniform(-1, 1);
    `convolution_kernel_0 .. [width, embedding_dim, filters]`, uniform(-0.05, 0.05) for relu or
    normal(0, sqrt(1 / (width * embedding_dim))) for tanh; `projection_kernel [num_filters,
    projection_dim]`, normal(0, sqrt(1 / num_filters)); `convolution_bias_0 .. [filters]` and
    `projection_bias [projection_dim]`, zeros; `highway_0 ..`, see `Highway`.

    After its last character, a token is padded with a constant id, `filler_id`. All windows that
    contain only filler have the same value, so the layer computes one of them: the maximum and its
    gradient remain exact, and the cost depends on the true length of each token. Likewise, all
    windows of padding (rows of zeros) are equal, and one is computed.

    Args:
      embedding_dim: width of a character vector.
      filters: pairs (width in characters, number of filters).
      num_highway_layers: number of highway layers, 0 or more.
      projection_dim: width of the result.
      activation: "relu" or "tanh".
      num_characters: number of character vectors; ids range from 0 to num_characters inclusive.
      filler_id: id that pads a token to `max_characters`; None if there is no such id.
      seed: integer seed of the initial weights, from which each weight's seed is derived; layers
        with equal seeds start with equal weights. None: not repeatable.
      without_initialization: whether weights start as zeros, for weights read from a file.

    Call arguments:
      character_ids: int32 `[..., max_characters]`; max_characters is at least the widest filter.
      static_shapes: whether to compute every window, so that no shape depends on values and the
        layer compiles under XLA and for accelerators. The result is the same.

    Returns:
      float `[..., projection_dim]`. Vectors of padding (rows of zeros) are not zero: the caller
      masks them.

    Example:
      >>> layer = CharCnn(4, [(1, 8), (2, 9)], num_highway_layers=1, projection_dim=6)
      >>> layer(tf.ones([2, 3, 50], tf.int32)).shape
      TensorShape([2, 3, 6])

    References:
      Kim, Jernite, Sontag and Rush (2016), Character-Aware Neural Language Models,
      arXiv:1508.06615; Jozefowicz et al. (2016), Exploring the Limits of Language Modeling,
      arXiv:1602.02410.
    """

    def __init__(
        self,
        embedding_dim: int,
        filters: Sequence[tuple[int, int]],
        num_highway_layers: int,
        projection_dim: int,
        activation: str = "relu",
        num_characters: int = 261,
        filler_id: int | None = None,
        seed: int | None = None,
        without_initialization: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"CharCnn: activation must be one of {list(ACTIVATIONS)}, got {activation!r}"
            )
        self.embedding_dim = embedding_dim
        self.filters = tuple((int(width), int(count)) for width, count in filters)
        self.num_highway_layers = num_highway_layers
        self.projection_dim = projection_dim
        self.activation = activation
        self.num_characters = num_characters
        self.filler_id = filler_id
        self.seed = seed
        self._initial_values = InitialValues(seed, without_initialization)
        self.num_filters = sum(count for _, count in self.filters)
        self.widest_filter = max(width for width, _ in self.filters)
        for index in range(num_highway_layers):
            name = f"highway_{index}"
            highway = Highway(
                derive_seed(seed, name),
                without_initialization,
                name=name,
                dtype=self.dtype_policy,
            )
            setattr(self, name, highway)  # tf.train.Checkpoint does not track layers in a list

    def build(self, character_ids_shape: tuple[int | None, ...]) -> None:
        self.embedding = self.add_weight(
            name="embedding",
            shape=(self.num_characters, self.embedding_dim),
            autocast=False,  # its gradient sums over many positions, which needs float32
            initializer=self._initial_values.uniform(1.0, "embedding"),
        )
        for index, (width, count) in enumerate(self.filters):
            self._add_convolution(index, width, count)
        for index in range(self.num_highway_layers):
            getattr(self, f"highway_{index}").build((None, self.num_filters))
        self.projection_kernel = self.projection_bias = None
        if self.num_filters != self.projection_dim:
            self.projection_kernel = self.add_weight(
                name="projection_kernel",
                shape=(self.num_filters, self.projection_dim),
                initializer=self._initial_values.normal(
                    math.sqrt(1 / self.num_filters), "projection_kernel"
                ),
            )
            self.projection_bias = self.add_weight(
                name="projection_bias", shape=(self.projection_dim,), initializer="zeros"
            )

    def _add_convolution(self, index: int, width: int, count: int) -> None:
        name = f"convolution_kernel_{index}"
        if self.activation == "relu":
            initializer = self._initial_values.uniform(0.05, name)
        else:
            stddev = math.sqrt(1 / (width * self.embedding_dim))
            initializer = self._initial_values.normal(stddev, name)
        shape = (width, self.embedding_dim, count)
        setattr(self, name, self.add_weight(name=name, shape=shape, initializer=initializer))
        name = f"convolution_bias_{index}"
        setattr(self, name, self.add_weight(name=name, shape=(count,), initializer="zeros"))

    def call(self, character_ids: tf.Tensor, static_shapes: bool = False) -> tf.Tensor:
        character_ids = tf.convert_to_tensor(character_ids)
        max_characters = character_ids.shape[-1]
        if max_characters is None or max_characters < self.widest_filter:
            raise ValueError(
                "CharCnn: the last dimension of character_ids must be known and at least "
                f"{self.widest_filter} (the widest filter), got {max_characters}"
            )
        token_ids = tf.reshape(character_ids, [-1, max_characters])  # [tokens, max_characters]
        vectors = self._convolve(token_ids, static_shapes)
        if self.num_highway_layers:
            columns = tf.transpose(vectors)  # [num_filters, tokens]
            for index in range(self.num_highway_layers):
                columns = getattr(self, f"highway_{index}").columns(columns)
            vectors = tf.transpose(columns)
        if self.projection_kernel is not None:
            vectors = tf.matmul(vectors, self.projection_kernel) + self.projection_bias
        shape = tf.concat([tf.shape(character_ids)[:-1], [self.projection_dim]], axis=0)
        vectors = tf.reshape(vectors, shape)  # [..., projection_dim]
        vectors.set_shape(self.compute_output_shape(character_ids.shape))
        return vectors

    def _convolve(self, token_ids: tf.Tensor, static_shapes: bool) -> tf.Tensor:
        """Character ids `[tokens, max_characters]` to filter outputs `[tokens, num_filters]`."""
        table = tf.pad(self.embedding, [[1, 0], [0, 0]])  # row 0, padding, is zeros
        embedded = tf.gather(table, token_ids)  # [tokens, max_characters, embedding_dim]
        embedded = tf.cast(embedded, self.compute_dtype)
        windows = None
        if not static_shapes and self.filler_id is not None:
            windows = distinct_windows(token_ids, self.filler_id)
        outputs = []
        for index in range(len(self.filters)):
            kernel = tf.convert_to_tensor(getattr(self, f"convolution_kernel_{index}"))
            if windows is None:
                maxima = max_of_every_window(embedded, kernel)
            else:
                maxima = max_of_windows(embedded, kernel, windows)
            # Bias and activation are monotone, so applying them after the maximum is equivalent
            # and cheaper.
            bias = getattr(self, f"convolution_bias_{index}")
            outputs.append(ACTIVATIONS[self.activation](maxima + bias))
        return tf.concat(outputs, axis=-1)

    def compute_output_shape(self, character_ids_shape: Sequence[int | None]) -> tuple:
        return (*character_ids_shape[:-1], self.projection_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "embedding_dim": self.embedding_dim,
            "filters": self.filters,
            "num_highway_layers": self.num_highway_layers,
            "projection_dim": self.projection_dim,
            "activation": self.activation,
            "num_characters": self.num_characters,
            "filler_id": self.filler_id,
            "seed": self.seed,
        }


class Windows(NamedTuple):
    """Start positions of character windows, sorted by token; each token has at least one.

    Attributes:
      token: int32 `[windows]`, row of the token.
      start: int32 `[windows]`, position of the window's first character.
    """

    token: tf.Tensor
    start: tf.Tensor


def distinct_windows(token_ids: tf.Tensor, filler_id: int) -> Windows:
    """For each token, the windows that start at a character, and one window of filler.

    English tokens have 9 of 50 characters on average, boundary marks included. With the original
    models' 2048 filters, 400 or 1000 distinct tokens and 2 cores, convolution and maximum take 0.5
    times as long as with all tokens cropped to the longest, and 0.25 times as long as with all 50
    positions; 0.6 and 0.25 times with the gradient. Sorting tokens by length into 4 or 8 crops, one
    wide kernel for all filters, and `unsorted_segment_max` were slower.
    """
    max_characters = token_ids.shape[-1]
    is_padding = tf.reduce_all(tf.equal(token_ids, 0), axis=-1, keepdims=True)  # [tokens, 1]
    is_character = tf.not_equal(token_ids, filler_id) & ~is_padding
    positions = tf.range(1, max_characters + 1)
    lengths = tf.reduce_max(tf.where(is_character, positions, 0), axis=-1)  # [tokens]
    is_start = tf.sequence_mask(lengths + 1, max_characters)  # 1 for the window of filler
    token, start = tf.unstack(tf.cast(tf.where(is_start), tf.int32), axis=-1)
    return Windows(token, start)


def max_of_windows(embedded: tf.Tensor, kernel: tf.Tensor, windows: Windows) -> tf.Tensor:
    """The maximum product of each filter over a token's windows: `[tokens, filters]`."""
    _, max_characters, embedding_dim = embedded.shape
    width, _, num_filters = kernel.shape
    # Clamp to the last valid start. A clamped window duplicates an existing one, so the maximum
    # is unchanged.
    start = tf.minimum(windows.start, max_characters - width)
    positions = (windows.token * max_characters + start)[:, tf.newaxis] + tf.range(width)
    characters = tf.gather(tf.reshape(embedded, [-1, embedding_dim]), positions)
    characters = tf.reshape(characters, [-1, width * embedding_dim])  # [windows, width * dim]
    products = tf.matmul(characters, tf.reshape(kernel, [-1, num_filters]))
    return tf.math.segment_max(products, windows.token)


def max_of_every_window(embedded: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Like `max_of_windows`, over all windows."""
    _, max_characters, embedding_dim = embedded.shape
    width, _, num_filters = kernel.shape
    num_windows = max_characters - width + 1
    # Not tf.nn.conv1d: it is not faster, and has a wrong number of filters for an empty batch.
    shifted = [embedded[:, offset : offset + num_windows] for offset in range(width)]
    characters = tf.reshape(tf.concat(shifted, axis=-1), [-1, width * embedding_dim])
    products = tf.matmul(characters, tf.reshape(kernel, [-1, num_filters]))
    return tf.reduce_max(tf.reshape(products, [-1, num_windows, num_filters]), axis=1)
