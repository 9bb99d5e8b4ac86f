"""Keeps small gradients from vanishing in float16, whose least positive number is 6e-8."""

import keras
import tensorflow as tf

_FIRST_SCALE = 2.0**15
_GREATEST_SCALE = 2.0**100  # gradients that are zero would let it grow without end
_FINITE_STEPS_PER_DOUBLING = 2000


class LossScale:
    """A factor that losses are multiplied with, as large as gradients can bear.

    Gradients are divided by it again before anything else is done with them. Where they are not
    finite nonetheless the update is left out and the factor halved; after 2000 updates in a row it
    is doubled. It is a power of two, so by itself it rounds nothing.

    `keras.optimizers.LossScaleOptimizer` does the same, but inside of `apply`: the norm by which
    gradients are clipped and reported would be the multiplied one. It also looks through the whole
    table where a gradient has few rows.

    Args:
      optimizer: keeps the factor, and the number of updates since it last changed, among its
        variables, so that both are in each checkpoint.

    Reference:
      Micikevicius et al. 2018, section 3.2, https://arxiv.org/abs/1710.03740.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer) -> None:
        self._factor = optimizer.add_variable(
            (), keras.initializers.Constant(_FIRST_SCALE), "float32", name="loss_scale"
        )
        self._num_finite = optimizer.add_variable((), "zeros", "int32", name="finite_steps")

    @property
    def factor(self) -> tf.Tensor:
        """The factor of the next step, a float32 scalar."""
        return tf.convert_to_tensor(self._factor)

    def update(self, is_finite: tf.Tensor) -> None:
        """Fits the factor to whether the last gradients were finite, a bool scalar."""
        num_finite = tf.where(is_finite, self._num_finite + 1, 0)
        is_long_enough = num_finite >= _FINITE_STEPS_PER_DOUBLING
        change = tf.where(is_finite, tf.where(is_long_enough, 2.0, 1.0), 0.5)
        # At 1 the gradients overflow by themselves, and a smaller factor would only hide it.
        self._factor.assign(tf.clip_by_value(self._factor * change, 1.0, _GREATEST_SCALE))
        self._num_finite.assign(tf.where(is_long_enough, 0, num_finite))
