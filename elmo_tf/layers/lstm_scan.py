"""The recurrence of a projected LSTM, feature-major: `[features, batch]`, kernels on the left.

Everything here is a pure function. `scan` runs the steps; `lstm_gradient` gives the same
values for training, with a gradient written by hand.
Products of the shape `[4 * units, P] x [P, batch]` run near the machine's limit at each batch
size, which the usual `[batch, P] x [P, 4 * units]` does not: 188 ms against 395 ms for one
layer of the original size, both directions, 24 steps of batch 32 (performance.md, point 1).
"""

from typing import NamedTuple

import tensorflow as tf

# Multiply the inputs of STEPS_AT_ONCE steps in one matmul; with small batches use more steps, until
# it has COLUMNS_AT_ONCE columns. The gates of all steps at once were by far the largest arrays of a
# pass, in newly allocated memory each time, whose first use took a third of the product's time.
STEPS_AT_ONCE, COLUMNS_AT_ONCE = 8, 256


class LstmState(NamedTuple):
    """State between two steps: `hidden` `[batch, projection_dim]`, `cell` `[batch, units]`."""

    hidden: tf.Tensor
    cell: tf.Tensor


class LstmWeights(NamedTuple):
    """The weights and clips of one step.

    Attributes:
      recurrent_kernel: `[4 * units, projection_dim]`.
      bias: `[4 * units, batch]`, the same for each row of the batch; the 1 of the forget gate is
        part of it.
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


def clip(value: tf.Tensor, limit: float | None) -> tf.Tensor:
    """The value with its magnitude limited, if there is a limit."""
    return value if limit is None else tf.clip_by_value(value, -limit, limit)


class Activations(NamedTuple):
    """Intermediate values of one step, each `[units, batch]`.

    Attributes:
      i, j, f, o: input gate, candidate, forget gate and output gate, activated.
      tanh_cell: of the new cell, after its clip.
    """

    i: tf.Tensor
    j: tf.Tensor
    f: tf.Tensor
    o: tf.Tensor
    tanh_cell: tf.Tensor


def product(kernel: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """`kernel @ values`, computed in the kernel's precision and returned in that of the values.

    They differ under a mixed precision policy, where products alone are in half precision.
    """
    return tf.cast(tf.matmul(kernel, tf.cast(values, kernel.dtype)), values.dtype)


def step(
    gates: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, weights: LstmWeights
) -> tuple[tf.Tensor, tf.Tensor, Activations]:
    """One step: the input's part of the gates `[4 * units, batch]`, to hidden and cell."""
    # One pass over all three; the bias has the batch's width because broadcasting is slower.
    gates = tf.add_n([gates, product(weights.recurrent_kernel, hidden), weights.bias])
    units = cell.shape[0]
    i, j, f_and_o = tf.split(gates, [units, units, 2 * units])
    # One operation for two adjacent gates: with few rows, calls cost more than arithmetic.
    f, o = tf.split(tf.sigmoid(f_and_o), 2)
    i, j = tf.sigmoid(i), tf.tanh(j)
    cell = clip(f * cell + i * j, weights.cell_clip)  # [units, batch]
    tanh_cell = tf.tanh(cell)
    hidden = o * tanh_cell
    if weights.projection_kernel is not None:
        projected = product(weights.projection_kernel, hidden)  # [projection_dim, batch]
        hidden = clip(projected, weights.projection_clip)
    return hidden, cell, Activations(i, j, f, o, tanh_cell)


def input_gates(columns: tf.Tensor, input_kernel: tf.Tensor) -> tf.Tensor:
    """W x for several steps at once: `[input_dim, time, batch]` to `[4 * units, time, batch]`.

    One large product: one for each step, batched or not, was slower at every size (performance.md,
    point 2); so was the product the other way round, `[time * batch, 4 * units]`, by a tenth of
    the whole layer's time.
    """
    input_dim, num_steps, batch = tf.unstack(tf.shape(columns))
    gates = product(input_kernel, tf.reshape(columns, [input_dim, -1]))
    return tf.reshape(gates, [input_kernel.shape[0], num_steps, batch])


