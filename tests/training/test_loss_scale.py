"""Training in half precision: loss scaling, skipped steps, and agreement with float32."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.training import loss_scale
from elmo_tf.training.checkpoints import trained_variables
from elmo_tf.training.loss_scale import LossScale
from elmo_tf.training.optimizers import Adagrad, named_slots
from elmo_tf.training.step import TrainStep
from tests.training.test_step import BATCH, NEGATIVES, SIZE, STEPS, make_batch
from tests.training.tiny import CONFIG

pytestmark = pytest.mark.traced  # many steps of one model


@pytest.fixture
def optimizer():
    return keras.optimizers.SGD(0.1)


def test_the_scale_halves_at_once_and_doubles_after_many_updates(optimizer, monkeypatch):
    monkeypatch.setattr(loss_scale, "_FINITE_STEPS_PER_DOUBLING", 3)
    scale = LossScale(optimizer)
    factors = [float(scale.factor)]
    for is_finite in (True, True, True, True, True, False, True, True, True):
        scale.update(tf.constant(is_finite))
        factors.append(float(scale.factor))
    first = 2.0**15
    assert factors == [first] * 3 + [2 * first] * 3 + [first] * 3 + [2 * first]
    for _ in range(20):
        scale.update(tf.constant(False))
    assert float(scale.factor) == 1.0


class Trained:
    """A model with a training step in a given precision."""

    def __init__(self, precision):
        self.model = ElmoLanguageModel(CONFIG, SIZE, seed=3, precision=precision)
        self.optimizer = Adagrad()
        self.scale = LossScale(self.optimizer) if precision == "mixed_float16" else None
        self.step = TrainStep(self.model, self.optimizer, BATCH, STEPS, NEGATIVES, 10.0, self.scale)
        self.state = self.model.zero_state(BATCH)

    def train(self, count):
        results = []
        for seed in range(count):
            result, self.state = self.step(make_batch(seed=seed % 4), self.state)
            results.append(result)
        return results

    def variables(self):
        return trained_variables(self.model)

    def arrays(self):
        return {name: variable.numpy() for name, variable in self.variables().items()}


@pytest.fixture(scope="module")
def exact():
    """float32: the losses of 20 steps, the arrays after them."""
    trained = Trained("float32")
    return trained.train(20), trained.arrays()


@pytest.fixture(scope="module")
def scaled():
    """float16, trained for 20 steps."""
    trained = Trained("mixed_float16")
    return trained, trained.train(20)


def perplexity(arrays):
    """The perplexity of a text, in float32, with the given weights."""
    model = ElmoLanguageModel(CONFIG, SIZE)
    for name, variable in trained_variables(model).items():
        variable.assign(arrays[name])
    batch = make_batch(seed=2)
    losses, _ = model(batch.window, model.zero_state(BATCH))
    return float(tf.exp(tf.reduce_mean(losses)))


def assert_near(results, arrays, exact):
    expected, expected_arrays = exact
    assert expected[-1].loss < 0.97 * expected[0].loss  # training makes progress
    np.testing.assert_allclose(results, expected, rtol=0.05)
    losses, expected_losses = ([each.loss for each in part] for part in (results, expected))
    np.testing.assert_allclose(losses, expected_losses, rtol=0.005)
    assert losses != expected_losses
    assert {array.dtype for array in arrays.values()} == {np.dtype("float32")}
    assert perplexity(arrays) == pytest.approx(perplexity(expected_arrays), rel=0.01)


def test_bfloat16_is_near_float32(exact):
    trained = Trained("mixed_bfloat16")
    results = trained.train(20)
    assert_near(results, trained.arrays(), exact)
    assert {each.dtype for each in tf.nest.flatten(trained.state)} == {tf.float32}


def test_float16_is_near_float32(exact, scaled):
    trained, results = scaled
    assert_near(results, trained.arrays(), exact)


def test_a_step_whose_gradient_overflows_is_left_out(scaled):
    trained, _ = scaled
    slots = named_slots(trained.optimizer, trained.variables())
    before, sums = trained.arrays(), slots["softmax.kernel.accumulator"].numpy()
    slots["loss_scale"].assign(2.0**100)
    (result,) = trained.train(1)
    assert (result.gradient_norm, np.isfinite(result.loss)) == (0.0, True)
    assert float(trained.scale.factor) == 2.0**99
    assert slots["finite_steps"].numpy() == 0
    for name, array in trained.arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    np.testing.assert_array_equal(slots["softmax.kernel.accumulator"], sums)
    slots["loss_scale"].assign(2.0**15)
    (result,) = trained.train(1)
    assert result.gradient_norm > 0.0
    assert (slots["softmax.kernel.accumulator"].numpy() != sums).any()
