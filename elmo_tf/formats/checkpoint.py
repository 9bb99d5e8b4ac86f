"""Checkpoints as dictionaries of arrays by name, read by TensorFlow's checkpoint reader.

Our checkpoints store a model's arrays in the dictionary `model`, by the names of
`elmo_tf.model.variables`. Unlike the object graphs of Keras, these names do not depend on the
classes of the code. TensorFlow verifies a checksum of each array, so truncated or changed files are
detected.
"""

import functools
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from elmo_tf.errors import InputError, listed, shortened
from elmo_tf.formats import tensor_index
from elmo_tf.storage import files
from elmo_tf.storage.stored_array import StoredArray

_logger = logging.getLogger(__name__)

# The dictionaries that runs and exports have; see `elmo_tf.training.checkpoints`.
MODEL, OPTIMIZER, INITIAL_STATE = "model", "optimizer", "initial_state"
CHECKPOINT_NAME = "ckpt"

Result = TypeVar("Result")

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class DamagedCheckpointError(InputError):
    """A checkpoint is truncated, changed or incomplete."""


class CheckpointFile:
    """The arrays of a TensorFlow 1 or 2 checkpoint, by their stored names.

    Args:
      prefix: path of the checkpoint without `.index`.
      source: name of the checkpoint in errors; default: its path.
      read_first: name of an array to read at once.

    Raises:
      DamagedCheckpointError: there is no such checkpoint, or it cannot be read.
    """

    def __init__(
        self,
        prefix: str | os.PathLike,
        source: str | None = None,
        read_first: str | None = None,
    ) -> None:
        import tensorflow as tf

        # TensorFlow raises one or the other for errors of its C++ code.
        self._read_errors = (tf.errors.OpError, ValueError, RuntimeError, LookupError, TypeError)
        self.prefix = os.fspath(prefix)
        self._source = self.prefix if source is None else source
        files.require_utf8(self.prefix)
        # TensorFlow's message for a missing file is about a table of tensors.
        if not os.path.isfile(f"{self.prefix}.index"):
            raise DamagedCheckpointError(f"{self._source}: there is no such checkpoint")
        try:
            tensor_index.read_index(f"{self.prefix}.index")
        except (ValueError, OSError) as error:
            raise self._damaged(error) from error
        try:
            self._reader = tf.train.load_checkpoint(self.prefix)
            self.shapes = self._reader.get_variable_to_shape_map()
            self._dtypes = self._reader.get_variable_to_dtype_map()
            if read_first is not None:
                self._reader.get_tensor(read_first)
        except self._read_errors as error:
            raise self._damaged(error) from error

    def stored_arrays(self) -> dict[str, StoredArray]:
        """All arrays by name, sorted.

        Reading an array raises a `DamagedCheckpointError` if its checksum is wrong.
        """
        return {
            key: StoredArray(
                tuple(shape), self._dtypes[key].as_numpy_dtype, functools.partial(self._read, key)
            )
            for key, shape in sorted(self.shapes.items())
        }

    def _read(self, key: str, rows: slice | None) -> np.ndarray:
        try:
            values = np.asarray(self._reader.get_tensor(key), self._dtypes[key].as_numpy_dtype)
        except self._read_errors as error:
            raise self._damaged(error) from error
        return values if rows is None else values[rows]

    def _damaged(self, error: Exception) -> DamagedCheckpointError:
        reason = " ".join(str(getattr(error, "message", error)).split())
        return DamagedCheckpointError(
            f"{self._source}: damaged or truncated checkpoint: {shortened(reason)}"
        )


class CheckpointReader(CheckpointFile):
    """The arrays of one of our checkpoints, by dictionary and name.

    Args:
      prefix: path of the checkpoint without `.index`; in a SavedModel, `variables/variables`.

    Raises:
      DamagedCheckpointError: there is no such checkpoint, or it cannot be read.
    """

    def __init__(self, prefix: str | os.PathLike) -> None:
        # This array is written last, so truncation affects it first.
        super().__init__(prefix, read_first=_OBJECT_GRAPH)

    def arrays(self, group: str = MODEL) -> dict[str, StoredArray]:
        """The arrays of one dictionary by name, sorted; see `stored_arrays`."""
        return grouped(self.stored_arrays()).get(group, {})

    def model_arrays(self) -> dict[str, StoredArray]:
        """The arrays of the dictionary `model`.

        Raises:
          InputError: there is no such dictionary.
        """
        return require_model(grouped(self.stored_arrays()), self.prefix)


def grouped(arrays: Mapping[str, StoredArray]) -> dict[str, dict[str, StoredArray]]:
    """Groups the arrays of one of our checkpoints by dictionary and name."""
    groups: dict[str, dict[str, StoredArray]] = {}
    for key, array in arrays.items():
        group, _, name = key.partition("/")
        if name.endswith(_VALUE):
            groups.setdefault(group, {})[_unescape(name.removesuffix(_VALUE))] = array
    return groups


def require_model(
    groups: Mapping[str, dict[str, StoredArray]], source: str
) -> dict[str, StoredArray]:
    """The arrays of the dictionary `model`.

    Raises:
      InputError: there is none.
    """
    if not groups.get(MODEL):
        raise InputError(f"{source}: is not a checkpoint of elmo_tf: no model in it")
    return groups[MODEL]


def checkpoints_in(directory: str | os.PathLike) -> list[str]:
    """The prefixes of a training directory's checkpoints, newest first, including damaged ones."""
    steps = [
        int(match[1])
        for name in os.listdir(directory)
        if (match := re.fullmatch(rf"{CHECKPOINT_NAME}-(\d+)\.index", name))
    ]
    return [os.path.join(directory, f"{CHECKPOINT_NAME}-{step}") for step in sorted(steps)[::-1]]


def from_newest(
    directory: str | os.PathLike,
    read: Callable[[CheckpointReader], Result],
    is_quiet: bool = False,
) -> Result | None:
    """Calls `read` with the newest undamaged checkpoint; returns None if there is no checkpoint.

    A damaged checkpoint, which a power failure or a full disk can leave, causes a warning.

    Args:
      directory: directory of a training run.
      read: reads everything it needs from the checkpoint, because only reading detects damage.
      is_quiet: whether to skip damaged checkpoints without a warning.

    Raises:
      InputError: all checkpoints are damaged, or `read` raised it.
    """
    damaged: list[str] = []
    for prefix in checkpoints_in(directory):
        try:
            result = read(CheckpointReader(prefix))
        except DamagedCheckpointError as error:
            damaged.append(str(error))
            continue
        for message in () if is_quiet else damaged:
            _logger.warning("%s; going back to %s", message, os.path.basename(prefix))
        return result
    if damaged:
        raise InputError(f"no checkpoint can be read: {listed(damaged)}")
    return None


def _unescape(key: str) -> str:
    """Reverses the escaping of dictionary keys by `tf.train.Checkpoint`, where "/" is special."""
    return re.sub(r"\.(\.|S)", lambda match: "." if match[1] == "." else "/", key)
