"""What users hand to a layer, text in any of Python's forms, as tensors."""

from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.text.characters import token_bytes


def as_tensor(inputs: Any) -> tf.Tensor:
    """Text, tokens or character ids as a tensor.

    Args:
      inputs: a list, tuple or NumPy array of `str` or `bytes` (text); a list of such lists, of any
        lengths (tokens); numbers in any form; or a tensor, which may be ragged.

    Returns:
      Strings as their bytes (see `token_bytes`), rows filled up with "" to one width; integers as
      int32, ragged ones filled up with 0; anything else as TensorFlow converts it.
    """
    if isinstance(inputs, tf.RaggedTensor):
        inputs = inputs.to_tensor()
    elif isinstance(inputs, np.ndarray) and inputs.dtype.kind in "OU":
        inputs = inputs.tolist()
    if isinstance(inputs, (list, tuple)):
        if all(map(_is_string, inputs)):
            inputs = _string_tensor([token_bytes(text) for text in inputs], [len(inputs)])
        elif all(isinstance(row, (list, tuple)) and all(map(_is_string, row)) for row in inputs):
            width = max(map(len, inputs))
            rows = [[*map(token_bytes, row), *[b""] * (width - len(row))] for row in inputs]
            inputs = _string_tensor(rows, [len(rows), width])
    inputs = tf.convert_to_tensor(inputs)
    if inputs.dtype == tf.float32 and inputs.shape.num_elements() == 0:
        inputs = tf.as_string(inputs)  # what TensorFlow makes of lists without any string
    # Clipped, not wrapped round: a number beyond int32 must not become some character's id.
    return tf.saturate_cast(inputs, tf.int32) if inputs.dtype.is_integer else inputs


def _string_tensor(strings: list, shape: list[int]) -> tf.Tensor:
    return tf.constant(strings, tf.string, shape)  # a list without strings would have no type


def _is_string(value: Any) -> bool:
    return isinstance(value, (str, bytes))
