"""The recurrence of a projected LSTM, feature-major: `[features, batch]`, kernels on the left.

All functions are pure. `scan` runs the steps; `lstm_gradient` computes the same values with a
custom gradient, for training.
Products of the form `[4 * units, P] x [P, batch]` run near the machine's limit for every batch
size, unlike the usual `[batch, P] x [P, 4 * units]`: 188 ms against 395 ms for one layer of the
original size, both directions, 24 steps of batch 32 on 2 cores.
"""

from typing import NamedTuple

import tensorflow as tf

# Multiply the inputs of STEPS_AT_ONCE steps in one matmul; with small batches use more steps, until
# it has COLUMNS_AT_ONCE columns. Not all steps at once: their gates would be by far the largest
# array of a pass, and the first use of newly allocated memory takes a third of the product's time.
STEPS_AT_ONCE, COLUMNS_AT_ONCE = 8, 256


class LstmState(NamedTuple):
    """State between two steps: `hidden` `[batch, projection_dim]`, `cell` `[batch, units]`."""

    hidden: tf.Tensor
    cell: tf.Tensor


class LstmWeights(NamedTuple):
    """The weights and clips of one step.

    Attributes:
      recurrent_kernel: `[4 * units, projection_dim]`.
      bias: `[4 * units, batch]`, equal for all rows of the batch; includes the forget gate's 1.
      projection_kernel: `[projection_dim, units]`, or None for no projection.
      cell_clip: limit of the cell's magnitude, or None.
      projection_clip: limit of the projected output's magnitude, or None; ignored without a
        projection, as in TensorFlow's `LSTMCell`.
    """

    recurrent_kernel: tf.Tensor
    bias: tf.Tensor
    projection_kernel: tf.Tensor | None
    cell_clip: float | None
    projection_clip: float | None


def clip(value: tf.Tensor, limit: float | None) -> tf.Tensor:
    """Clips a value to [-limit, limit], if there is a limit."""
    return value if limit is None else tf.clip_by_value(value, -limit, limit)


class Activations(NamedTuple):
    """Intermediate values of one step, each `[units, batch]`.

    Attributes:
      i, j, f, o: input gate, candidate, forget gate and output gate, after their activations.
      tanh_cell: tanh of the new cell, after its clip.
    """

    i: tf.Tensor
    j: tf.Tensor
    f: tf.Tensor
    o: tf.Tensor
    tanh_cell: tf.Tensor


def product(kernel: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """`kernel @ values`, computed in the kernel's dtype and returned in the values' dtype.

    They differ under a mixed precision policy, where only products are in half precision.
    """
    return tf.cast(tf.matmul(kernel, tf.cast(values, kernel.dtype)), values.dtype)


def step(
    gates: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, weights: LstmWeights
) -> tuple[tf.Tensor, tf.Tensor, Activations]:
    """One step. `gates` is W x, `[4 * units, batch]`; returns hidden, cell and activations."""
    # One pass over all three; the bias is as wide as the batch because broadcasting is slower.
    gates = tf.add_n([gates, product(weights.recurrent_kernel, hidden), weights.bias])
    units = cell.shape[0]
    i, j, f_and_o = tf.split(gates, [units, units, 2 * units])
    # One operation for two adjacent gates: with few rows, op calls cost more than arithmetic.
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

    One large product. A product per step, batched or not, was slower for every size, and so was the
    transposed product `[time * batch, 4 * units]`, by a tenth of the layer's total time.
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
      hold_state_past_length: whether a row's state remains constant after its last real step. If
        False and there are lengths, the returned state is undefined.
      lengths_descending: whether the rows are sorted by descending length. Rows that have ended are
        then the last ones, and the products skip them.

    Returns:
      Outputs `[time, projection_dim, batch]`, undefined past a row's length, and the last hidden
      and cell state.
    """
    columns = tf.transpose(inputs, [2, 1, 0])  # [input_dim, time, batch]
    batch, num_steps = tf.shape(inputs)[0], tf.shape(inputs)[1]
    steps_at_once = tf.maximum(STEPS_AT_ONCE, COLUMNS_AT_ONCE // tf.maximum(batch, 1))
    # The ops beneath tf.TensorArray. That would pass only the static part of the element shape, and
    # the LiteRT converter fails with an unknown batch of -1 (TensorFlow issue 38776).
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
    """The rows of a batch, sorted by descending length, that have not ended before step `start`.

    The last dimension of all tensors is the batch. Without lengths, all rows are selected.
    """

    def __init__(self, batch: tf.Tensor, lengths: tf.Tensor | None, start: tf.Tensor) -> None:
        self._count = None
        if lengths is not None:
            self._count = tf.reduce_sum(tf.cast(lengths > start, tf.int32))
            self._num_ended = batch - self._count

    def first(self, values: tf.Tensor) -> tf.Tensor:
        """Selects the rows."""
        return values if self._count is None else values[..., : self._count]

    def pad(self, values: tf.Tensor) -> tf.Tensor:
        """Pads the selected rows with zeros to the whole batch, `[features, batch]`."""
        return values if self._count is None else tf.pad(values, [[0, 0], [0, self._num_ended]])

    def put(self, values: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
        """Replaces the selected rows of a batch by `values`, `[features, batch]`."""
        if self._count is None:
            return values
        return tf.ensure_shape(tf.concat([values, batch[:, self._count :]], axis=1), batch.shape)
