"""Gradient accumulation: a step computes a large window in parts, each with some of its rows.

All parts use the same weights. Between parts only the sums of the gradients are stored and, for an
embedding table, only the rows that occur. A step therefore needs the memory of one part. Its result
equals that of the whole window except for floating-point summation order, because dropout masks and
negative samples are those of the whole window.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow as tf

from elmo_tf.layers.bilm import BiLmState
from elmo_tf.layers.dropout import RowsSeed
from elmo_tf.model.language_model import WindowTensors
from elmo_tf.training.optimizers import Gradient

# (losses [2], gradients, next state) of a window, its dropout seed and its state.
Results = tuple[tf.Tensor, list[Gradient], BiLmState]
OfWindow = Callable[[WindowTensors, RowsSeed, BiLmState], Results]
# What is stored of a gradient between parts: its sum, or TensorArrays of its values and indices.
Kept: TypeAlias = tf.Tensor | tuple[tf.TensorArray, tf.TensorArray]


def accumulate(
    of_window: OfWindow,
    shapes: Sequence[tf.TensorShape],
    window: WindowTensors,
    seed: RowsSeed,
    state: BiLmState,
    num_parts: int,
) -> Results:
    """Computes the parts of a window in sequence: mean losses, mean gradients, and the next state.

    Args:
      of_window: computes one part, with means over its rows.
      shapes: shapes of the gradients.
      window: the window; its number of rows is a multiple of `num_parts`.
      seed: the dropout seed of the window's rows.
      state: the initial LSTM state of each row.
      num_parts: number of parts, which have equal numbers of rows.
    """
    num_rows = window.lengths.shape[0] // num_parts
    of_part = tf.function(of_window, autograph=False)

    def part(index: tf.Tensor) -> tuple[WindowTensors, RowsSeed, BiLmState]:
        first = index * num_rows
        return (
            rows_of_window(window, first, num_rows),
            seed._replace(first_row=seed.first_row + first),
            tf.nest.map_structure(lambda each: rows_of(each, 0, first, num_rows), state),
        )

    def body(index: tf.Tensor, sums: tf.Tensor, kept: list[Kept], states: list) -> tuple:
        losses, gradients, next_state = of_part(*part(index))
        kept = [_add(each, index, new) for each, new in zip(kept, gradients, strict=True)]
        new_states = zip(states, tf.nest.flatten(next_state), strict=True)
        return index + 1, sums + losses, kept, [each.write(index, new) for each, new in new_states]

    losses, gradients, _ = of_part.get_concrete_function(*part(tf.constant(0))).structured_outputs
    kept = [_nothing(gradient, num_parts) for gradient in gradients]
    states = [
        _array(each.dtype, [num_rows, *each.shape[1:]], num_parts)
        for each in tf.nest.flatten(state)
    ]
    begin = (tf.constant(0), tf.zeros(losses.shape), kept, states)
    _, sums, kept, states = tf.while_loop(
        lambda index, *_: index < num_parts, body, begin, parallel_iterations=1
    )
    gradients = [_mean(each, shape, num_parts) for each, shape in zip(kept, shapes, strict=True)]
    states = [
        tf.ensure_shape(array.concat(), before.shape)
        for array, before in zip(states, tf.nest.flatten(state), strict=True)
    ]
    return sums / num_parts, gradients, tf.nest.pack_sequence_as(state, states)


def _array(dtype: tf.DType, element_shape: list[int | None], size: int) -> tf.TensorArray:
    return tf.TensorArray(dtype, size, element_shape=element_shape, infer_shape=False)


def _nothing(gradient: Gradient, num_parts: int) -> Kept:
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.zeros(gradient.shape, gradient.dtype)
    values, indices = gradient.values, gradient.indices
    return (
        _array(values.dtype, [None, *values.shape[1:]], num_parts),
        _array(indices.dtype, [None], num_parts),
    )


def _add(kept: Kept, index: tf.Tensor, gradient: Gradient) -> Kept:
    if not isinstance(gradient, tf.IndexedSlices):
        return kept + gradient
    values, indices = kept
    return values.write(index, gradient.values), indices.write(index, gradient.indices)


def _mean(kept: Kept, shape: tf.TensorShape, num_parts: int) -> Gradient:
    if isinstance(kept, tf.Tensor):
        return kept / num_parts
    values, indices = (array.concat() for array in kept)
    return tf.IndexedSlices(values / num_parts, indices, tf.constant(tuple(shape)))


def rows_of_window(window: WindowTensors, first_row: tf.Tensor, num_rows: int) -> WindowTensors:
    """`num_rows` rows of a window, with only the tokens that occur in them."""
    token_index = rows_of(window.token_index, 1, first_row, num_rows)
    tokens, places = tf.unique(tf.reshape(token_index, [-1]))
    return WindowTensors(
        tf.gather(window.token_ids, tokens),
        tf.reshape(places, token_index.shape),
        rows_of(window.targets, 1, first_row, num_rows),
        rows_of(window.lengths, 0, first_row, num_rows),
    )


def rows_of(tensor: tf.Tensor, axis: int, first_row: tf.Tensor | int, num_rows: int) -> tf.Tensor:
    """`num_rows` slices of a tensor along its batch axis."""
    begin, size = [0] * tensor.shape.rank, tensor.shape.as_list()
    begin[axis], size[axis] = first_row, num_rows
    return tf.slice(tensor, begin, size)
