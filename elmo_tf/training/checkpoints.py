"""Checkpoints of a run: everything that later steps depend on, saved atomically and restored."""

import json
import os
import re
import shutil
from collections.abc import Mapping
from typing import NamedTuple

import keras
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.formats import checkpoint, mapping
from elmo_tf.formats.checkpoint import CheckpointReader
from elmo_tf.layers.bilm import DIRECTIONS, BiLmState
from elmo_tf.layers.lstm_scan import LstmState
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.model.variables import model_variables, shapes_of
from elmo_tf.storage import files
from elmo_tf.text.corpus import StreamState
from elmo_tf.training.optimizers import named_slots

_LIST = "checkpoint"
_STATE, _PROGRESS = "state", "progress"


class Position(NamedTuple):
    """The progress of a run, without its weights and its optimizer's state.

    Attributes:
      step: number of completed steps.
      state: LSTM states after them.
      stream: position in the text after them.
    """

    step: int
    state: BiLmState
    stream: StreamState


class RunCheckpoints:
    """Saves and restores a run in its directory.

    A checkpoint has the dictionaries `model` (see `elmo_tf.model.variables`), `optimizer`,
    `state` and `progress`. Dropout masks and negative samples are not stored: they are functions of
    the seed and the step. An old checkpoint is deleted only after a new one is complete.

    Args:
      directory: an existing directory.
      model: the model, restored in place.
      optimizer: the built optimizer of the model's `language_model_variables`, restored in place.
      batch_size: number of rows of the state.
      num_kept: number of checkpoints to keep.
    """

    def __init__(
        self,
        directory: str,
        model: ElmoLanguageModel,
        optimizer: keras.optimizers.Optimizer,
        batch_size: int,
        num_kept: int,
    ) -> None:
        self._directory = directory
        self._num_layers = model.encoder.config.lstm.num_layers
        weights = model_variables(model.encoder, model.softmax)
        zero_state = _named_states(model.zero_state(batch_size))
        self._groups: dict[str, dict[str, tf.Variable]] = {
            checkpoint.MODEL: weights,
            checkpoint.OPTIMIZER: named_slots(optimizer, trained_variables(model)),
            _STATE: {name: _variable(tensor) for name, tensor in zero_state.items()},
            _PROGRESS: {"step": _variable(tf.constant(0, tf.int64)), "stream": _variable("")},
        }
        self._checkpoint = tf.train.Checkpoint(**self._groups)
        self._manager = self._managed(directory, num_kept)
        self._saved_step: int | None = None

    def _managed(self, directory: str, num_kept: int) -> tf.train.CheckpointManager:
        _mend_list(directory)
        return tf.train.CheckpointManager(
            self._checkpoint, directory, num_kept, checkpoint_name=checkpoint.CHECKPOINT_NAME
        )

    @property
    def saved_step(self) -> int | None:
        """The step of the newest usable checkpoint, or None if there is none yet."""
        return self._saved_step

    def save(self, position: Position, writes: bool = True) -> None:
        """Saves the run at `position`, unless a checkpoint of that step exists.

        Args:
          position: the progress of the run.
          writes: False in a process other than the one that writes.

        Raises:
          InputError: the checkpoint cannot be written, for example because the disk is full.
        """
        if position.step != self._saved_step:
            if writes:
                self._write(self._manager, position)
            self._saved_step = position.step

    def save_copy(self, directory: str, position: Position) -> None:
        """Saves the run in another directory, which keeps one checkpoint."""
        self._write(self._managed(directory, 1), position)

    def _write(self, manager: tf.train.CheckpointManager, position: Position) -> None:
        for name, tensor in _named_states(position.state).items():
            self._groups[_STATE][name].assign(tensor)
        self._groups[_PROGRESS]["step"].assign(position.step)
        self._groups[_PROGRESS]["stream"].assign(json.dumps(position.stream.to_json()))
        try:
            manager.save(checkpoint_number=position.step)
        except tf.errors.OpError as error:
            raise InputError(
                f"{manager.directory}: the checkpoint of step {position.step} could not be "
                f"written: {error.message}"
            ) from error

    def restore(self) -> Position | None:
        """Restores the newest undamaged checkpoint; returns None if the run has none yet.

        Raises:
          InputError: all checkpoints are damaged; or the variables of the checkpoint do not fit
            the run, and the message lists every difference.
        """
        _remove_unfinished(self._directory)
        reader = checkpoint.from_newest(self._directory, self._verified)
        if reader is None:
            return None
        self._read_all(reader, assign=True)
        progress = self._groups[_PROGRESS]
        self._saved_step = int(progress["step"].numpy())
        stream = StreamState.from_json(json.loads(progress["stream"].numpy()))
        return Position(self._saved_step, self._state(self._groups[_STATE]), stream)

    def _verified(self, reader: CheckpointReader) -> CheckpointReader:
        # Read all arrays before assigning any, so that a damaged file leaves nothing half restored.
        # Each array is read twice, because holding all of them would double the memory.
        self._require_same(reader)
        self._read_all(reader, assign=False)
        return reader

    def _require_same(self, reader: CheckpointReader) -> None:
        variables = {
            f"{group}/{name}": variable
            for group, named in self._groups.items()
            for name, variable in named.items()
        }
        shapes = {
            f"{group}/{name}": array.shape
            for group in self._groups
            for name, array in reader.arrays(group).items()
        }
        mapping.require_fit(reader.prefix, shapes_of(variables), shapes, to="the run")

    def _read_all(self, reader: CheckpointReader, assign: bool) -> None:
        for group, named in self._groups.items():
            arrays = reader.arrays(group)
            for name, variable in named.items():
                value = arrays[name].read()
                if assign:
                    variable.assign(value)

    def _state(self, named: Mapping[str, tf.Variable]) -> BiLmState:
        def layer(direction: str, index: int) -> LstmState:
            values = (named[f"{direction}_{index}.{part}"] for part in LstmState._fields)
            return LstmState(*(tf.identity(value) for value in values))

        return BiLmState(
            *(
                tuple(layer(direction, index) for index in range(self._num_layers))
                for direction in DIRECTIONS
            )
        )


