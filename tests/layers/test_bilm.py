"""BiLm against NumPy, row by row: residuals, reversal, state and dropout."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import lstm_scan
from elmo_tf.layers.bilm import BiLm, BiLmState
from tests.layers import references

pytestmark = pytest.mark.traced

UNITS, DIM, BATCH, TIME = 7, 5, 4, 6
LENGTHS = np.array([6, 3, 1, 5], np.int32)


def make(num_layers=3, **options):
    bilm = BiLm(num_layers, UNITS, DIM, seed=1, **options)
    bilm.build((None, None, DIM))
    rng = np.random.default_rng(num_layers)
    for variable in bilm.weights:
        variable.assign(rng.normal(size=variable.shape, scale=0.7))
    return bilm


def draw(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    "num_layers,skip,in_graph", list(itertools.product([1, 3], [False, True], [False, True]))
)
def test_equals_each_row_alone(num_layers, skip, in_graph):
    bilm = make(num_layers, use_skip_connections=skip, cell_clip=0.8, projection_clip=0.6)
    inputs = draw(BATCH, TIME, DIM)
    call = tf.function(bilm) if in_graph else bilm
    outputs = call(inputs, lengths=LENGTHS)
    with_state, state = bilm(inputs, lengths=LENGTHS, return_state=True)
    assert len(outputs) == len(with_state) == num_layers
    for row, length in enumerate(LENGTHS):
        for way, (direction, half) in enumerate(
            [("forward", slice(0, DIM)), ("backward", slice(DIM, 2 * DIM))]
        ):
            expected, states = references.bilm_row(bilm, direction, inputs[row, :length])
            for layer in range(num_layers):
                got = outputs[layer][row, :length, half]
                np.testing.assert_allclose(got, expected[layer], atol=2e-6)
                got = with_state[layer][row, :length, half]
                np.testing.assert_allclose(got, expected[layer], atol=2e-6)
                for ours, theirs in zip(state[way][layer], states[layer], strict=True):
                    np.testing.assert_allclose(ours[row], theirs[0], atol=2e-6)


@pytest.mark.parametrize("static_shapes", [False, True])
def test_rows_that_have_ended_take_part_in_products_only_with_static_shapes(
    static_shapes, monkeypatch
):
    columns, product = [], lstm_scan.product

    def recorded(kernel, values):
        if kernel.shape == (DIM, UNITS):  # the projection
            columns.append(values.shape[1])
        return product(kernel, values)

    monkeypatch.setattr(lstm_scan, "product", recorded)
    monkeypatch.setattr(lstm_scan, "COLUMNS_AT_ONCE", 1)
    lengths = [3, 19, 0, 8, 19, 17, 1, 9]
    make(1)(draw(8, 19, DIM), lengths=tf.constant(lengths), static_shapes=static_shapes)
    expected = [sum(length > step // 8 * 8 for length in lengths) for step in range(19)]
    assert expected == [7] * 8 + [4] * 8 + [3] * 3
    assert columns == 2 * ([8] * 19 if static_shapes else expected)  # both directions


@pytest.mark.parametrize("return_state", [False, True])
def test_static_shapes_give_the_same(return_state):
    bilm, inputs = make(), draw(BATCH, TIME, DIM)
    start = tf.nest.map_structure(
        lambda zeros: tf.constant(draw(*zeros.shape)), bilm.zero_state(BATCH)
    )
    one, two = (
        bilm(inputs, LENGTHS, start, return_state=return_state, static_shapes=static_shapes)
        for static_shapes in (False, True)
    )
    (layers, *states), (static_layers, *static_states) = (
        each if return_state else (each,) for each in (one, two)
    )
    for layer, static_layer in zip(layers, static_layers, strict=True):
        for row, length in enumerate(LENGTHS):
            np.testing.assert_allclose(layer[row, :length], static_layer[row, :length], atol=2e-6)
    for state, static_state in zip(*map(tf.nest.flatten, (states, static_states)), strict=True):
        np.testing.assert_allclose(state, static_state, atol=2e-6)


def test_padding_never_moves_a_real_position():
    bilm = make()
    inputs = draw(BATCH, TIME, DIM)
    garbage = inputs.copy()
    for row, length in enumerate(LENGTHS):
        garbage[row, length:] = 1e6
    for clean, dirty in zip(
        bilm(inputs, lengths=LENGTHS), bilm(garbage, lengths=LENGTHS), strict=True
    ):
        for row, length in enumerate(LENGTHS):
            np.testing.assert_array_equal(clean[row, :length], dirty[row, :length])


def test_state_continues_forward_and_backward_windows():
    bilm = make()
    inputs = draw(BATCH, TIME, DIM)
    for direction in ("forward", "backward"):
        whole, last = bilm.run_direction(direction, inputs)
        first, state = bilm.run_direction(direction, inputs[:, :4])
        second, state = bilm.run_direction(direction, inputs[:, 4:], state)
        for layer in range(3):
            joined = np.concatenate([first[layer], second[layer]], axis=1)
            np.testing.assert_allclose(joined, whole[layer], atol=2e-6)
            np.testing.assert_allclose(state[layer].cell, last[layer].cell, atol=2e-6)


def test_zero_state_is_the_default():
    bilm = make(2)
    inputs = draw(BATCH, TIME, DIM)
    state = bilm.zero_state(BATCH)
    assert isinstance(state, BiLmState) and len(state.backward) == 2
    given = bilm(inputs, lengths=LENGTHS, initial_state=state)
    for a, b in zip(given, bilm(inputs, lengths=LENGTHS), strict=True):
        np.testing.assert_array_equal(a, b)


def test_dropout_falls_on_inputs_and_last_output_and_follows_its_seed():
    bilm = make(2, dropout=0.4)
    # Ones through a cell of zero weights: only the residual connection contributes.
    for variable in bilm.weights:
        variable.assign(np.zeros(variable.shape))
    inputs = np.ones([50, 40, DIM], np.float32)
    seed = tf.constant([3, 4])

    def run(seed, training=True):
        return bilm.run_direction("forward", inputs, training=training, dropout_seed=seed)[0]

    first, second = (output.numpy() for output in run(seed))
    assert not first.any()  # the lower layer of zero weights outputs zeros, dropped or not
    np.testing.assert_array_equal(second, 0)
    # Now the first layer has an output, which the second layer's residual adds.
    bilm.forward_0.bias.assign(np.ones(4 * UNITS))
    bilm.forward_0.projection_kernel.assign(np.ones([DIM, UNITS]))
    first, second = (output.numpy() for output in run(seed))
    assert (first != 0).all()
    kept = second != 0
    assert abs(kept.mean() - 0.6**2) < 0.01, "two masks: the layer's input, then the output"
    np.testing.assert_allclose(second[kept], first[kept] / 0.6**2, rtol=1e-5)
    np.testing.assert_array_equal(second, run(seed)[1])
    assert not np.array_equal(second, run(tf.constant([3, 5]))[1])
    np.testing.assert_array_equal(run(seed, training=False)[1], first)


def test_dropout_without_a_seed_is_an_error_for_windows_and_drawn_for_sentences():
    bilm = make(2, dropout=0.4)
    inputs = draw(BATCH, TIME, DIM)
    with pytest.raises(ValueError, match="needs dropout_seed"):
        bilm.run_direction("forward", inputs, training=True)
    one = bilm(inputs, lengths=LENGTHS, training=True)[-1].numpy()
    other = bilm(inputs, lengths=LENGTHS, training=True)[-1].numpy()
    assert not np.array_equal(one, other)


def test_symbolic_call():
    bilm = BiLm(2, 7, 5)
    outputs = bilm(keras.Input((None, 5)), lengths=keras.Input((), dtype="int32"))
    assert [output.shape for output in outputs] == [(None, None, 10)] * 2


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        BiLm(**{"num_layers": 2, "units": 7, "projection_dim": 5, **arguments})
