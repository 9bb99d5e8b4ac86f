"""SampledSoftmax against NumPy and against TensorFlow's own sampled softmax."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers.sampled_softmax import SampledSoftmax
from tests.layers import references

pytestmark = pytest.mark.traced

VOCABULARY_SIZE, DIM, POSITIONS = 53, 6, 9
NEGATIVES = np.array([7, 0, 31, 2, 52, 11, 5, 1], np.int32)
NUM_TRIES = 14
# Includes accidental hits (0, 7, 52), a repeated target (30) and the last id.
TARGETS = np.array([0, 30, 7, 30, 52, 3, 4, 0, 51], np.int32)


def make(**kwargs):
    layer = SampledSoftmax(VOCABULARY_SIZE, seed=1, **kwargs)
    layer.build((None, DIM))
    layer.bias.assign(np.random.default_rng(4).normal(size=VOCABULARY_SIZE))
    return layer


def draw(positions=POSITIONS):
    return np.random.default_rng(3).normal(size=[positions, DIM], scale=2).astype(np.float32)


def expected_counts(vocabulary_size=VOCABULARY_SIZE, num_tries=NUM_TRIES):
    ids = np.arange(vocabulary_size)
    probability = np.log((ids + 2) / (ids + 1)) / np.log(vocabulary_size + 1)
    return 1 - (1 - probability) ** num_tries


def numpy_sampled(layer, inputs, targets, negatives):
    logits = references.logits(layer, inputs) - np.log(expected_counts())
    losses = []
    for row, target in zip(logits, targets, strict=True):
        others = [row[w] for w in negatives if w != target]
        losses.append(references.log_sum_exp([row[target], *others]) - row[target])
    return np.array(losses)


def tensorflow_sampled(kernel, bias, inputs, targets, negatives=NEGATIVES):
    counts = expected_counts(kernel.shape[0]).astype(np.float32)
    return tf.nn.sampled_softmax_loss(
        kernel,
        bias,
        targets[:, np.newaxis],
        inputs,
        num_sampled=len(negatives),
        num_classes=kernel.shape[0],
        remove_accidental_hits=True,
        sampled_values=(
            negatives.astype(np.int64),
            counts[targets][:, np.newaxis],
            counts[negatives],
        ),
    )


OPTIONS = list(itertools.product([False, True], [POSITIONS, 1, 0], [np.int32, np.int64]))


@pytest.mark.parametrize("in_graph,positions,dtype", OPTIONS)
def test_full_loss_equals_numpy(in_graph, positions, dtype):
    layer = make()
    inputs, targets = draw(positions), TARGETS[:positions].astype(dtype)
    losses = (tf.function(layer) if in_graph else layer)(inputs, targets)
    assert losses.dtype == tf.float32
    np.testing.assert_allclose(losses, references.full_softmax(layer, inputs, targets), atol=3e-6)


@pytest.mark.parametrize("in_graph,positions,dtype", OPTIONS)
@pytest.mark.parametrize("num_samples", [1, 8])
def test_sampled_loss_equals_numpy(in_graph, positions, dtype, num_samples):
    layer = make()
    inputs, targets = draw(positions), TARGETS[:positions].astype(dtype)
    negatives = NEGATIVES[:num_samples].astype(dtype)
    call = tf.function(layer) if in_graph else layer
    losses = call(inputs, targets, negatives=negatives, num_tries=tf.constant(NUM_TRIES))
    assert losses.dtype == tf.float32
    expected = numpy_sampled(layer, inputs, targets, negatives)
    np.testing.assert_allclose(losses, expected, atol=3e-6)


def test_loss_and_gradients_equal_those_of_tensorflow():
    layer, inputs = make(), tf.constant(draw())
    weights = np.random.default_rng(6).normal(size=POSITIONS).astype(np.float32)
    sources = [inputs, layer.kernel.value, layer.bias.value]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        ours = layer(inputs, TARGETS, negatives=NEGATIVES, num_tries=NUM_TRIES)
        theirs = tensorflow_sampled(layer.kernel.value, layer.bias.value, inputs, TARGETS)
        our_loss, their_loss = tf.reduce_sum(weights * ours), tf.reduce_sum(weights * theirs)
    np.testing.assert_allclose(ours, theirs, atol=3e-6)
    for source, pair in zip(
        sources,
        zip(tape.gradient(our_loss, sources), tape.gradient(their_loss, sources), strict=True),
        strict=True,
    ):
        np.testing.assert_allclose(*map(tf.convert_to_tensor, pair), atol=5e-6)
        assert np.abs(tf.convert_to_tensor(pair[0])).max() > 0, source


def test_gradient_touches_the_rows_in_use_each_once():
    layer = make()
    with tf.GradientTape() as tape:
        losses = layer(draw(), TARGETS, negatives=NEGATIVES, num_tries=NUM_TRIES)
    gradients = tape.gradient(losses, [layer.kernel.value, layer.bias.value])
    for gradient in gradients:
        assert isinstance(gradient, tf.IndexedSlices)
        assert sorted(gradient.indices.numpy()) == sorted({*TARGETS, *NEGATIVES})


def test_no_array_of_the_sampled_graph_grows_with_the_vocabulary():
    vocabulary_size = 7919
    layer = SampledSoftmax(vocabulary_size)
    layer.build((None, DIM))

    @tf.function
    def step(inputs, targets, negatives):
        with tf.GradientTape() as tape:
            losses = layer(inputs, targets, negatives=negatives, num_tries=NUM_TRIES)
        return tape.gradient(losses, [layer.kernel.value, layer.bias.value])

    graph = step.get_concrete_function(draw(), TARGETS, NEGATIVES).graph
    shapes = [
        output.shape
        for operation in graph.get_operations()
        for output in operation.outputs
        if output.dtype != tf.resource
    ]
    assert len(shapes) > 20
    assert not [shape for shape in shapes if shape.rank and vocabulary_size in shape.as_list()]


def test_rare_ids_keep_their_precision():
    """In float32, (w + 2) / (w + 1) is wrong by some percent at the end of a large vocabulary."""
    size = 800_000
    kernel, bias = np.zeros([size, 1], np.float32), np.zeros(size, np.float32)
    layer = SampledSoftmax(size)
    layer.build((None, 1))
    layer.kernel.assign(kernel)
    targets, negatives = np.array([size - 1, 0], np.int32), np.array([size - 2, 3], np.int32)
    inputs = np.zeros([2, 1], np.float32)
    losses = layer(inputs, targets, negatives=negatives, num_tries=NUM_TRIES)
    expected = tensorflow_sampled(kernel, bias, inputs, targets, negatives)
    np.testing.assert_allclose(losses, expected, rtol=1e-6)


def test_a_position_whose_only_negative_is_its_target_loses_nothing():
    layer = make()
    with tf.GradientTape() as tape:
        losses = layer(draw(2), np.array([7, 9]), negatives=np.array([7]), num_tries=1)
    assert losses[0] == 0 and losses[1] > 0
    gradient = tape.gradient(losses, layer.kernel.value)
    assert np.isfinite(gradient.values).all()


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_any_policy_computes_in_float32(policy):
    layer, wide = make(dtype=policy), make()
    assert {v.dtype for v in layer.weights} == {"float32"}
    sampled = {"negatives": NEGATIVES, "num_tries": NUM_TRIES}
    for kwargs in ({}, sampled):
        np.testing.assert_array_equal(
            layer(draw(), TARGETS, **kwargs), wide(draw(), TARGETS, **kwargs)
        )
    half = draw().astype(np.float16)
    assert layer(half, TARGETS, **sampled).dtype == tf.float32
    with tf.GradientTape() as tape:
        losses = layer(half, TARGETS, **sampled)
    assert isinstance(tape.gradient(losses, layer.kernel.value), tf.IndexedSlices)


def test_initial_weights_have_the_published_distribution():
    layers = [SampledSoftmax(400, seed=seed) for seed in (1, 1, 2)]
    for layer in layers:
        layer.build((None, 50))
    assert layers[0].kernel.shape == (400, 50)
    assert np.std(layers[0].kernel) == pytest.approx(1 / np.sqrt(50), rel=0.03)
    assert not np.any(layers[0].bias)
    np.testing.assert_array_equal(layers[0].kernel, layers[1].kernel)
    assert (layers[0].kernel.numpy() != layers[2].kernel.numpy()).all()


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="vocabulary_size must be at least 1, got 0"):
        SampledSoftmax(0)
    with pytest.raises(ValueError, match="negatives need num_tries, got None"):
        make()(draw(), TARGETS, negatives=NEGATIVES)
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        make().top_classes(draw()[np.newaxis], 1, block_size=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="negatives must be distinct"):
        make()(draw(), TARGETS, negatives=np.array([3, 4, 3]), num_tries=3)
