"""Learning rates of steps against Keras's schedules."""

import keras
import numpy as np
import pytest

from elmo_tf.config.training import TrainingConfig
from elmo_tf.training.learning_rates import learning_rate_of_step


def rates(count, **settings):
    config = TrainingConfig(learning_rate=0.4, **settings)
    return [learning_rate_of_step(config, step) for step in range(count)]


def test_constant_is_the_default():
    assert rates(3) == [0.4, 0.4, 0.4]


def test_warmup_rises_in_equal_steps_to_the_learning_rate():
    np.testing.assert_allclose(rates(6, warmup_steps=4), [0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("linear", keras.optimizers.schedules.PolynomialDecay(0.4, 7, 0.0, power=1.0)),
        ("cosine", keras.optimizers.schedules.CosineDecay(0.4, 7)),
    ],
)
def test_decay_is_that_of_keras_and_stays_at_its_end(name, theirs):
    ours = rates(14, learning_rate_schedule=name, warmup_steps=5, decay_steps=12)
    np.testing.assert_allclose(ours[:5], 0.4 * np.arange(1, 6) / 5)
    np.testing.assert_allclose(ours[5:], [float(theirs(n)) for n in range(9)], atol=1e-7)
    assert min(ours[:12]) > 0.0
    assert ours[12:] == [0.0, 0.0]


def test_inverse_sqrt_goes_on_from_the_warmup():
    ours = rates(16, learning_rate_schedule="inverse_sqrt", warmup_steps=4)
    assert ours[3] == 0.4
    np.testing.assert_allclose([ours[4], ours[8], ours[15]], 0.4 * 2 / np.sqrt([5, 9, 16]))
    np.testing.assert_allclose(
        rates(4, learning_rate_schedule="inverse_sqrt"), 0.4 / np.sqrt(np.arange(1, 5))
    )


def test_a_decay_without_an_end_is_named():
    with pytest.raises(ValueError, match="linear needs decay_steps, got None"):
        rates(1, learning_rate_schedule="linear")
