"""The projected LSTM with a custom gradient, for training.

TensorFlow's gradient of the loop computes two products as large as the weights in every step, and
accumulates their results. Here, each step of the backward pass computes only the two products that
the next step depends on; the gradients of the weights are one product over the whole window at the
end.

The backward pass reads the activations of one step at a time, which fit into the cache. Processing
all steps at once would need fewer operations, but memory bandwidth would limit them.
"""

from typing import NamedTuple

import tensorflow as tf

from elmo_tf.layers import lstm_scan
from elmo_tf.layers.lstm_scan import LstmWeights


def scan_for_training(
    inputs: tf.Tensor,
    hidden: tf.Tensor,
    cell: tf.Tensor,
    input_kernel: tf.Tensor,
    weights: LstmWeights,
    lengths: tf.Tensor | None = None,
    save_activations: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """`lstm_scan.scan`, differentiable with respect to every tensor.

    Exported functions have `training` as a tensor, `save_activations` here. A `tf.cond` between two
    complete scans would be slow to differentiate, and TensorFlow logs errors about its types.
    Therefore the condition is inside: only the forward pass and the saved values depend on it.

    Args:
      inputs: `[batch, time, input_dim]`.
      hidden: `[projection_dim, batch]`.
      cell: `[units, batch]`.
      input_kernel: `[4 * units, input_dim]`.
      weights: weights and clips.
      lengths: int32 `[batch]`, descending; only needed with `save_activations`. Outputs past a
        row's length, and the last state, are then undefined.
      save_activations: bool scalar, or None for True. If False, the forward pass skips rows that
        have ended and saves nothing; the gradient recomputes the activations.

    Returns:
      Outputs `[time, projection_dim, batch]`, and the last hidden and cell state.
    """
    kernels = [weights.recurrent_kernel, weights.bias]
    if weights.projection_kernel is not None:
        kernels.append(weights.projection_kernel)

    @tf.custom_gradient
    def run(
        inputs: tf.Tensor,
        hidden: tf.Tensor,
        cell: tf.Tensor,
        input_kernel: tf.Tensor,
        *kernels: tf.Tensor,
    ) -> tuple:
        local = weights._replace(
            recurrent_kernel=kernels[0],
            bias=kernels[1],
            projection_kernel=kernels[2] if len(kernels) > 2 else None,
        )
        arguments = inputs, hidden, cell, input_kernel, local

        def save() -> tuple[tuple[tf.Tensor, ...], _Saved]:
            saved = _forward(*arguments)
            return (saved.hiddens[1:], saved.hiddens[-1], saved.cells[-1]), saved

        def skip() -> tuple[tuple[tf.Tensor, ...], _Saved]:
            results = lstm_scan.scan(
                *arguments, lengths, hold_state_past_length=False, lengths_descending=True
            )
            return results, _nothing_saved(hidden, cell)

        results, saved = (
            save() if save_activations is None else tf.cond(save_activations, save, skip)
        )

        def gradient(*d_results: tf.Tensor) -> tuple[tf.Tensor, ...]:
            complete = saved
            if save_activations is not None:
                complete = tf.cond(save_activations, lambda: saved, lambda: _forward(*arguments))
            d_hidden, d_cell, steps = _steps_back(inputs, complete, local, *d_results)
            d_inputs, *d_weights = _of_inputs_and_weights(
                steps, inputs, complete.hiddens[:-1], input_kernel, local
            )
            return d_inputs, d_hidden, d_cell, *d_weights

        return results, gradient

    return run(inputs, hidden, cell, input_kernel, *kernels)


class _Saved(NamedTuple):
    """Values of the forward pass that the backward pass needs; the first dimension is time.

    `tf.TensorArray`s would avoid copies, but a SavedModel's gradient can't capture them.
    """

    hiddens: tf.Tensor  # [time + 1, projection_dim, batch], initial state first
    cells: tf.Tensor  # [time + 1, units, batch], initial state first
    activations: lstm_scan.Activations  # [time, units, batch] each


def _nothing_saved(hidden: tf.Tensor, cell: tf.Tensor) -> _Saved:
    """A `_Saved` with no steps and no initial state."""
    no_hiddens, no_cells = hidden[tf.newaxis][:0], cell[tf.newaxis][:0]
    activations = lstm_scan.Activations(*([no_cells] * len(lstm_scan.Activations._fields)))
    return _Saved(no_hiddens, no_cells, activations)


def _array(like: tf.Tensor, size: tf.Tensor) -> tf.TensorArray:
    return tf.TensorArray(like.dtype, size, element_shape=like.shape)


def _forward(
    inputs: tf.Tensor,
    hidden: tf.Tensor,
    cell: tf.Tensor,
    input_kernel: tf.Tensor,
    weights: LstmWeights,
) -> _Saved:
    num_steps = tf.shape(inputs)[1]
    gates = lstm_scan.input_gates(tf.transpose(inputs, [2, 1, 0]), input_kernel)
    arrays = _Saved(
        _array(hidden, num_steps + 1).write(0, hidden),
        _array(cell, num_steps + 1).write(0, cell),
        lstm_scan.Activations(*(_array(cell, num_steps) for _ in lstm_scan.Activations._fields)),
    )

    def body(time: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, arrays: _Saved) -> tuple:
        hidden, cell, activations = lstm_scan.step(gates[:, time], hidden, cell, weights)
        pairs = zip(arrays.activations, activations, strict=True)
        arrays = _Saved(
            arrays.hiddens.write(time + 1, hidden),
            arrays.cells.write(time + 1, cell),
            lstm_scan.Activations(*(array.write(time, values) for array, values in pairs)),
        )
        return time + 1, hidden, cell, arrays

    loop = tf.while_loop(lambda time, *_: time < num_steps, body, (0, hidden, cell, arrays))
    hiddens, cells, activations = loop[3]
    activations = lstm_scan.Activations(*(array.stack() for array in activations))
    return _Saved(hiddens.stack(), cells.stack(), activations)


class _Steps(NamedTuple):
    """Inputs of the weights' gradients; the first dimension is time."""

    d_gates: tf.Tensor  # [time, 4 * units, batch]
    d_projected: tf.Tensor | None  # [time, projection_dim, batch], the projection's output gradient
    unprojected: tf.Tensor | None  # [time, units, batch], the projection's input


def _steps_back(
    inputs: tf.Tensor,
    saved: _Saved,
    weights: LstmWeights,
    d_outputs: tf.Tensor,
    d_hidden: tf.Tensor,
    d_cell: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, _Steps]:
    """Gradients of the initial state, and the inputs of the weights' gradients."""
    has_projection = weights.projection_kernel is not None
    # Transpose once: `transpose_a` inside the loop is several times slower.
    recurrent_t = tf.transpose(weights.recurrent_kernel)  # [projection_dim, 4 * units]
    projection_t = tf.transpose(weights.projection_kernel) if has_projection else None
    num_steps = tf.shape(inputs)[1]
    steps = [_array(weights.bias, num_steps)]
    if has_projection:
        steps += [_array(d_hidden, num_steps), _array(d_cell, num_steps)]

    def body(
        time: tf.Tensor, d_hidden: tf.Tensor, d_cell: tf.Tensor, steps: list[tf.TensorArray]
    ) -> tuple:
        i, j, f, o, tanh_cell = (values[time] for values in saved.activations)
        d_hidden += d_outputs[time]
        projection_values = []
        if has_projection:
            hidden = saved.hiddens[time + 1]
            d_hidden = _inside(d_hidden, hidden, weights.projection_clip)
            projection_values = [d_hidden, o * tanh_cell]
            d_hidden = lstm_scan.product(projection_t, d_hidden)  # [units, batch]
        d_cell += d_hidden * o * (1.0 - tanh_cell * tanh_cell)
        d_cell = _inside(d_cell, saved.cells[time + 1], weights.cell_clip)
        d_gates = [
            d_cell * j * i * (1.0 - i),
            d_cell * i * (1.0 - j * j),
            d_cell * saved.cells[time] * f * (1.0 - f),
            d_hidden * tanh_cell * o * (1.0 - o),
        ]
        d_gates = tf.concat(d_gates, axis=0)  # [4 * units, batch]
        steps = [
            array.write(time, values)
            for array, values in zip(steps, [d_gates, *projection_values], strict=True)
        ]
        return time - 1, lstm_scan.product(recurrent_t, d_gates), d_cell * f, steps

    _, d_hidden, d_cell, steps = tf.while_loop(
        lambda time, *_: time >= 0, body, (num_steps - 1, d_hidden, d_cell, steps)
    )
    stacked = [array.stack() for array in steps]
    d_gates, d_projected, unprojected = stacked if has_projection else (*stacked, None, None)
    return d_hidden, d_cell, _Steps(d_gates, d_projected, unprojected)


def _inside(gradient: tf.Tensor, values: tf.Tensor, limit: float | None) -> tf.Tensor:
    """The gradient of a clip: zero where the value is clipped."""
    if limit is None:
        return gradient
    return gradient * tf.cast(tf.abs(values) < limit, gradient.dtype)


def _of_inputs_and_weights(
    steps: _Steps,
    inputs: tf.Tensor,
    previous_hiddens: tf.Tensor,
    input_kernel: tf.Tensor,
    weights: LstmWeights,
) -> list[tf.Tensor]:
    """Gradients of inputs, input kernel, recurrent kernel, bias and, if any, projection kernel."""
    d_bias = tf.reduce_sum(steps.d_gates, axis=0)  # [4 * units, batch]
    # The gradients of the kernels must have the kernels' dtype.
    d_gates = tf.cast(_columns(steps.d_gates), input_kernel.dtype)  # [4 * units, time * batch]
    # Input and recurrent kernel have the same output gradient, so one product computes both.
    right = tf.concat([_columns(tf.transpose(inputs, [1, 2, 0])), _columns(previous_hiddens)], 0)
    right = tf.cast(right, input_kernel.dtype)
    both = tf.matmul(d_gates, right, transpose_b=True)  # [4 * units, input_dim + projection_dim]
    d_input_kernel, d_recurrent_kernel = tf.split(
        both, [inputs.shape[2], previous_hiddens.shape[1]], axis=1
    )
    d_inputs = tf.matmul(tf.transpose(input_kernel), d_gates)  # [input_dim, time * batch]
    batch, num_steps = tf.shape(inputs)[0], tf.shape(inputs)[1]
    d_inputs = tf.reshape(d_inputs, [inputs.shape[2], num_steps, batch])
    d_inputs = tf.cast(tf.transpose(d_inputs, [2, 1, 0]), inputs.dtype)  # [batch, time, input_dim]
    gradients = [d_inputs, d_input_kernel, d_recurrent_kernel, d_bias]
    if weights.projection_kernel is not None:
        d_projected, unprojected = (
            tf.cast(_columns(values), d_gates.dtype) for values in steps[1:]
        )
        gradients.append(tf.matmul(d_projected, unprojected, transpose_b=True))
    return gradients


def _columns(values: tf.Tensor) -> tf.Tensor:
    """`[time, features, batch]` to `[features, time * batch]`."""
    return tf.reshape(tf.transpose(values, [1, 0, 2]), [values.shape[1], -1])
