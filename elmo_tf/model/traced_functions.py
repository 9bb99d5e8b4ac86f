"""Traced functions that serve every batch size and length."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf

from elmo_tf.model import memory

# Types whose second dimension is a length too: tokens and character ids, and not a state.
_TYPES_WITH_LENGTH = (tf.string, tf.int32)


class TracedFunctions:
    """The traced functions of one encoder: one for each function and form of input.

    A function is traced when it is first called with a form of input: which tensors there are,
    their types and their ranks. No batch size, length or value leads to another trace.

    A plain object, because Keras and `tf.train.Checkpoint` track what a layer's own attributes
    hold, and functions are no part of a model's content.
    """

    def __init__(self) -> None:
        self._functions: dict[tuple, tf.types.experimental.GenericFunction] = {}

    def run(self, function: Callable[..., Any], *arguments: Any, **options: Hashable) -> Any:
        """Calls `function(*arguments, **options)`.

        Within a caller's graph it becomes part of that; otherwise it runs in a trace of its own.

        Args:
          function: one that outlives its calls, such as a method of the encoder: what is made for
            one call is traced for each.
          arguments: tensors, arrays, tuples of them, or None.
          options: Python values; there is a trace for each combination.
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
        """How often each function was traced."""
        return [each.experimental_get_tracing_count() for each in self._functions.values()]


def _traced(
    function: Callable[..., Any],
    arguments: tuple,
    tensors: list[tf.Tensor],
    options: dict[str, Hashable],
) -> tf.types.experimental.GenericFunction:
    """A function of the tensors among `arguments`, in their order."""
    structure = tf.nest.map_structure(lambda leaf: leaf is not None, arguments)
    # TensorFlow tells functions apart by their code where it warns of frequent retracing. A partial
    # has none; what one `def` made would look like a single function that is traced for each call.
    call = functools.partial(_call, function, structure, options)
    signature = [_any_size(tensor) for tensor in tensors]
    return tf.function(call, input_signature=signature, autograph=False)


def _call(
    function: Callable[..., Any], structure: Any, options: dict[str, Hashable], *tensors: tf.Tensor
) -> Any:
    """Calls with the next tensor for each True of the structure, and None for each False."""
    rest = iter(tensors)
    arguments = tf.nest.map_structure(
        lambda is_tensor: next(rest) if is_tensor else None, structure
    )
    return function(*arguments, **options)


def _any_size(tensor: tf.Tensor) -> tf.TensorSpec:
    """Batch and length vary; only the characters of a token, and a state's width, are fixed."""
    num_free = min(tensor.shape.rank, 2 if tensor.dtype in _TYPES_WITH_LENGTH else 1)
    return tf.TensorSpec([None] * num_free + list(tensor.shape[num_free:]), tensor.dtype)
