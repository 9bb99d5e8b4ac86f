"""log_sum_exp against NumPy, and its gradient against TensorFlow's for the direct formula."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import log_sum_exp as module
from elmo_tf.layers.log_sum_exp import log_sum_exp

pytestmark = pytest.mark.traced

CLASSES, DIM, POSITIONS = 53, 6, 9
# One per position: the first and the last class, a duplicate, and ids without a class.
LEFT_OUT = np.array([0, 30, 7, 30, 52, 53, 99, -1, 51], np.int32)


def draw(positions=POSITIONS, classes=CLASSES, scale=2.0):
    random = np.random.default_rng(3)
    shapes = [classes, DIM], [classes], [positions, DIM]
    return [tf.constant(random.normal(size=shape, scale=scale), tf.float32) for shape in shapes]


def numpy_result(kernel, bias, inputs, excluded=None):
    logits = inputs.numpy().astype(np.float64) @ kernel.numpy().T + bias.numpy()
    if excluded is not None:
        for position, left in enumerate(excluded):
            logits[position, np.arange(len(bias)) == left] = -np.inf
    largest = logits.max(axis=1, keepdims=True)
    return largest[:, 0] + np.log(np.exp(logits - largest).sum(axis=1))


def plain(kernel, bias, inputs, excluded):
    logits = inputs @ tf.transpose(kernel) + bias
    is_excluded = tf.range(len(bias)) == excluded[:, np.newaxis]
    return tf.reduce_logsumexp(tf.where(is_excluded, -1e30, logits), axis=1)


@pytest.mark.parametrize("block_size", [1, 7, 52, 53, 54, 8192, None])
@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("positions", [POSITIONS, 1, 0])
def test_values_equal_numpy(block_size, in_graph, positions):
    weights, excluded = draw(positions), LEFT_OUT[:positions]
    call = tf.function(log_sum_exp, autograph=False) if in_graph else log_sum_exp
    result = call(*weights, block_size=block_size)
    np.testing.assert_allclose(result, numpy_result(*weights), rtol=1e-6, atol=3e-6)
    result = call(*weights, excluded, block_size)
    np.testing.assert_allclose(result, numpy_result(*weights, excluded), rtol=1e-6, atol=3e-6)


@pytest.mark.parametrize("block_size", [1, 7, 53, None])
@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("positions", [POSITIONS, 0])
def test_gradients_equal_those_of_the_plain_formula(block_size, in_graph, positions):
    sources, excluded = draw(positions), LEFT_OUT[:positions]
    weights = np.random.default_rng(6).normal(size=positions).astype(np.float32)

    def gradients(function):
        with tf.GradientTape() as tape:
            tape.watch(sources)
            result = tf.reduce_sum(weights * function(*sources))
        return tape.gradient(result, sources)

    def ours():
        return gradients(lambda *args: log_sum_exp(*args, excluded, block_size))

    found = (tf.function(ours, autograph=False) if in_graph else ours)()
    for one, two in zip(found, gradients(lambda *args: plain(*args, excluded)), strict=True):
        assert one.shape == two.shape
        np.testing.assert_allclose(one, two, rtol=5e-6, atol=5e-6)
        assert not positions or np.abs(one).max() > 0


def test_large_logits():
    kernel, _, inputs = draw()
    bias = tf.linspace(-500.0, 500.0, CLASSES)
    expected = numpy_result(kernel, bias, inputs)
    for block_size in (5, 60):
        result = log_sum_exp(kernel, bias, inputs, block_size=block_size)
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_a_sum_of_nothing_has_no_gradient():
    kernel, bias, inputs = draw(positions=2, classes=1)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = log_sum_exp(kernel, bias, inputs, tf.constant([0, 1]))
        loss = tf.math.softplus(total)  # as for the target in the sampled softmax
    assert loss[0] == 0 and loss[1] > 0
    np.testing.assert_array_equal(tape.gradient(loss, inputs)[0], np.zeros(DIM))


@pytest.mark.parametrize("block_size", [20, None])
def test_all_logits_are_never_held_at_once(monkeypatch, block_size):
    shapes, logits = [], module._logits

    def recorded(*args):
        shapes.append(logits(*args).shape)
        return logits(*args)

    monkeypatch.setattr(module, "_logits", recorded)
    monkeypatch.setattr(module, "BLOCK_LOGITS", 20 * POSITIONS + 1)
    weights = draw()
    with tf.GradientTape() as tape:
        tape.watch(weights)
        result = log_sum_exp(*weights, block_size=block_size)
    blocks = [(20, POSITIONS), (20, POSITIONS), (13, POSITIONS)]
    assert shapes == blocks
    tape.gradient(result, weights)
    assert shapes == 2 * blocks  # blocks are recomputed, not stored
