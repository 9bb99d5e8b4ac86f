"""Initial weights depend on seed and name, or are zeros if a file is read next."""

import numpy as np
import pytest

from elmo_tf.layers.initial_values import InitialValues
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.model.variables import model_variables
from tests.training import tiny

pytestmark = pytest.mark.traced


def kernels(**kwargs):
    """The kernels of a whole model; biases and the scalar mix have constant initial values."""
    model = ElmoLanguageModel(tiny.CONFIG, vocabulary_size=11, seed=3, **kwargs)
    variables = model_variables(model.encoder, model.softmax)
    found = {
        name: variable.numpy()
        for name, variable in variables.items()
        if name.split(".")[-1].startswith(("embedding", "convolution_kernel"))
        or name.endswith(("kernel", "matrix"))
    }
    assert len(found) == 1 + 2 + 2 + 1 + 2 * 2 * 3 + 1
    return found


def test_zeros_without_initialization():
    for name, values in kernels(without_initialization=True).items():
        assert not values.any(), name
    for name, values in kernels().items():
        assert values.all(), name


def test_draws_are_where_they_should_be():
    draws = InitialValues(seed=1)
    uniform = np.asarray(draws.uniform(0.25, "a")([200, 50]))
    assert -0.25 <= uniform.min() < -0.24
    assert 0.24 < uniform.max() <= 0.25
    normal = np.asarray(draws.normal(0.5, "a")([200, 50]))
    assert normal.std() == pytest.approx(0.5, rel=0.03)
    assert normal.mean() == pytest.approx(0.0, abs=0.02)
    other = np.asarray(draws.normal(0.5, "b")([200, 50]))
    assert not np.isclose(other, normal).mean() > 0.01
