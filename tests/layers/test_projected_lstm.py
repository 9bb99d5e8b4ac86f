"""ProjectedLstm against NumPy, and its custom gradient against TensorFlow's."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import lstm_scan
from elmo_tf.layers.projected_lstm import LstmState, ProjectedLstm
from tests.layers import references

pytestmark = pytest.mark.traced

BATCH, TIME, INPUT_DIM, UNITS, PROJECTION_DIM = 3, 5, 4, 7, 6


def make(
    projection_dim=PROJECTION_DIM,
    cell_clip=None,
    projection_clip=None,
    input_dim=INPUT_DIM,
    dtype="float32",
):
    layer = ProjectedLstm(UNITS, projection_dim, cell_clip, projection_clip, seed=3, dtype=dtype)
    layer.build((None, None, input_dim))
    rng = np.random.default_rng(5)
    for variable in layer.weights:  # larger than initially, so that clips and gates matter
        variable.assign(rng.normal(size=variable.shape, scale=0.8))
    return layer


def draw(*shape, scale=1.0):
    return np.random.default_rng(sum(shape)).normal(size=shape, scale=scale).astype(np.float32)


OPTIONS = list(itertools.product([PROJECTION_DIM, None], [None, 0.3], [None, 0.2]))


@pytest.mark.parametrize("projection_dim,cell_clip,projection_clip", OPTIONS)
@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_equals_numpy(projection_dim, cell_clip, projection_clip, in_graph, training):
    layer = make(projection_dim, cell_clip, projection_clip)
    inputs = draw(BATCH, TIME, INPUT_DIM)
    state = LstmState(draw(BATCH, layer.projection_dim, scale=0.1), draw(BATCH, UNITS, scale=0.2))
    call = tf.function(layer) if in_graph else layer
    outputs, last = call(inputs, initial_state=state, training=training)
    expected, hidden, cell = references.lstm(layer, inputs, *state)
    np.testing.assert_allclose(outputs, expected, atol=2e-6)
    np.testing.assert_allclose(last.hidden, hidden, atol=2e-6)
    np.testing.assert_allclose(last.cell, cell, atol=2e-6)
    if cell_clip is not None:
        assert np.abs(last.cell).max() == np.float32(cell_clip), "the clip was never reached"


def test_without_a_projection_the_projection_clip_does_nothing():
    inputs = draw(BATCH, TIME, INPUT_DIM)
    with_clip, _ = make(None, None, 0.01)(inputs)
    without, _ = make(None, None, None)(inputs)
    np.testing.assert_array_equal(with_clip, without)


def test_state_continues_a_sequence():
    layer = make(cell_clip=0.9, projection_clip=0.9)
    inputs = draw(BATCH, TIME, INPUT_DIM)
    whole, whole_state = layer(inputs)
    first, state = layer(inputs[:, :2])
    second, state = layer(inputs[:, 2:], initial_state=state)
    np.testing.assert_allclose(np.concatenate([first, second], 1), whole, atol=1e-6)
    np.testing.assert_allclose(state.cell, whole_state.cell, atol=1e-6)
    np.testing.assert_allclose(state.hidden, whole_state.hidden, atol=1e-6)


def test_state_stops_at_each_length():
    layer = make(cell_clip=0.9, projection_clip=0.9)
    inputs = draw(4, TIME, INPUT_DIM)
    lengths = np.array([5, 0, 1, 3], np.int32)
    start = LstmState(draw(4, PROJECTION_DIM), draw(4, UNITS))
    outputs, state = layer(inputs, initial_state=start, lengths=lengths)
    for row, length in enumerate(lengths):
        one = LstmState(start.hidden[row : row + 1], start.cell[row : row + 1])
        expected, hidden, cell = (
            references.lstm(layer, inputs[row : row + 1, :length], *one)
            if (length)
            else (np.zeros([1, 0, PROJECTION_DIM]), *one)
        )
        np.testing.assert_allclose(outputs[row : row + 1, :length], expected, atol=2e-6)
        np.testing.assert_allclose(state.hidden[row : row + 1], hidden, atol=2e-6)
        np.testing.assert_allclose(state.cell[row : row + 1], cell, atol=2e-6)


# Unordered, with 0, duplicates, and lengths above the number of steps in one product.
LENGTHS = [3, 19, 0, 8, 19, 17, 1, 9]


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize(
    "hold_state_past_length,lengths_descending", [(True, False), (False, True), (True, True)]
)
def test_rows_of_many_lengths_are_each_what_they_are_alone(
    in_graph, hold_state_past_length, lengths_descending, monkeypatch
):
    monkeypatch.setattr(lstm_scan, "COLUMNS_AT_ONCE", 1)
    layer = make(cell_clip=0.3, projection_clip=0.2)
    lengths = sorted(LENGTHS, reverse=True) if lengths_descending else LENGTHS
    inputs = draw(len(LENGTHS), max(LENGTHS), INPUT_DIM)
    start = LstmState(draw(len(LENGTHS), PROJECTION_DIM), draw(len(LENGTHS), UNITS))

    def call(inputs, start, lengths):
        return layer(
            inputs,
            LstmState(*start),
            lengths=lengths,
            hold_state_past_length=hold_state_past_length,
            lengths_descending=lengths_descending,
        )

    call = tf.function(call, autograph=False) if in_graph else call
    outputs, state = call(inputs, start, tf.constant(lengths))
    assert outputs.shape == (len(LENGTHS), max(LENGTHS), PROJECTION_DIM)
    for row, length in enumerate(lengths):
        hidden, cell = (part[row : row + 1] for part in start)
        alone = np.zeros([1, 0, PROJECTION_DIM])
        if length:
            alone, hidden, cell = references.lstm(
                layer, inputs[row : row + 1, :length], hidden, cell
            )
        np.testing.assert_allclose(outputs[row, :length], alone[0], atol=2e-6)
        if hold_state_past_length:
            np.testing.assert_allclose(state.hidden[row], hidden[0], atol=2e-6)
            np.testing.assert_allclose(state.cell[row], cell[0], atol=2e-6)


@pytest.mark.parametrize("projection_dim,cell_clip,projection_clip", OPTIONS)
@pytest.mark.parametrize("in_graph", [False, True])
def test_saved_gates_give_the_gradient_of_the_plain_loop(
    projection_dim, cell_clip, projection_clip, in_graph
):
    layer = make(projection_dim, cell_clip, projection_clip)
    inputs = tf.constant(draw(BATCH, TIME, INPUT_DIM))
    start = LstmState(
        tf.constant(draw(BATCH, layer.projection_dim, scale=0.1)),
        tf.constant(draw(BATCH, UNITS, scale=0.1)),
    )
    weighting = tf.constant(draw(BATCH, TIME, layer.projection_dim))
    sources = [inputs, *start, *(v.value for v in layer.trainable_variables)]

    def gradients(training):
        with tf.GradientTape() as tape:
            tape.watch(sources[:3])
            outputs, state = layer(inputs, initial_state=start, training=training)
            loss = tf.reduce_sum(outputs * weighting) + tf.reduce_sum(state.cell * 0.7)
            loss += tf.reduce_sum(tf.square(state.hidden))
        return tape.gradient(loss, sources)

    if in_graph:
        gradients = tf.function(gradients)
    plain, saved = gradients(False), gradients(True)
    assert len(plain) == len(saved) == (7 if layer.has_projection else 6)
    for source, expected, actual in zip(sources, plain, saved, strict=True):
        assert float(tf.reduce_max(tf.abs(expected))) > 1e-3, f"nothing tested: {source.shape}"
        np.testing.assert_allclose(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.traced
@pytest.mark.parametrize(("projection_dim", "cell_clip", "projection_clip"), OPTIONS)
def test_a_tensor_decides_whether_activations_are_saved(projection_dim, cell_clip, projection_clip):
    layer = make(projection_dim, cell_clip, projection_clip)
    inputs = tf.constant(draw(BATCH, TIME, INPUT_DIM))
    lengths = tf.sort(tf.range(BATCH) % TIME + 1, direction="DESCENDING")
    is_real = tf.sequence_mask(lengths, TIME)[..., tf.newaxis]
    sources = [inputs, *(variable.value for variable in layer.trainable_variables)]

    @tf.function(input_signature=[tf.TensorSpec([], tf.bool)])
    def run(save_activations):
        return results(save_activations=save_activations)

    def results(**options):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs, _ = layer(
                inputs,
                lengths=lengths,
                hold_state_past_length=False,
                lengths_descending=True,
                **options,
            )
            outputs = tf.where(is_real, outputs, 0.0)
            loss = tf.reduce_sum(outputs * outputs)
        return outputs, tape.gradient(loss, sources)

    outputs, gradients = results()
    for save_activations in (False, True):
        actual, actual_gradients = run(tf.constant(save_activations))
        np.testing.assert_allclose(actual, outputs, atol=0 if not save_activations else 1e-6)
        for ours, theirs in zip(actual_gradients, gradients, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)
    assert run.experimental_get_tracing_count() == 1
    with pytest.raises(ValueError, match="save_activations needs lengths_descending"):
        layer(inputs, save_activations=tf.constant(True))


@pytest.mark.traced
def test_one_trace_serves_every_shape_even_empty_ones():
    layer = make()
    call = tf.function(layer, input_signature=[tf.TensorSpec([None, None, INPUT_DIM])])
    for batch, time in [(1, 1), (3, 5), (0, 4)]:
        outputs, state = call(draw(batch, time, INPUT_DIM))
        assert outputs.shape == (batch, time, PROJECTION_DIM)
        assert state.hidden.shape == (batch, PROJECTION_DIM)
        assert state.cell.shape == (batch, UNITS)
    assert call.experimental_get_tracing_count() == 1


def test_initial_weights_have_the_range_of_the_joint_kernel_and_follow_the_seed():
    first, second, other = (ProjectedLstm(UNITS, PROJECTION_DIM, seed=s) for s in (1, 1, 2))
    for layer in (first, second, other):
        layer.build((None, None, 50))
    limit = np.sqrt(6 / (50 + PROJECTION_DIM + 4 * UNITS))
    kernel = first.input_kernel.numpy()
    assert 0.95 * limit < np.abs(kernel).max() <= limit
    np.testing.assert_array_equal(kernel, second.input_kernel)
    assert not np.allclose(kernel, other.input_kernel)
    assert not first.bias.numpy().any()


def test_symbolic_shapes():
    layer = ProjectedLstm(7, 6)
    outputs, state = layer(keras.Input((None, 4)))
    assert outputs.shape == (None, None, 6)
    assert state.hidden.shape == (None, 6) and state.cell.shape == (None, 7)


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"units": 0}, "units must be at least 1, got 0"),
        ({"units": 4, "projection_dim": 5}, r"projection_dim must be from 1 to units \(4\), got 5"),
        ({"units": 4, "cell_clip": 0.0}, "cell_clip must be above 0 or None, got 0.0"),
        ({"units": 4, "cell_clip": float("nan")}, "cell_clip must be above 0 or None, got nan"),
        ({"units": 4, "projection_clip": -1.0}, "projection_clip must be above 0 or None"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        ProjectedLstm(**arguments)


@pytest.mark.parametrize(("policy", "error"), [("mixed_float16", 0.005), ("mixed_bfloat16", 0.04)])
@pytest.mark.parametrize("projection_dim", [PROJECTION_DIM, None])
def test_mixed_precision_rounds_products_and_nothing_else(policy, error, projection_dim):
    """Values, state and gradients are float32 and close to those of float32, in both modes."""

    def run(dtype, training):
        layer = make(projection_dim, 0.8, 0.9, dtype=dtype)
        inputs = tf.constant(draw(BATCH, TIME, INPUT_DIM))
        # 1 / 3 is not exact in half precision, which reveals a state that was cast.
        state = LstmState(
            tf.fill([BATCH, layer.projection_dim], 1 / 3), tf.fill([BATCH, UNITS], 1 / 3)
        )
        weights = [variable.value for variable in layer.weights]
        with tf.GradientTape() as tape:
            tape.watch([inputs, *state])
            outputs, last = layer(inputs, initial_state=state, training=training)
            loss = tf.reduce_sum(outputs * outputs) + tf.reduce_sum(last.cell)
        gradients = tape.gradient(loss, [inputs, *state, *weights])
        assert {v.dtype for v in layer.weights} == {"float32"}
        return [outputs, *last], gradients

    for training in (True, False):
        results, gradients = run(policy, training)
        expected, expected_gradients = run("float32", training)
        for ours, theirs in zip(results + gradients, expected + expected_gradients, strict=True):
            assert ours.dtype == tf.float32
            size = np.abs(theirs).max()
            assert 0 < np.abs(ours - theirs).max() < error * size
        cell = results[2].numpy()
        rounded = tf.cast(tf.cast(cell, policy.removeprefix("mixed_")), tf.float32)
        assert (rounded.numpy() != cell).any()
    assert np.abs(results[2]).max() == np.float32(0.8), "the clip was never reached"


def test_the_state_is_not_rounded_on_its_way_in():
    layer = make(dtype="mixed_bfloat16")
    layer.bias.assign(np.repeat([-50.0, 0.0, 50.0, 0.0], UNITS))  # keeps the cell unchanged
    cell = tf.fill([BATCH, UNITS], 1 / 3)
    state = LstmState(tf.zeros([BATCH, PROJECTION_DIM]), cell)
    _, last = layer(tf.zeros([BATCH, 2, INPUT_DIM]), initial_state=state)
    np.testing.assert_array_equal(last.cell, cell)
