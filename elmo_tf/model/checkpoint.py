"""Our own checkpoints: those of training runs, and the variables inside our SavedModels.

Both hold variables by name, in dictionaries that are attributes of what is saved. The dictionary
`model` has the weights, named by the attributes that lead to them from the encoder:

    char_cnn.embedding   bilm.forward_0.input_kernel   scalar_mix.gamma   softmax.kernel

Names like these outlive the classes of the code, which the object graphs of Keras do not. Reading
goes through TensorFlow's checkpoint reader, which checks a sum over each array: a file that was
cut off, or that lost bits, is noticed and never taken for weights.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from elmo_tf.errors import InputError, printable

_logger = logging.getLogger(__name__)

MODEL = "model"
CHECKPOINT_NAME = "ckpt"

Variables = dict[str, tf.Variable]
Result = TypeVar("Result")

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# TensorFlow translates statuses of its C++ into one or the other.
_READ_ERRORS = (tf.errors.OpError, ValueError, RuntimeError, LookupError)


class DamagedCheckpointError(InputError):
    """A checkpoint that can't be read: cut off, changed, or partly gone."""


def named_variables(layer: keras.layers.Layer, prefix: str = "") -> Variables:
    """The variables of a built layer by the attributes that lead to them, joined by dots.

    Args:
      layer: any layer each of whose variables and sublayers is an attribute.
      prefix: put before each name, such as "softmax.".

    Raises:
      ValueError: a variable hangs on no attribute (it is in a list, say), and has no name.
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
        variables.update(named_variables(softmax, "softmax."))
    return variables


class CheckpointReader:
    """The arrays of a checkpoint by dictionary and name; they are read when they are asked for.

    Args:
      prefix: path of the checkpoint without `.index`; of a SavedModel, `variables/variables`.

    Raises:
      DamagedCheckpointError: there is no such checkpoint, or it can't be read.
    """

    def __init__(self, prefix: str | os.PathLike) -> None:
        self.prefix = os.fspath(prefix)
        # TensorFlow's own words for a missing file are about a table of tensors.
        if not os.path.isfile(f"{self.prefix}.index"):
            raise DamagedCheckpointError(f"{self.prefix}: there is no such checkpoint")
        try:
            self._reader = tf.train.load_checkpoint(self.prefix)
            self._shapes = self._reader.get_variable_to_shape_map()
            self._reader.get_tensor(_OBJECT_GRAPH)  # written last, so the first to be cut off
        except _READ_ERRORS as error:
            raise self._damaged(error) from error

    def shapes(self, group: str = MODEL) -> dict[str, tuple[int, ...]]:
        """The shapes of the arrays in one dictionary by their names."""
        start = f"{group}/"
        return {
            _unescape(key[len(start) : -len(_VALUE)]): tuple(shape)
            for key, shape in self._shapes.items()
            if key.startswith(start) and key.endswith(_VALUE)
        }

    def read(self, name: str, group: str = MODEL) -> Any:
        """One array; of a scalar string its bytes.

        Raises:
          DamagedCheckpointError: its bytes are not those that were written.
        """
        try:
            return self._reader.get_tensor(f"{group}/{_escape(name)}{_VALUE}")
        except _READ_ERRORS as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> DamagedCheckpointError:
        reason = " ".join(str(getattr(error, "message", error)).split())
        return DamagedCheckpointError(f"{self.prefix}: damaged or truncated checkpoint: {reason}")


def read_variables(checkpoint_prefix: str | os.PathLike) -> dict[str, np.ndarray]:
    """The arrays of the dictionary `model` by name, those of a softmax included.

    Raises:
      DamagedCheckpointError: there is no such checkpoint, or it can't be read.
      InputError: it is somebody else's: it has no such dictionary.
    """
    return _read_model(CheckpointReader(checkpoint_prefix))


def _read_model(reader: CheckpointReader) -> dict[str, np.ndarray]:
    return {name: reader.read(name) for name in sorted(_model_shapes(reader))}


def _model_shapes(
    reader: CheckpointReader, left_out: str | None = None
) -> dict[str, tuple[int, ...]]:
    shapes = {
        name: shape
        for name, shape in reader.shapes().items()
        if left_out is None or not name.startswith(left_out)
    }
    if not shapes:
        raise InputError(f"{reader.prefix}: is not a checkpoint of elmo_tf: no model in it")
    return shapes


def assign_variables(
    variables: Mapping[str, tf.Variable], arrays: Mapping[str, np.ndarray], source: str
) -> None:
    """Assigns each array to the variable of its name: all, or none.

    Raises:
      InputError: names or shapes differ; the message lists every difference.
    """
    require_same(variables, {name: np.shape(array) for name, array in arrays.items()}, source)
    for name, array in arrays.items():
        variables[name].assign(array)


def assign_stored(
    variables: Mapping[str, tf.Variable], reader: CheckpointReader, left_out: str | None = None
) -> None:
    """As `assign_variables`, from the dictionary `model` of a checkpoint, one array at a time.

    Args:
      variables: by name.
      reader: of the checkpoint.
      left_out: beginning of the names of arrays that are not to be read.

    Raises:
      InputError: names or shapes differ, or there is no such dictionary.
      DamagedCheckpointError: an array can't be read; those before it have been assigned.
    """
    require_same(variables, _model_shapes(reader, left_out), reader.prefix)
    for name, variable in variables.items():
        variable.assign(reader.read(name))


def require_same(
    variables: Mapping[str, tf.Variable], shapes: Mapping[str, tuple[int, ...]], source: str
) -> None:
    """Raises an `InputError` that lists every difference between variables and arrays."""
    problems = []
    for name, variable in variables.items():
        expected = tuple(variable.shape)
        if name not in shapes:
            problems.append(f"missing: {name} {list(expected)}")
        elif shapes[name] != expected:
            problems.append(
                f"wrong shape: {name} is {list(shapes[name])}, must be {list(expected)}"
            )
    for name in shapes.keys() - variables.keys():
        problems.append(f"unexpected: {printable(name)} {list(shapes[name])}")
    if problems:
        raise InputError(f"{source}: does not fit the model: {'; '.join(sorted(problems))}")


def checkpoints_in(directory: str | os.PathLike) -> list[str]:
    """The prefixes of a training directory's checkpoints, newest first; damaged ones among them."""
    steps = [
        int(match[1])
        for name in os.listdir(directory)
        if (match := re.fullmatch(rf"{CHECKPOINT_NAME}-(\d+)\.index", name))
    ]
    return [os.path.join(directory, f"{CHECKPOINT_NAME}-{step}") for step in sorted(steps)[::-1]]


