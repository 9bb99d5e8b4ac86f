"""Reader of bilm-tf's training directories: checkpoints of TensorFlow 1 with their options.

A checkpoint has the arrays of bilm-tf's training graph, `lm/` before their names, those of the
softmax among them, and the sums of Adagrad beside each (`NAME/Adagrad`).
"""

import contextlib
import os
import re
from collections.abc import Iterator

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf, mapping
from elmo_tf.formats.checkpoint import CheckpointFile
from elmo_tf.formats.file_names import OPTIONS_FILE
from elmo_tf.formats.opened_model import OpenedModel, StoredArrays
from elmo_tf.formats.places import Directory, Place, enumerate_names, read_options
from elmo_tf.formats.vocabulary_files import open_vocabulary
from elmo_tf.storage.stored_array import StoredArray

_INDEX = re.compile(r"(.*\.ckpt(?:-(\d+))?)\.index")
_LIST = "checkpoint"
_LARGEST_LIST = 1 << 20  # bytes
_NAME_IN_LIST = re.compile(rb'^model_checkpoint_path:\s*"([^"]*)"', re.MULTILINE)
# Of the training, and not of the model.
_COUNTERS = {"global_step", "train_perplexity"}
_ADAGRAD = "/Adagrad"


class BilmTfCheckpoint:
    """See `elmo_tf.formats.reader.Reader`."""

    looks_for = f"*.ckpt-*.index with {OPTIONS_FILE} (a training of bilm-tf)"
    needs_tensorflow = True

    def recognizes(self, place: Place) -> bool:
        return isinstance(place, Directory) and place.has(OPTIONS_FILE) and bool(_indices(place))

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        assert isinstance(place, Directory)
        config = read_options(place, OPTIONS_FILE)
        checkpoint = CheckpointFile(os.path.join(place.path, _chosen(place)))
        with open_vocabulary(place, config) as vocabulary:
            if vocabulary.words is not None and config.input.needs_vocabulary:
                config = config.with_vocabulary_size(len(vocabulary.words))
            weights, sums = _by_kind(checkpoint)
            arrays = _fitting(checkpoint.prefix, config, weights)
            optimizer = {}
            if sums:
                found = _fitting(f"{checkpoint.prefix}: sums of Adagrad", config, sums)
                optimizer = {f"{name}.accumulator": array for name, array in found.items()}
            yield OpenedModel(
                checkpoint.prefix,
                config,
                arrays,
                optimizer=optimizer,
                vocabulary_file=vocabulary.path,
                softmax_is_passed_on=True,
                optimizer_is_passed_on=True,
                provenance=("Made from a checkpoint of bilm-tf's training.",),
                _words=vocabulary.words,
            )


def _indices(place: Directory) -> dict[str, int]:
    """Step by checkpoint, for each that the directory holds; -1 where the name has none."""
    matches = filter(None, map(_INDEX.fullmatch, place.names))
    found = {match[1]: int(match[2] or -1) for match in matches}
    if place.chosen is not None:
        return {name: step for name, step in found.items() if name == place.chosen}
    return found


def _chosen(place: Directory) -> str:
    """The checkpoint that the user or the list `checkpoint` names, or else the newest.

    The list may name it by a path of another machine; the file beside the list is meant.
    """
    found = _indices(place)
    if place.has(_LIST) and place.size(_LIST) <= _LARGEST_LIST:
        with open(place.shown(_LIST), "rb") as file:
            if match := _NAME_IN_LIST.search(file.read()):
                named = os.path.basename(os.fsdecode(match[1]))
                if named in found:
                    return named
    newest = max(found.values())
    names = [name for name, step in found.items() if step == newest]
    if len(names) > 1:
        raise InputError(
            f"{place.path}: more than one checkpoint: {enumerate_names(sorted(names))}; name one, "
            f"as {place.shown(names[0])}"
        )
    return names[0]


def _by_kind(checkpoint: CheckpointFile) -> tuple[StoredArrays, StoredArrays]:
    """Weights, and sums of Adagrad, by bilm-tf's names."""
    weights: dict[str, StoredArray] = {}
    sums: dict[str, StoredArray] = {}
    for name, array in checkpoint.stored_arrays().items():
        if name not in _COUNTERS:
            kind = sums if name.endswith(_ADAGRAD) else weights
            kind[bilm_tf.current_name(name.removesuffix(_ADAGRAD))] = array
    return weights, sums


def _fitting(source: str, config: ElmoConfig, arrays: StoredArrays) -> dict[str, StoredArray]:
    """The arrays by our names, if they fit."""
    shapes = {name: array.shape for name, array in arrays.items()}
    mapping.require_fit(source, bilm_tf.shapes_for(config, arrays), shapes)
    return bilm_tf.our_arrays(config, arrays)