def scan(
    inputs: tf.Tensor,
    hidden: tf.Tensor,
    cell: tf.Tensor,
    input_kernel: tf.Tensor,
    weights: LstmWeights,
    lengths: tf.Tensor | None = None,
    hold_state_past_length: bool = True,
    lengths_descending: bool = False,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs all steps.

    Args:
      inputs: `[batch, time, input_dim]`.
      hidden: `[projection_dim, batch]`.
      cell: `[units, batch]`.
      input_kernel: `[4 * units, input_dim]`.
      weights: weights and clips.
      lengths: int32 `[batch]` or None.
      hold_state_past_length: whether a row's state stays as it is after its last real step. If not,
        the returned state has no meaning where there are lengths.
      lengths_descending: whether no row is longer than the one before it. Rows that have ended are
        then the last ones, and the products skip them.

    Returns:
      Outputs `[time, projection_dim, batch]` (past a row's length without meaning), and the last
      hidden and cell state.
    """
    columns = tf.transpose(inputs, [2, 1, 0])  # [input_dim, time, batch]
    batch, num_steps = tf.shape(inputs)[0], tf.shape(inputs)[1]
    steps_at_once = tf.maximum(STEPS_AT_ONCE, COLUMNS_AT_ONCE // tf.maximum(batch, 1))
    # What a tf.TensorArray is inside. That knows element shapes as far as they are static, and the
    # converter to LiteRT takes a batch of -1 literally (TensorFlow's issue 38776).
    element_shape = tf.shape(hidden)
    outputs = tf.raw_ops.TensorListReserve(
        element_shape=element_shape, num_elements=num_steps, element_dtype=inputs.dtype
    )

    def run_steps(
        start: tf.Tensor, rows: "_Rows", hidden: tf.Tensor, cell: tf.Tensor, outputs: tf.Tensor
    ) -> tuple:
        end = tf.minimum(start + steps_at_once, num_steps)
        gates = input_gates(rows.first(columns[:, start:end]), input_kernel)
        local = weights._replace(bias=rows.first(weights.bias))

        def body(time: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, outputs: tf.Tensor) -> tuple:
            new_hidden, new_cell, _ = step(gates[:, time - start], hidden, cell, local)
            if lengths is not None and hold_state_past_length:
                is_real = (time < rows.first(lengths))[tf.newaxis, :]  # [1, rows]
                new_hidden = tf.where(is_real, new_hidden, hidden)
                new_cell = tf.where(is_real, new_cell, cell)
            outputs = tf.raw_ops.TensorListSetItem(
                input_handle=outputs, index=time, item=rows.pad(new_hidden)
            )
            return time + 1, new_hidden, new_cell, outputs

        return tf.while_loop(lambda time, *_: time < end, body, (start, hidden, cell, outputs))

    def run_chunk(
        start: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, outputs: tf.Tensor
    ) -> tuple:
        rows = _Rows(batch, lengths if lengths_descending else None, start)
        state = rows.first(hidden), rows.first(cell)
        start, new_hidden, new_cell, outputs = run_steps(start, rows, *state, outputs)
        return start, rows.put(new_hidden, hidden), rows.put(new_cell, cell), outputs

    _, hidden, cell, outputs = tf.while_loop(
        lambda start, *_: start < num_steps, run_chunk, (0, hidden, cell, outputs)
    )
    outputs = tf.raw_ops.TensorListStack(
        input_handle=outputs, element_shape=element_shape, element_dtype=inputs.dtype
    )
    return outputs, hidden, cell


class _Rows:
    """The rows of a batch sorted by length that have not ended when some steps begin.

    The last dimension of all tensors is the batch. Without lengths these are all rows.
    """

    def __init__(self, batch: tf.Tensor, lengths: tf.Tensor | None, start: tf.Tensor) -> None:
        self._count = None
        if lengths is not None:
            self._count = tf.reduce_sum(tf.cast(lengths > start, tf.int32))
            self._num_ended = batch - self._count

    def first(self, values: tf.Tensor) -> tf.Tensor:
        """These rows of a batch."""
        return values if self._count is None else values[..., : self._count]

    def pad(self, values: tf.Tensor) -> tf.Tensor:
        """These rows padded with zeros to the whole batch, `[features, batch]`."""
        return values if self._count is None else tf.pad(values, [[0, 0], [0, self._num_ended]])

    def put(self, values: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
        """A batch with these rows in place of its own, `[features, batch]`."""
        if self._count is None:
            return values
        return tf.ensure_shape(tf.concat([values, batch[:, self._count :]], axis=1), batch.shape)
