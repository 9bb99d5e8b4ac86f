"""Masks of the positions that hold tokens, for strings and for character ids."""

from typing import Any

import keras
import tensorflow as tf

from elmo_tf.model.inputs import boundaries
from elmo_tf.model.inputs.arguments import as_tensor
from elmo_tf.text.tokens import split_and_pad

# A Python list, a NumPy array or a tensor.
ArrayLike = Any


@keras.saving.register_keras_serializable(package="elmo_tf")
class TokenMask(keras.layers.Layer):
    """The mask of `ElmoEmbedding`'s results: bool `[batch, time]`.

    It is a layer because Functional models have no other operation on strings.

    Args:
      keep_boundaries: see `ElmoEmbedding`.
    """

    def __init__(self, keep_boundaries: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep_boundaries = keep_boundaries
        self.supports_jit = False
        self._allow_non_tensor_positional_args = True
        self._convert_input_args = False

    def call(self, inputs: ArrayLike) -> tf.Tensor:
        return mask_of(*tokens_and_lengths(as_tensor(inputs)), self.keep_boundaries)

    def compute_output_spec(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        time = inputs.shape[1] if len(inputs.shape) > 1 else None
        if time is not None and self.keep_boundaries:
            time += 2
        return keras.KerasTensor((inputs.shape[0], time), dtype="bool")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "keep_boundaries": self.keep_boundaries}


def tokens_and_lengths(inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Tokens `[batch, time]` or ids `[batch, time, ...]`; int32 `[batch]`."""
    if inputs.shape.rank == 1:
        return split_and_pad(inputs)
    if inputs.dtype == tf.string:
        return inputs, boundaries.lengths_of_tokens(inputs)
    return inputs, boundaries.lengths_of_ids(inputs)


def mask_of(tokens: tf.Tensor, lengths: tf.Tensor, keep_boundaries: bool) -> tf.Tensor:
    """Bool `[batch, time]`, or `[batch, time + 2]` with the boundaries."""
    extra = 2 if keep_boundaries else 0
    return tf.sequence_mask(lengths + extra, tf.shape(tokens)[1] + extra)
