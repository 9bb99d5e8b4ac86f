"""Traced functions that serve every batch size and length."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf

from elmo_tf.model import memory

# Types of tensors whose second dimension varies: tokens and ids, but not a state.
_TYPES_WITH_LENGTH = (tf.string, tf.int32)


class TracedFunctions:
    """The traced functions of one encoder: one for each function and form of input.

    A form of input is the structure, dtypes and ranks of the tensors. A function is traced at the
    first call with each form, and not again for other batch sizes, lengths or values.

    This is a plain object because Keras and `tf.train.Checkpoint` would track the functions in a
    layer's attributes, and functions are not part of a model's weights.
    """

    def __init__(self) -> None:
        self._functions: dict[tuple, tf.types.experimental.GenericFunction] = {}

    def run(self, function: Callable[..., Any], *arguments: Any, **options: Hashable) -> Any:
        """Calls `function(*arguments, **options)`.

        Within a caller's graph it is inlined; otherwise it runs as a traced function.

        Args:
          function: a function that exists across calls, such as a method of the encoder. One that
            is created for each call would be traced at each call.
          arguments: tensors, arrays, tuples of them, or None.
          options: Python values; each combination has a trace.
        """
        if tf.inside_function():
            return function(*arguments, **options)
        leaves = tf.nest.flatten(arguments)
        tensors = [tf.convert_to_tensor(leaf) for leaf in leaves if leaf is not None]
        forms = tuple((tensor.dtype, tensor.shape.rank) for tensor in tensors)
        absent = tuple(leaf is None for leaf in leaves)
        key = (function, forms, absent, tuple(options.items()))
        if key not in self._functions:
            self._functions[key] = _traced(function, arguments, tensors, options)
        shapes = " and ".join(str(list(tensor.shape)) for tensor in tensors[:2])
        with memory.named(f"inputs of shape {shapes}, together too many"):
            return self._functions[key](*tensors)

    @property
    def counts(self) -> list[int]:
        """The number of traces of each function."""
        return [each.experimental_get_tracing_count() for each in self._functions.values()]


def _traced(
    function: Callable[..., Any],
    arguments: tuple,
    tensors: list[tf.Tensor],
    options: dict[str, Hashable],
) -> tf.types.experimental.GenericFunction:
    """A traced function of the tensors in `arguments`, in their order."""
    structure = tf.nest.map_structure(lambda leaf: leaf is not None, arguments)
    # TensorFlow warns of frequent retracing by code object. A partial has none, whereas closures of
    # one `def` would all count as one function that is traced again and again.
    call = functools.partial(_call, function, structure, options)
    signature = [_any_size(tensor) for tensor in tensors]
    return tf.function(call, input_signature=signature, autograph=False)


def _call(
    function: Callable[..., Any], structure: Any, options: dict[str, Hashable], *tensors: tf.Tensor
) -> Any:
    """Calls `function` with the next tensor for each True in the structure, None for each False."""
    rest = iter(tensors)
    arguments = tf.nest.map_structure(
        lambda is_tensor: next(rest) if is_tensor else None, structure
    )
    return function(*arguments, **options)


def _any_size(tensor: tf.Tensor) -> tf.TensorSpec:
    """A spec of any batch size and length; only characters per token and state width are fixed."""
    num_free = min(tensor.shape.rank, 2 if tensor.dtype in _TYPES_WITH_LENGTH else 1)
    return tf.TensorSpec([None] * num_free + list(tensor.shape[num_free:]), tensor.dtype)
