"""Optimizers by name, with bilm-tf's Adagrad, whose cost does not grow with the vocabulary."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from elmo_tf.config.training import TrainingConfig

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


@keras.saving.register_keras_serializable(package="elmo_tf")
class Adagrad(keras.optimizers.Adagrad):
    """Adagrad of TensorFlow 1, with one fused operation per variable.

    For the gradient g of a variable w, elementwise:

        a <- a + g ** 2             `a` starts as `initial_accumulator_value`
        w <- w - learning_rate * g / (sqrt(a) + epsilon)

    Keras's Adagrad adds epsilon inside the square root and updates all of `a` and `w` even for a
    gradient with few rows. Here such a gradient (`tf.IndexedSlices` with unique indices) updates
    only its rows, so the cost of a step does not depend on the size of the vocabulary.

    The defaults are those of bilm-tf. With a positive initial accumulator, epsilon can be 0.

    Reference:
      Duchi et al. 2011, https://jmlr.org/papers/v12/duchi11a.html.
    """

    def __init__(
        self,
        learning_rate: Any = 0.2,
        initial_accumulator_value: float = 1.0,
        epsilon: float = 0.0,
        name: str = "adagrad",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, initial_accumulator_value, epsilon, name=name, **kwargs)

    def update_step(
        self,
        gradient: tf.Tensor | tf.IndexedSlices,
        variable: tf.Variable,
        learning_rate: tf.Tensor,
    ) -> None:
        accumulator = self._accumulators[self._get_variable_index(variable)].value
        arguments = {
            "var": variable.handle,
            "accum": accumulator.handle,
            "lr": tf.cast(learning_rate, variable.dtype),
            "epsilon": tf.constant(self.epsilon, variable.dtype),
            "use_locking": True,
        }
        if isinstance(gradient, tf.IndexedSlices):
            tf.raw_ops.ResourceSparseApplyAdagradV2(
                grad=gradient.values, indices=gradient.indices, **arguments
            )
        else:
            tf.raw_ops.ResourceApplyAdagradV2(grad=gradient, **arguments)


def make_optimizer(config: TrainingConfig) -> keras.optimizers.Optimizer:
    """The optimizer of a run, with Keras's defaults for everything not in the configuration.

    It does not clip gradients, see `step`, and has no schedule, see `learning_rates`.
    """
    if config.optimizer == "adagrad":
        return Adagrad(config.learning_rate, config.initial_accumulator)
    return keras_optimizers()[config.optimizer](config.learning_rate)


def keras_optimizers() -> dict[str, type[keras.optimizers.Optimizer]]:
    """Every optimizer of Keras by its name in lower case, as in `keras.optimizers.get`."""
    return {
        name.lower(): kind
        for name, kind in vars(keras.optimizers).items()
        if isinstance(kind, type) and issubclass(kind, keras.optimizers.Optimizer)
    }


def fit_gradient(optimizer: keras.optimizers.Optimizer, gradient: Gradient) -> Gradient:
    """Converts a sparse gradient to a dense one if the optimizer needs it for correct results.

    A row that is missing in a sparse gradient has the gradient zero. Adagrad, and gradient descent
    without momentum, do not change such a row, so they can use the sparse gradient. All other
    optimizers do change it, because their moving averages decay or their momentum moves it. They
    get a dense gradient, and their cost grows with the vocabulary.

    Args:
      optimizer: an optimizer of this module.
      gradient: a tensor, or `tf.IndexedSlices` with unique indices.
    """
    if not isinstance(gradient, tf.IndexedSlices) or _takes_rows(optimizer):
        return gradient
    # Not `tf.convert_to_tensor`, which warns of large gradients.
    indices = tf.cast(gradient.indices, tf.int64)[:, tf.newaxis]
    return tf.scatter_nd(indices, gradient.values, tf.cast(gradient.dense_shape, tf.int64))


def _takes_rows(optimizer: keras.optimizers.Optimizer) -> bool:
    if isinstance(optimizer, keras.optimizers.SGD):
        return not optimizer.momentum
    return isinstance(optimizer, Adagrad)


def named_slots(
    optimizer: keras.optimizers.Optimizer, trained: Mapping[str, keras.Variable]
) -> dict[str, tf.Variable]:
    """The state of a built optimizer, named after the variables that it trains.

    Args:
      optimizer: any built Keras optimizer.
      trained: the variables that it was built with, by our names and in its order.

    Returns:
      The optimizer's variables, by names such as "softmax.kernel.accumulator". A variable without
      a counterpart in the model has its own name, such as "iteration".
    """
    # Keras names the slot of the variable "a/b" "a_b_" plus its kind. Try longer names first,
    # because one variable's name may be a prefix of another's.
    starts = {f"{variable.path.replace('/', '_')}_": name for name, variable in trained.items()}
    starts = dict(sorted(starts.items(), key=lambda item: -len(item[0])))
    by_attribute = _named_by_attribute(optimizer, list(trained))
    slots: dict[str, tf.Variable] = {}
    for variable in optimizer.variables:
        start = next((start for start in starts if variable.name.startswith(start)), None)
        name = by_attribute.get(id(variable), variable.name)
        if start is not None:
            name = f"{starts[start]}.{variable.name[len(start) :]}"
        if name in slots:
            raise ValueError(f"{type(optimizer).__name__}: two variables are named {name}")
        slots[name] = variable.value
    return slots


def _named_by_attribute(
    optimizer: keras.optimizers.Optimizer, trained: list[str]
) -> dict[int, str]:
    """Names, by id, of the variables whose Keras names differ from process to process.

    Examples are `_u_product` of Nadam ("u_product"), and `_r` of Adafactor, which has one entry per
    trained variable ("softmax.kernel.r").
    """
    names = {}
    for attribute, value in vars(optimizer).items():
        kind = attribute.strip("_")
        if isinstance(value, keras.Variable) and kind not in ("iterations", "learning_rate"):
            names[id(value)] = kind
        elif isinstance(value, list) and len(value) == len(trained):
            names |= {id(each): f"{name}.{kind}" for name, each in zip(trained, value, strict=True)}
    return names
