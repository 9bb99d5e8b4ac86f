"""Traced functions that serve every batch size and length."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf

# Types whose second dimension is a length too: tokens and character ids, and not a state.
_TYPES_WITH_LENGTH = (tf.string, tf.int32)


class Traces:
    """The traced functions of one encoder: one for each way in, whatever the shapes.

    A plain object, because Keras and `tf.train.Checkpoint` track what a layer's own attributes
    hold, and functions are no part of a model's content.
    """

    def __init__(self) -> None:
        self._functions: dict[tuple, tf.types.experimental.GenericFunction] = {}

    def run(
        self,
        way_in: Callable[..., Any],
        inputs: Sequence[tf.Tensor],
        state: Any,
        *options: Hashable,
    ) -> Any:
        """Calls `way_in(*inputs, state, *options)`; `return_state` is such an option.

        Within a caller's graph it becomes part of that; otherwise it runs in a trace of its own.
        """
        if tf.inside_function():
            return way_in(*inputs, state, *options)
        key = (way_in.__name__, state is not None, *options)
        arguments = list(inputs) if state is None else [*inputs, state]
        if key not in self._functions:
            rest = (None, *options) if state is None else options
            self._functions[key] = tf.function(
                lambda *tensors: way_in(*tensors, *rest),
                input_signature=tf.nest.map_structure(_any_size, arguments),
                autograph=False,
            )
        return self._functions[key](*arguments)

    @property
    def counts(self) -> list[int]:
        """How often each function was traced."""
        return [each.experimental_get_tracing_count() for each in self._functions.values()]


def _any_size(tensor: tf.Tensor) -> tf.TensorSpec:
    """Batch and length vary; only the characters of a token, and a state's width, are fixed."""
    num_free = min(tensor.shape.rank, 2 if tensor.dtype in _TYPES_WITH_LENGTH else 1)
    return tf.TensorSpec([None] * num_free + list(tensor.shape[num_free:]), tensor.dtype)
