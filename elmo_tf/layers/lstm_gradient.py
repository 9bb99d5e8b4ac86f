"""A projected LSTM over a window, with a gradient written by hand, for training.

TensorFlow's gradient of the loop adds two products as large as the weights, and the accumulation
of their results, to every step (performance.md, point 7). Here a step backward has only the two
products that the next one waits for. What each step multiplies its gradients with is computed
beforehand, for all steps at once, and the gradients of the weights come from one product over the
whole window at the end.
"""

from typing import NamedTuple

import tensorflow as tf

from elmo_tf.layers import lstm_scan
from elmo_tf.layers.lstm_scan import Recurrence


def scan_for_training(
    inputs: tf.Tensor,
    hidden: tf.Tensor,
    cell: tf.Tensor,
    input_kernel: tf.Tensor,
    recurrence: Recurrence,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """`lstm_scan.scan`, differentiable in every tensor.

    Args:
      inputs: `[batch, time, input_dim]`.
      hidden: `[projection_dim, batch]`.
      cell: `[units, batch]`.
      input_kernel: `[4 * units, input_dim]`.
      recurrence: weights and clips.

    Returns:
      Outputs `[time, projection_dim, batch]`, and the last hidden and cell state.
    """
    kernels = [recurrence.recurrent_kernel, recurrence.bias]
    if recurrence.projection_kernel is not None:
        kernels.append(recurrence.projection_kernel)

    @tf.custom_gradient
    def run(
        inputs: tf.Tensor,
        hidden: tf.Tensor,
        cell: tf.Tensor,
        input_kernel: tf.Tensor,
        *kernels: tf.Tensor,
    ) -> tuple:
        local = recurrence._replace(
            recurrent_kernel=kernels[0],
            bias=kernels[1],
            projection_kernel=kernels[2] if len(kernels) > 2 else None,
        )
        saved = _forward(inputs, hidden, cell, input_kernel, local)

        def gradient(*d_results: tf.Tensor) -> tuple[tf.Tensor, ...]:
            d_gates, d_projected, d_hidden, d_cell = _steps_back(saved, cell, local, *d_results)
            d_input, *d_weights = _of_inputs_and_weights(
                d_gates, d_projected, inputs, hidden, input_kernel, saved
            )
            return d_input, d_hidden, d_cell, *d_weights

        return (saved.outputs, saved.outputs[-1], saved.cells[-1]), gradient

    return run(inputs, hidden, cell, input_kernel, *kernels)


class _Saved(NamedTuple):
    """What the way back needs of the way forth."""

    outputs: tf.Tensor  # [time, projection_dim, batch]
    cells: tf.Tensor  # [time, units, batch]
    gates: tf.Tensor  # [time, 4 * units, batch], before activation


def _forward(
    inputs: tf.Tensor,
    hidden: tf.Tensor,
    cell: tf.Tensor,
    input_kernel: tf.Tensor,
    recurrence: Recurrence,
) -> _Saved:
    num_steps = tf.shape(inputs)[1]
    # Of all steps together: they are kept for the way back in any case.
    gates = lstm_scan.input_gates(tf.transpose(inputs, [2, 1, 0]), input_kernel)

    def array(element_shape: tf.TensorShape) -> tf.TensorArray:
        return tf.TensorArray(inputs.dtype, num_steps, element_shape=element_shape)

    gates_shape = tf.TensorShape([input_kernel.shape[0], cell.shape[1]])
    arrays = _Saved(array(hidden.shape), array(cell.shape), array(gates_shape))

    def body(time: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, arrays: _Saved) -> tuple:
        hidden, cell, gates_now = lstm_scan.step(gates[:, time], hidden, cell, recurrence)
        arrays = _Saved(
            arrays.outputs.write(time, hidden),
            arrays.cells.write(time, cell),
            arrays.gates.write(time, gates_now),
        )
        return time + 1, hidden, cell, arrays

    loop = tf.while_loop(lambda time, *_: time < num_steps, body, (0, hidden, cell, arrays))
    return _Saved(*(array.stack() for array in loop[3]))


class _Factors(NamedTuple):
    """What the gradients of one step are multiplied with; first dimension is time.

    Where a clip holds, its value did not depend on what went in, and the factor is 0.
    """

    projection_clip: tf.Tensor | None  # [time, projection_dim, batch]
    hidden_to_cell: tf.Tensor  # [time, units, batch]
    cell_clip: tf.Tensor | None  # [time, units, batch]
    to_gates: tf.Tensor  # [time, 4 * units, batch]
    to_previous_cell: tf.Tensor  # [time, units, batch]


def _factors(saved: _Saved, cell: tf.Tensor, recurrence: Recurrence) -> _Factors:
    i, j, f, o = lstm_scan.activate(saved.gates, axis=1)
    tanh_cell = tf.tanh(saved.cells)
    previous_cells = tf.concat([cell[tf.newaxis], saved.cells[:-1]], axis=0)
    to_gates = [
        j * i * (1.0 - i),
        i * (1.0 - j * j),
        previous_cells * f * (1.0 - f),
        tanh_cell * o * (1.0 - o),
    ]

    def inside(values: tf.Tensor, limit: float | None) -> tf.Tensor | None:
        return None if limit is None else tf.cast(tf.abs(values) < limit, values.dtype)

    has_projection = recurrence.projection_kernel is not None
    return _Factors(
        inside(saved.outputs, recurrence.projection_clip) if has_projection else None,
        o * (1.0 - tanh_cell * tanh_cell),
        inside(saved.cells, recurrence.cell_clip),
        tf.concat(to_gates, axis=1),
        f,
    )


def _steps_back(
    saved: _Saved,
    cell: tf.Tensor,
    recurrence: Recurrence,
    d_outputs: tf.Tensor,
    d_hidden: tf.Tensor,
    d_cell: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor, tf.Tensor]:
    """Gradients of the gates and of the projection's result, for all steps, and of the state."""
    has_projection = recurrence.projection_kernel is not None
    # Transposed once here: a transposed left side inside the loop is several times slower.
    recurrent_t = tf.transpose(recurrence.recurrent_kernel)  # [projection_dim, 4 * units]
    projection_t = tf.transpose(recurrence.projection_kernel) if has_projection else None
    factors = _factors(saved, cell, recurrence)
    num_steps = tf.shape(saved.gates)[0]
    d_gates = tf.TensorArray(saved.gates.dtype, num_steps, element_shape=saved.gates.shape[1:])
    d_projected = tf.TensorArray(d_gates.dtype, num_steps, element_shape=saved.outputs.shape[1:])

    def body(
        time: tf.Tensor,
        d_hidden: tf.Tensor,
        d_cell: tf.Tensor,
        d_gates: tf.TensorArray,
        d_projected: tf.TensorArray,
    ) -> tuple:
        d_hidden += d_outputs[time]
        if has_projection:
            if factors.projection_clip is not None:
                d_hidden *= factors.projection_clip[time]
            d_projected = d_projected.write(time, d_hidden)
            d_hidden = lstm_scan.product(projection_t, d_hidden)  # [units, batch]
        d_cell += d_hidden * factors.hidden_to_cell[time]
        if factors.cell_clip is not None:
            d_cell *= factors.cell_clip[time]
        d_gates_now = tf.concat([d_cell, d_cell, d_cell, d_hidden], axis=0)
        d_gates_now *= factors.to_gates[time]  # [4 * units, batch]
        d_gates = d_gates.write(time, d_gates_now)
        d_hidden = lstm_scan.product(recurrent_t, d_gates_now)
        return time - 1, d_hidden, d_cell * factors.to_previous_cell[time], d_gates, d_projected

    _, d_hidden, d_cell, d_gates, d_projected = tf.while_loop(
        lambda time, *_: time >= 0, body, (num_steps - 1, d_hidden, d_cell, d_gates, d_projected)
    )
    d_projected = d_projected.stack() if has_projection else None
    return d_gates.stack(), d_projected, d_hidden, d_cell


def _of_inputs_and_weights(
    d_gates: tf.Tensor,
    d_projected: tf.Tensor | None,
    inputs: tf.Tensor,
    hidden: tf.Tensor,
    input_kernel: tf.Tensor,
    saved: _Saved,
) -> list[tf.Tensor]:
    """Gradients of inputs, input kernel, recurrent kernel, bias and, if there, projection."""
    d_bias = tf.reduce_sum(d_gates, axis=0)  # [4 * units, batch]
    # In the precision of the kernels, as their gradients have to be.
    d_gates = tf.cast(_columns(d_gates), input_kernel.dtype)  # [4 * units, time * batch]
    previous_outputs = tf.concat([hidden[tf.newaxis], saved.outputs[:-1]], axis=0)
    # Input and recurrent kernel see the same gradient: one product serves both.
    right = tf.concat([_columns(tf.transpose(inputs, [1, 2, 0])), _columns(previous_outputs)], 0)
    right = tf.cast(right, input_kernel.dtype)
    both = tf.matmul(d_gates, right, transpose_b=True)  # [4 * units, input_dim + projection_dim]
    d_input_kernel, d_recurrent_kernel = tf.split(
        both, [inputs.shape[2], previous_outputs.shape[1]], axis=1
    )
    d_inputs = tf.matmul(tf.transpose(input_kernel), d_gates)  # [input_dim, time * batch]
    batch, num_steps = tf.shape(inputs)[0], tf.shape(inputs)[1]
    d_inputs = tf.reshape(d_inputs, [inputs.shape[2], num_steps, batch])
    d_inputs = tf.cast(tf.transpose(d_inputs, [2, 1, 0]), inputs.dtype)  # [batch, time, input_dim]
    gradients = [d_inputs, d_input_kernel, d_recurrent_kernel, d_bias]
    if d_projected is not None:
        output_gate = lstm_scan.activate(saved.gates, axis=1)[3]
        unprojected = _columns(output_gate * tf.tanh(saved.cells))  # [units, time * batch]
        unprojected = tf.cast(unprojected, d_gates.dtype)
        d_projected = tf.cast(_columns(d_projected), d_gates.dtype)
        gradients.append(tf.matmul(d_projected, unprojected, transpose_b=True))
    return gradients


def _columns(values: tf.Tensor) -> tf.Tensor:
    """`[time, features, batch]` to `[features, time * batch]`."""
    return tf.reshape(tf.transpose(values, [1, 0, 2]), [values.shape[1], -1])
