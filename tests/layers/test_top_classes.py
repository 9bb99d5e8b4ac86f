"""The best classes under several softmaxes together, against a full sort in NumPy."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import top_classes as module
from elmo_tf.layers.sampled_softmax import SampledSoftmax

pytestmark = pytest.mark.traced

CLASSES, DIM, POSITIONS = 53, 6, 9
LEFT_OUT = [2, 0, 50]


def make(**kwargs):
    layer = SampledSoftmax(CLASSES, seed=1, **kwargs)
    layer.build((None, DIM))
    layer.bias.assign(np.random.default_rng(4).normal(size=CLASSES))
    return layer


def draw(ways=2, positions=POSITIONS):
    return np.random.default_rng(3).normal(size=[ways, positions, DIM]).astype(np.float32)


def expected(layer, inputs, num_top, excluded):
    """(ids, scores, log-probabilities), by sorting the whole vocabulary."""
    logits = inputs.astype(np.float64) @ layer.kernel.numpy().T + layer.bias.numpy()
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    totals = log_p.sum(axis=0)
    totals[:, excluded] = -np.inf
    ids = np.argsort(-totals, axis=-1, kind="stable")[:, :num_top]
    return (
        ids,
        np.take_along_axis(totals, ids, -1),
        np.stack([np.take_along_axis(way, ids, -1) for way in log_p]),
    )


OPTIONS = list(itertools.product([1, 2, 3], [0, 1, 7, 50], [1, 7, 52, 53, 8192]))


@pytest.mark.parametrize("ways,num_top,block_size", OPTIONS)
def test_equals_a_sort_of_all_classes(ways, num_top, block_size):
    layer, inputs = make(), draw(ways)
    result = layer.top_classes(inputs, num_top, LEFT_OUT, block_size)
    ids, scores, log_probabilities = expected(layer, inputs, num_top, LEFT_OUT)
    assert result.ids.dtype == tf.int32
    np.testing.assert_array_equal(result.ids, ids)
    np.testing.assert_allclose(result.scores, scores, atol=3e-6)
    np.testing.assert_allclose(result.log_probabilities, log_probabilities, atol=3e-6)
    normalizers = layer.log_normalizer(inputs.reshape(-1, DIM))
    np.testing.assert_allclose(np.ravel(result.log_normalizers), normalizers, atol=3e-6)


def test_all_classes_may_be_found():
    layer = make()
    ids = layer.top_classes(draw(), CLASSES, block_size=20).ids.numpy()
    np.testing.assert_array_equal(np.sort(ids, axis=1), [np.arange(CLASSES)] * POSITIONS)


@pytest.mark.parametrize("positions", [0, 1, 4])
def test_one_trace_serves_any_number_of_positions(positions):
    layer = make()
    specification = tf.TensorSpec([2, None, DIM], tf.float32)
    function = tf.function(
        lambda inputs: layer.top_classes(inputs, 3, block_size=20),
        input_signature=[specification],
    )
    inputs = draw(positions=positions)
    np.testing.assert_array_equal(function(inputs).ids, expected(layer, inputs, 3, [])[0])


@pytest.mark.parametrize("block_size", [1, 4, 10])
def test_of_equal_classes_the_first_ones_are_found_in_order(block_size):
    layer = SampledSoftmax(10)
    layer.build((None, 1))
    layer.kernel.assign(np.zeros([10, 1]))
    layer.bias.assign([0, 5, 0, 5, 5, 9, 0, 5, 5, 5])
    ids = layer.top_classes(np.ones([2, 1, 1]), 5, block_size=block_size).ids
    np.testing.assert_array_equal(ids, [[5, 1, 3, 4, 7]])


def test_scores_never_rise_and_no_probability_is_above_one():
    layer = SampledSoftmax(40)
    layer.build((None, 1))
    layer.kernel.assign(np.random.default_rng(5).normal(size=[40, 1], scale=1e-6))
    layer.bias.assign(np.where(np.arange(40) == 11, 30.0, 0.0))
    result = layer.top_classes(np.ones([2, 3, 1]), 40, block_size=7)
    assert (np.diff(result.scores, axis=1) <= 0).all()
    assert result.ids[0, 0] == 11
    assert np.max(result.log_probabilities) <= 0 and np.max(result.scores) <= 0


def test_memory_is_that_of_a_block(monkeypatch):
    shapes, select = [], module._select

    def recorded(candidates, number):
        shapes.append(candidates.logits.shape)
        return select(candidates, number)

    monkeypatch.setattr(module, "_select", recorded)
    make().top_classes(draw(), 4, block_size=20)
    # Candidates: a block, and the best classes so far.
    assert [shape[:2] for shape in shapes] == [(2, POSITIONS)] * 6
    assert [shape[2] for shape in shapes] == [20, 8, 20, 8, 13, 8]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float16"])
def test_any_policy_computes_in_float32(policy):
    ours, theirs = (layer.top_classes(draw(), 5) for layer in (make(dtype=policy), make()))
    for one, two in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, two)
    half = make().top_classes(draw().astype(np.float16), 5)
    assert half.scores.dtype == half.log_probabilities.dtype == tf.float32


def test_wrong_arguments_are_named():
    for number in (-1, 51):
        with pytest.raises(ValueError, match=f"num_top must be from 0 to 50, got {number}"):
            make().top_classes(draw(), number, LEFT_OUT)
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        make().top_classes(draw(), 1, block_size=0)