def read_newest(
    directory: str | os.PathLike, read: Callable[[CheckpointReader], Result] = _read_model
) -> Result:
    """As `from_newest`, where there has to be a checkpoint; as it is, reads as `read_variables`.

    Raises:
      InputError: as `from_newest`, or there is no checkpoint.
    """
    result = from_newest(directory, read)
    if result is None:
        raise InputError(f"{directory}: has no checkpoint yet")
    return result


def from_newest(
    directory: str | os.PathLike, read: Callable[[CheckpointReader], Result]
) -> Result | None:
    """What `read` makes of the newest checkpoint that is not damaged; None if there is none at all.

    A damaged one, which a power cut or a full disk may leave, is named in a warning.

    Args:
      directory: of a training run.
      read: has to read all that it will need, since only reading finds damage.

    Raises:
      InputError: all of them are damaged, or what `read` raises.
    """
    damaged: list[str] = []
    for prefix in checkpoints_in(directory):
        try:
            result = read(CheckpointReader(prefix))
        except DamagedCheckpointError as error:
            damaged.append(str(error))
            continue
        for message in damaged:
            _logger.warning("%s; going back to %s", message, os.path.basename(prefix))
        return result
    if damaged:
        raise InputError(f"no checkpoint can be read: {'; '.join(damaged)}")
    return None


# How `tf.train.Checkpoint` writes the names of a dictionary, where "/" has a meaning already.
def _escape(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")


def _unescape(key: str) -> str:
    return re.sub(r"\.(\.|S)", lambda match: "." if match[1] == "." else "/", key)
