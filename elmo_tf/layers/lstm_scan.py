"""The recurrence of a projected LSTM, feature-major: `[features, batch]`, kernels on the left.

Everything here is a pure function. `scan` runs the steps; `scan_with_saved_gates` gives the same
values and a gradient written by hand that costs one product per weight instead of one per step.
Products of the shape `[4 * units, P] x [P, batch]` run near the machine's limit at each batch
size, which the usual `[batch, P] x [P, 4 * units]` does not: 188 ms against 395 ms for one
layer of the original size, both directions, 24 steps of batch 32 (performance.md, point 1).
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf


class LstmState(NamedTuple):
    """State between two steps: `hidden` `[batch, projection_dim]`, `cell` `[batch, units]`."""

    hidden: tf.Tensor
    cell: tf.Tensor


class Recurrence(NamedTuple):
    """What a step needs beside its inputs.

    Attributes:
      recurrent_kernel: `[4 * units, projection_dim]`.
      projection_kernel: `[projection_dim, units]`, or None where the output is the hidden vector.
      cell_clip: limit of the cell's magnitude, or None.
      projection_clip: limit of the projected output's magnitude, or None; without a projection
        it does nothing, as in TensorFlow's `LSTMCell`.
    """

    recurrent_kernel: tf.Tensor
    projection_kernel: tf.Tensor | None
    cell_clip: float | None
    projection_clip: float | None


def _clip(value: tf.Tensor, limit: float | None) -> tf.Tensor:
    return value if limit is None else tf.clip_by_value(value, -limit, limit)


def activate(gates: tf.Tensor, axis: int = 0) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Splits `[4 * units, batch]` into activated (i, j, f, o); 1 is added to the forget gate."""
    i, j, f, o = tf.split(gates, 4, axis=axis)
    return tf.sigmoid(i), tf.tanh(j), tf.sigmoid(f + 1.0), tf.sigmoid(o)


