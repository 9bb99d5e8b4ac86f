"""Optimizers by name; Adagrad as bilm-tf trains with, whose cost does not follow the vocabulary."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from elmo_tf.config.training import TrainingConfig

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


@keras.saving.register_keras_serializable(package="elmo_tf")
class Adagrad(keras.optimizers.Adagrad):
    """Adagrad of TensorFlow 1, in one fused operation for each variable.

    For the gradient g of a variable w, element by element:

        a <- a + g ** 2             `a` starts as `initial_accumulator_value`
        w <- w - learning_rate * g / (sqrt(a) + epsilon)

    Keras's own Adagrad adds epsilon inside the root and works through all of `a` and `w` even for
    a gradient with few rows. Here such a gradient (`tf.IndexedSlices`, each index once) touches
    its rows only, so a step costs the same whatever the vocabulary.

    The defaults are those of bilm-tf's published runs. An accumulator that starts above zero needs
    no epsilon.

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
    """The optimizer of a run, with Keras's own defaults for all that the configuration lacks.

    Clipping is not its business, see `step`, nor is a schedule, see `learning_rates`.
    """
    if config.optimizer == "adagrad":
        return Adagrad(config.learning_rate, config.initial_accumulator)
    return keras_optimizers()[config.optimizer](config.learning_rate)


def keras_optimizers() -> dict[str, type[keras.optimizers.Optimizer]]:
    """Every optimizer of Keras by its name in small letters, as Keras's own look-up has it."""
    return {
        name.lower(): kind
        for name, kind in vars(keras.optimizers).items()
        if isinstance(kind, type) and issubclass(kind, keras.optimizers.Optimizer)
    }


def fit_gradient(optimizer: keras.optimizers.Optimizer, gradient: Gradient) -> Gradient:
    """The gradient in the form that the optimizer is right with.

    A row that a sparse gradient lacks has the gradient zero. Adagrad, and gradient descent without
    momentum, leave such a row as it is, so they may work through the others alone. All others
    change it: what they remember of earlier gradients fades, or moves it further. They get a dense
    gradient, and their cost follows the vocabulary.

    Args:
      optimizer: of this module.
      gradient: a tensor, or `tf.IndexedSlices` with each index once.
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
    """What a built optimizer remembers, named after the variables it trains.

    Args:
      optimizer: any Keras optimizer, built.
      trained: the variables that it was built with, by our names and in its order.

    Returns:
      Variables such as "softmax.kernel.accumulator"; what belongs to no variable of the model has
      its own name, such as "iteration".
    """
    # Keras names what it keeps for the variable "a/b" as "a_b_" and its kind. Longer names first,
    # since one variable's may begin as another's.
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
    """Names, by id, for what Keras gives no name that another process would find again.

    Such as `_u_product` of Nadam ("u_product"), and `_r` of Adafactor, with a variable for each
    that is trained ("softmax.kernel.r").
    """
    names = {}
    for attribute, value in vars(optimizer).items():
        kind = attribute.strip("_")
        if isinstance(value, keras.Variable) and kind not in ("iterations", "learning_rate"):
            names[id(value)] = kind
        elif isinstance(value, list) and len(value) == len(trained):
            names |= {id(each): f"{name}.{kind}" for name, each in zip(trained, value, strict=True)}
    return names
