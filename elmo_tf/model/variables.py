"""The variables of layers by name, and assignment of a model's arrays to them.

A variable's name is its path of attributes from the encoder. A softmax variable's name begins with
"softmax.":

    char_cnn.embedding   bilm.forward_0.input_kernel   scalar_mix.gamma   softmax.kernel
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from elmo_tf.formats import mapping
from elmo_tf.formats.opened_model import SCALAR_MIX, SOFTMAX, OpenedModel

Variables = dict[str, tf.Variable]


def named_variables(layer: keras.layers.Layer, prefix: str = "") -> Variables:
    """The variables of a built layer by their paths of attributes, joined by dots.

    Args:
      layer: a layer whose variables and sublayers are all attributes.
      prefix: prefix of each name, such as "softmax.".

    Raises:
      ValueError: a variable is not an attribute, for example because it is in a list.
    """
    variables: Variables = {}
    for name, value in vars(layer).items():
        if name.startswith("_"):
            continue
        if isinstance(value, keras.layers.Layer):
            variables.update(named_variables(value, f"{prefix}{name}."))
        elif isinstance(value, keras.Variable):
            variables[f"{prefix}{name}"] = value.value
    if len(variables) != len(layer.variables):
        raise ValueError(
            f"{type(layer).__name__}: {len(layer.variables)} variables, of which only "
            f"{len(variables)} are attributes of layers: {', '.join(variables)}"
        )
    return variables


def model_variables(encoder: keras.layers.Layer, softmax: Any = None) -> Variables:
    """The variables of an encoder and of its softmax layer, if given: a checkpoint's `model`."""
    variables = named_variables(encoder)
    if softmax is not None:
        variables.update(named_variables(softmax, SOFTMAX))
    return variables


def assign(
    variables: Mapping[str, tf.Variable],
    model: OpenedModel,
    scalar_mix: bool = True,
    softmax: bool = False,
) -> None:
    """Assigns a model's arrays to the variables of the same names, after a check of all of them.

    It needs memory for the variables and a copy of the largest array.

    Args:
      variables: variables by name. A scalar mix is not changed if the model has none.
      model: the model with its arrays.
      scalar_mix: whether to assign the arrays of a scalar mix.
      softmax: whether to assign the arrays of a softmax.

    Raises:
      InputError: names or shapes differ, and the message lists every difference; or an array is
        damaged, in which case earlier arrays have been assigned.
    """
    names = model.names(scalar_mix, softmax)
    shapes = {name: model.arrays[name].shape for name in names}
    has_mix = any(name.startswith(SCALAR_MIX) for name in names)
    expected = shapes_of(
        {n: v for n, v in variables.items() if has_mix or not n.startswith(SCALAR_MIX)}
    )
    mapping.require_fit(model.source, expected, shapes)
    model.read(names, lambda name, array: variables[name].assign(array))


def shapes_of(variables: Mapping[str, tf.Variable]) -> dict[str, tuple[int, ...]]:
    """The shapes of variables by their names."""
    return {name: tuple(variable.shape) for name, variable in variables.items()}
