"""The recurrence of a projected LSTM, feature-major: `[features, batch]`, kernels on the left.

Everything here is a pure function. `scan` runs the steps; `lstm_gradient` gives the same
values for training, with a gradient written by hand.
Products of the shape `[4 * units, P] x [P, batch]` run near the machine's limit at each batch
size, which the usual `[batch, P] x [P, 4 * units]` does not: 188 ms against 395 ms for one
layer of the original size, both directions, 24 steps of batch 32 (performance.md, point 1).
"""

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
      bias: `[4 * units, batch]`, the same for each row of the batch.
      projection_kernel: `[projection_dim, units]`, or None where the output is the hidden vector.
      cell_clip: limit of the cell's magnitude, or None.
      projection_clip: limit of the projected output's magnitude, or None; without a projection
        it does nothing, as in TensorFlow's `LSTMCell`.
    """

    recurrent_kernel: tf.Tensor
    bias: tf.Tensor
    projection_kernel: tf.Tensor | None
    cell_clip: float | None
    projection_clip: float | None


def _clip(value: tf.Tensor, limit: float | None) -> tf.Tensor:
    return value if limit is None else tf.clip_by_value(value, -limit, limit)


def activate(gates: tf.Tensor, axis: int = 0) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Splits `[4 * units, batch]` into activated (i, j, f, o); 1 is added to the forget gate."""
    i, j, f, o = tf.split(gates, 4, axis=axis)
    return tf.sigmoid(i), tf.tanh(j), tf.sigmoid(f + 1.0), tf.sigmoid(o)


def product(kernel: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """`kernel @ values`, computed in the precision of the kernel and given in that of the values.

    They differ under a mixed precision policy, where products alone are in half precision.
    """
    return tf.cast(tf.matmul(kernel, tf.cast(values, kernel.dtype)), values.dtype)


def step(
    gates: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, recurrence: Recurrence
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """One step: the input's part of the gates `[4 * units, batch]`, to (hidden, cell, gates)."""
    # One pass over the three; the bias is as wide as the batch since broadcasting is slower.
    gates = tf.add_n([gates, product(recurrence.recurrent_kernel, hidden), recurrence.bias])
    i, j, f, o = activate(gates)
    cell = _clip(f * cell + i * j, recurrence.cell_clip)  # [units, batch]
    hidden = o * tf.tanh(cell)
    if recurrence.projection_kernel is not None:
        projected = product(recurrence.projection_kernel, hidden)  # [projection_dim, batch]
        hidden = _clip(projected, recurrence.projection_clip)
    return hidden, cell, gates


def input_gates(inputs: tf.Tensor, input_kernel: tf.Tensor) -> tf.Tensor:
    """W x for all steps at once: `[batch, time, input_dim]` to `[time, 4 * units, batch]`.

    One large product, then a transposition that moves whole rows of a batch. A product per step,
    batched or not, was slower at every size (performance.md, point 2); so was the product the
    other way round, `[time * batch, 4 * units]`, by a tenth of the whole layer's time.
    """
    batch, num_steps = tf.shape(inputs)[0], tf.shape(inputs)[1]
    columns = tf.reshape(tf.transpose(inputs, [2, 1, 0]), [inputs.shape[2], -1])
    gates = product(input_kernel, columns)  # [4 * units, time * batch]
    gates = tf.reshape(gates, [input_kernel.shape[0], num_steps, batch])
    return tf.transpose(gates, [1, 0, 2])


def scan(
    gates: tf.Tensor,
    hidden: tf.Tensor,
    cell: tf.Tensor,
    recurrence: Recurrence,
    lengths: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs all steps.

    Args:
      gates: `[time, 4 * units, batch]`, the input's part, from `input_gates`.
      hidden: `[projection_dim, batch]`.
      cell: `[units, batch]`.
      recurrence: weights and clips.
      lengths: int32 `[batch]` or None. If given, a row's state stops changing after its length.

    Returns:
      Outputs `[time, projection_dim, batch]` (past a row's length without meaning), and the last
      hidden and cell state.
    """
    num_steps = tf.shape(gates)[0]
    # What a tf.TensorArray is inside. That knows element shapes as far as they are static, and the
    # converter to LiteRT takes a batch of -1 literally (TensorFlow's issue 38776).
    element_shape = tf.shape(hidden)
    outputs = tf.raw_ops.TensorListReserve(
        element_shape=element_shape, num_elements=num_steps, element_dtype=gates.dtype
    )

    def body(time: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, outputs: tf.Tensor) -> tuple:
        new_hidden, new_cell, _ = step(gates[time], hidden, cell, recurrence)
        if lengths is not None:
            is_real = (time < lengths)[tf.newaxis, :]  # [1, batch]
            new_hidden = tf.where(is_real, new_hidden, hidden)
            new_cell = tf.where(is_real, new_cell, cell)
        outputs = tf.raw_ops.TensorListSetItem(input_handle=outputs, index=time, item=new_hidden)
        return time + 1, new_hidden, new_cell, outputs

    _, hidden, cell, outputs = tf.while_loop(
        lambda time, *_: time < num_steps, body, (0, hidden, cell, outputs)
    )
    outputs = tf.raw_ops.TensorListStack(
        input_handle=outputs, element_shape=element_shape, element_dtype=gates.dtype
    )
    return outputs, hidden, cell