def trained_variables(model: ElmoLanguageModel) -> dict[str, keras.Variable]:
    """The trained variables of a language model, by the names of `elmo_tf.model.variables`."""
    named = model_variables(model.encoder, model.softmax)
    names = {id(variable): name for name, variable in named.items()}
    return {names[id(each.value)]: each for each in model.language_model_variables}


def _named_states(state: BiLmState) -> dict[str, tf.Tensor]:
    """The state's tensors by names such as "forward_0.hidden"."""
    return {
        f"{direction}_{index}.{part}": tensor
        for direction in DIRECTIONS
        for index, layer in enumerate(getattr(state, direction))
        for part, tensor in layer._asdict().items()
    }


def _variable(value: tf.Tensor | str) -> tf.Variable:
    return tf.Variable(value, trainable=False)


def _mend_list(directory: str) -> None:
    """Rewrites TensorFlow's list of a directory's checkpoints if it is damaged.

    TensorFlow writes the list without fsync, so a power failure can leave an empty file. A list
    that names files in other directories would make the checkpoint manager delete those files.

    Raises:
      InputError: the path of the list is a directory.
    """
    path = os.path.join(directory, _LIST)
    if os.path.isdir(path):
        raise InputError(f"{path}: is a directory, where TensorFlow writes a file; move it away")
    if not os.path.lexists(path) or _is_usable_list(directory):
        return
    prefixes = checkpoint.checkpoints_in(directory)
    if not prefixes:
        os.unlink(path)
        return
    lines = [f'model_checkpoint_path: "{os.path.basename(prefixes[0])}"']
    for prefix in reversed(prefixes):
        # The manager never deletes a checkpoint that has no time.
        time = os.path.getmtime(f"{prefix}.index")
        lines.append(f'all_model_checkpoint_paths: "{os.path.basename(prefix)}"')
        lines.append(f"all_model_checkpoint_timestamps: {time!r}")
    with files.write_atomically(path) as temporary, open(temporary, "x", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")


def _is_usable_list(directory: str) -> bool:
    try:
        state = tf.train.get_checkpoint_state(directory)
    except (ValueError, tf.errors.OpError):  # not UTF-8; no name in it
        return False
    if state is None or not state.model_checkpoint_path:
        return False
    here = os.path.join(directory, checkpoint.CHECKPOINT_NAME)
    paths = (state.model_checkpoint_path, *state.all_model_checkpoint_paths)
    return all(re.fullmatch(re.escape(here) + r"-\d+", path) for path in paths)


def _remove_unfinished(directory: str) -> None:
    """Removes the temporary files of a save that was killed."""
    for name in os.listdir(directory):
        if name.startswith(f"{checkpoint.CHECKPOINT_NAME}-") and name.endswith("_temp"):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
