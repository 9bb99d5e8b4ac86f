"""Loss scaling, against underflow of gradients in float16 (smallest positive number 6e-8)."""

import keras
import tensorflow as tf

_FIRST_SCALE = 2.0**15
_GREATEST_SCALE = 2.0**100  # gradients of zero would let it grow without limit
_FINITE_STEPS_PER_DOUBLING = 2000


class LossScale:
    """Dynamic loss scaling: multiplies losses by the largest factor without gradient overflow.

    Gradients are divided by the factor before any other use. If a gradient is not finite, the
    update is skipped and the factor halved; after 2000 consecutive updates it is doubled. The
    factor is a power of two, so that scaling causes no rounding.

    `keras.optimizers.LossScaleOptimizer` does the same inside `apply`, where the gradient norm for
    clipping and reports would be the scaled one. It also scans a whole table for a gradient that
    has few rows.

    Args:
      optimizer: the optimizer whose variables will include the factor and the number of updates
        since it last changed, so that checkpoints contain both.

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
        """Updates the factor; `is_finite` is a bool scalar, about the last gradients."""
        num_finite = tf.where(is_finite, self._num_finite + 1, 0)
        is_long_enough = num_finite >= _FINITE_STEPS_PER_DOUBLING
        change = tf.where(is_finite, tf.where(is_long_enough, 2.0, 1.0), 0.5)
        # At 1 the gradients overflow without scaling; a smaller factor would only hide that.
        self._factor.assign(tf.clip_by_value(self._factor * change, 1.0, _GREATEST_SCALE))
        self._num_finite.assign(tf.where(is_long_enough, 0, num_finite))