def step(
    input_gates: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, recurrence: Recurrence
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """One step: `[4 * units, batch]` from the input, and the state, to (hidden, cell, gates)."""
    gates = input_gates + tf.matmul(recurrence.recurrent_kernel, hidden)  # [4 * units, batch]
    i, j, f, o = activate(gates)
    cell = _clip(f * cell + i * j, recurrence.cell_clip)  # [units, batch]
    hidden = o * tf.tanh(cell)
    if recurrence.projection_kernel is not None:
        projected = tf.matmul(recurrence.projection_kernel, hidden)  # [projection_dim, batch]
        hidden = _clip(projected, recurrence.projection_clip)
    return hidden, cell, gates


def scan(
    input_gates: tf.Tensor,
    hidden: tf.Tensor,
    cell: tf.Tensor,
    recurrence: Recurrence,
    lengths: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs all steps.

    Args:
      input_gates: `[time, 4 * units, batch]`, the input's part of the gates, bias included.
      hidden: `[projection_dim, batch]`.
      cell: `[units, batch]`.
      recurrence: weights and clips.
      lengths: int32 `[batch]` or None. If given, a row's state stops changing after its length.

    Returns:
      Outputs `[time, projection_dim, batch]` (past a row's length without meaning), and the last
      hidden and cell state.
    """
    num_steps = tf.shape(input_gates)[0]
    outputs = tf.TensorArray(input_gates.dtype, num_steps, element_shape=hidden.shape)

    def body(time: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, outputs: tf.TensorArray) -> tuple:
        new_hidden, new_cell, _ = step(input_gates[time], hidden, cell, recurrence)
        if lengths is not None:
            is_real = (time < lengths)[tf.newaxis, :]  # [1, batch]
            new_hidden = tf.where(is_real, new_hidden, hidden)
            new_cell = tf.where(is_real, new_cell, cell)
        return time + 1, new_hidden, new_cell, outputs.write(time, new_hidden)

    _, hidden, cell, outputs = tf.while_loop(
        lambda time, *_: time < num_steps, body, (0, hidden, cell, outputs)
    )
    return outputs.stack(), hidden, cell


def scan_with_saved_gates(
    input_gates: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, recurrence: Recurrence
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """`scan` for training: keeps the gates of all steps for a gradient of few, large products.

    TensorFlow's own gradient of the loop adds a `[4 * units, projection_dim]` product and the
    accumulation of its result to every step (performance.md, point 7).
    """
    kernels = [recurrence.recurrent_kernel]
    if recurrence.projection_kernel is not None:
        kernels.append(recurrence.projection_kernel)

    @tf.custom_gradient
    def run(
        input_gates: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, *kernels: tf.Tensor
    ) -> tuple:
        local = recurrence._replace(
            recurrent_kernel=kernels[0],
            projection_kernel=kernels[1] if len(kernels) > 1 else None,
        )
        saved = _forward(input_gates, hidden, cell, local)
        results = (saved.outputs, saved.outputs[-1], saved.cells[-1])
        return results, lambda *gradients: _backward(saved, hidden, cell, local, *gradients)

    return run(input_gates, hidden, cell, *kernels)


class _Saved(NamedTuple):
    outputs: tf.Tensor  # [time, projection_dim, batch]
    cells: tf.Tensor  # [time, units, batch]
    gates: tf.Tensor  # [time, 4 * units, batch], before activation


def _forward(
    input_gates: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, recurrence: Recurrence
) -> _Saved:
    num_steps = tf.shape(input_gates)[0]

    def array(element_shape: tf.TensorShape) -> tf.TensorArray:
        return tf.TensorArray(input_gates.dtype, num_steps, element_shape=element_shape)

    arrays = _Saved(array(hidden.shape), array(cell.shape), array(input_gates.shape[1:]))

    def body(time: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, arrays: _Saved) -> tuple:
        hidden, cell, gates = step(input_gates[time], hidden, cell, recurrence)
        arrays = _Saved(
            arrays.outputs.write(time, hidden),
            arrays.cells.write(time, cell),
            arrays.gates.write(time, gates),
        )
        return time + 1, hidden, cell, arrays

    loop = tf.while_loop(lambda time, *_: time < num_steps, body, (0, hidden, cell, arrays))
    return _Saved(*(array.stack() for array in loop[3]))


def _inside(value: tf.Tensor, limit: float | None) -> Callable[[tf.Tensor], tf.Tensor]:
    """The gradient of a clip, from the clipped value: nothing passes where it sits at the limit."""
    if limit is None:
        return lambda gradient: gradient
    return lambda gradient: tf.where(tf.abs(value) < limit, gradient, tf.zeros_like(gradient))


def _backward(
    saved: _Saved,
    hidden: tf.Tensor,
    cell: tf.Tensor,
    recurrence: Recurrence,
    d_outputs: tf.Tensor,
    d_hidden: tf.Tensor,
    d_cell: tf.Tensor,
) -> tuple[tf.Tensor, ...]:
    """Gradients of (input_gates, hidden, cell, *kernels); see `scan_with_saved_gates`."""
    has_projection = recurrence.projection_kernel is not None
    # Transposed once here: a transposed left side inside the loop is several times slower.
    recurrent_t = tf.transpose(recurrence.recurrent_kernel)  # [projection_dim, 4 * units]
    projection_t = tf.transpose(recurrence.projection_kernel) if has_projection else None
    num_steps = tf.shape(saved.gates)[0]
    previous_cells = tf.concat([cell[tf.newaxis], saved.cells[:-1]], axis=0)
    d_gates = tf.TensorArray(saved.gates.dtype, num_steps, element_shape=saved.gates.shape[1:])
    d_projected = tf.TensorArray(
        saved.gates.dtype, num_steps, element_shape=saved.outputs.shape[1:]
    )

    def body(
        time: tf.Tensor,
        d_hidden: tf.Tensor,
        d_cell: tf.Tensor,
        d_gates: tf.TensorArray,
        d_projected: tf.TensorArray,
    ) -> tuple:
        d_hidden += d_outputs[time]
        if has_projection:
            d_hidden = _inside(saved.outputs[time], recurrence.projection_clip)(d_hidden)
            d_projected = d_projected.write(time, d_hidden)
            d_hidden = tf.matmul(projection_t, d_hidden)  # [units, batch]
        i, j, f, o = activate(saved.gates[time])
        tanh_cell = tf.tanh(saved.cells[time])
        d_cell += d_hidden * o * (1.0 - tanh_cell * tanh_cell)
        d_cell = _inside(saved.cells[time], recurrence.cell_clip)(d_cell)
        d_gates_now = tf.concat(
            [
                d_cell * j * i * (1.0 - i),
                d_cell * i * (1.0 - j * j),
                d_cell * previous_cells[time] * f * (1.0 - f),
                d_hidden * tanh_cell * o * (1.0 - o),
            ],
            axis=0,
        )
        d_gates = d_gates.write(time, d_gates_now)
        return time - 1, tf.matmul(recurrent_t, d_gates_now), d_cell * f, d_gates, d_projected

    _, d_hidden, d_cell, d_gates, d_projected = tf.while_loop(
        lambda time, *_: time >= 0, body, (num_steps - 1, d_hidden, d_cell, d_gates, d_projected)
    )
    d_gates = d_gates.stack()
    previous_outputs = tf.concat([hidden[tf.newaxis], saved.outputs[:-1]], axis=0)
    d_kernels = [_sum_of_outer_products(d_gates, previous_outputs)]
    if has_projection:
        output_gate = tf.sigmoid(tf.split(saved.gates, 4, axis=1)[3])
        unprojected = output_gate * tf.tanh(saved.cells)  # [time, units, batch]
        d_kernels.append(_sum_of_outer_products(d_projected.stack(), unprojected))
    return d_gates, d_hidden, d_cell, *d_kernels


def _sum_of_outer_products(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Sum over time and batch of `left right^T`; `[time, m, batch]`, `[time, n, batch]`."""
    # A product over one long axis; contracting time step by step would add up T results.
    left = tf.transpose(left, [1, 0, 2])  # [m, time, batch]
    right = tf.transpose(right, [1, 0, 2])
    left = tf.reshape(left, [tf.shape(left)[0], -1])
    right = tf.reshape(right, [tf.shape(right)[0], -1])
    return tf.matmul(left, right, transpose_b=True)
