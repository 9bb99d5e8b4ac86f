"""Weights start as draws that depend on seed and name, or as zeros where others follow."""

import concurrent.futures

import numpy as np
import pytest

from elmo_tf.layers import initial_values
from elmo_tf.model import checkpoint
from elmo_tf.model.language_model import ElmoLanguageModel
from tests.training import tiny


def kernels():
    """Of a whole model; biases and the mix start as constants in any case."""
    model = ElmoLanguageModel(tiny.CONFIG, vocabulary_size=11, seed=3)
    variables = checkpoint.model_variables(model.encoder, model.softmax)
    found = {
        name: variable.numpy()
        for name, variable in variables.items()
        if name.split(".")[-1].startswith(("embedding", "convolution_kernel"))
        or name.endswith(("kernel", "matrix"))
    }
    assert len(found) == 1 + 2 + 2 + 1 + 2 * 2 * 3 + 1
    return found


def test_zeros_where_others_follow_and_only_there():
    with initial_values.others_follow():
        with concurrent.futures.ThreadPoolExecutor() as threads:
            elsewhere = threads.submit(kernels)
        for name, values in kernels().items():
            assert not values.any(), name
        drawn = elsewhere.result()
    again = kernels()
    for name, values in drawn.items():
        assert values.all(), name
        np.testing.assert_array_equal(again[name], values, err_msg=name)


def test_draws_again_after_an_error():
    with pytest.raises(KeyError), initial_values.others_follow():
        raise KeyError
    for name, values in kernels().items():
        assert values.all(), name


def test_draws_are_where_they_should_be():
    uniform = np.asarray(initial_values.uniform(0.25, 1, "a")([200, 50]))
    assert -0.25 <= uniform.min() < -0.24
    assert 0.24 < uniform.max() <= 0.25
    normal = np.asarray(initial_values.normal(0.5, 1, "a")([200, 50]))
    assert normal.std() == pytest.approx(0.5, rel=0.03)
    assert normal.mean() == pytest.approx(0.0, abs=0.02)
    other = np.asarray(initial_values.normal(0.5, 1, "b")([200, 50]))
    assert not np.isclose(other, normal).mean() > 0.01
