"""The variables of layers by name, and the arrays of a model that go into them.

A variable's name is the attributes that lead to it from the encoder; that of a softmax begins with
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
    """The variables of a built layer by the attributes that lead to them, joined by dots.

    Args:
      layer: any layer each of whose variables and sublayers is an attribute.
      prefix: put before each name, such as "softmax.".

    Raises:
      ValueError: a variable is no attribute (it is in a list, say), and has no name.
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
    """The variables of an encoder and, if given, of its softmax layer: the dictionary `model`."""
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
    """Assigns the arrays of a model to the variables of their names: all, or none.

    Beside the variables it needs memory for a copy of the largest array.

    Args:
      variables: by name. Those of a scalar mix are left as they are if the model has none.
      model: the arrays.
      scalar_mix: whether the arrays of a scalar mix are assigned.
      softmax: whether those of a softmax are.

    Raises:
      InputError: names or shapes differ, and the message lists every difference; or an array is
        damaged, and those before it have been assigned.
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
