"""Highway against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers.highway import Highway
from tests.layers import references

pytestmark = pytest.mark.traced

BATCH, TIME, DIM = 3, 4, 5


def make(**kwargs):
    layer = Highway(seed=3, **kwargs)
    layer.build((None, DIM))
    rng = np.random.default_rng(5)
    for variable in layer.weights:
        variable.assign(rng.normal(size=variable.shape))
    return layer


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("leading", [(BATCH,), (BATCH, TIME), (0,)])
def test_equals_numpy(in_graph, leading):
    layer = make()
    inputs = np.random.default_rng(7).normal(size=(*leading, DIM)).astype(np.float32)
    outputs = (tf.function(layer) if in_graph else layer)(inputs)
    np.testing.assert_allclose(outputs, references.highway(layer, inputs), atol=2e-6)


def test_starts_close_to_the_identity_with_weights_of_the_published_distribution():
    layer = Highway(seed=1)
    layer.build((None, 200))
    np.testing.assert_array_equal(layer.gate_bias, np.full(200, -2.0))
    np.testing.assert_array_equal(layer.candidate_bias, np.zeros(200))
    for matrix in (layer.gate_matrix, layer.candidate_matrix):
        assert np.std(matrix) == pytest.approx(np.sqrt(1 / 200), rel=0.02)
        assert abs(np.mean(matrix)) < 0.002
    assert np.abs(np.corrcoef(layer.gate_matrix, layer.candidate_matrix)[0, 200]) < 0.3


def test_one_seed_gives_one_start_and_different_matrices():
    first, again, other = Highway(seed=1), Highway(seed=1), Highway(seed=2)
    for layer in (first, again, other):
        layer.build((None, DIM))
    np.testing.assert_array_equal(first.gate_matrix, again.gate_matrix)
    np.testing.assert_array_equal(first.candidate_matrix, again.candidate_matrix)
    assert np.abs(np.subtract(first.gate_matrix, other.gate_matrix)).min() > 0
    assert np.abs(np.subtract(first.gate_matrix, first.candidate_matrix)).min() > 0
