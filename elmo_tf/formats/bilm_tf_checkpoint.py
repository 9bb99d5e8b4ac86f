"""Reader of bilm-tf's training directories: TensorFlow 1 checkpoints with their options.

A checkpoint has the arrays of bilm-tf's training graph, with the prefix `lm/`, including the
softmax, and Adagrad's sums of squared gradients for each (`NAME/Adagrad`).
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError, listed, printable
from elmo_tf.formats import bilm_tf, tensor_bundle
from elmo_tf.formats.file_names import OPTIONS_FILE
from elmo_tf.formats.opened_model import OpenedModel, StoredArrays
from elmo_tf.formats.places import (
    Place,
    base_name,
    enumerate_names,
    read_small_json,
    root_of,
    visible_names,
)
from elmo_tf.formats.vocabulary_files import open_vocabulary
from elmo_tf.storage.stored_array import StoredArray

_INDEX = re.compile(r"(.*\.ckpt(?:-(\d+))?)\.index")
_LIST = "checkpoint"
_LARGEST_LIST = 1 << 20  # bytes
_NAME_IN_LIST = re.compile(rb'^model_checkpoint_path:\s*"([^"]*)"', re.MULTILINE)
_SCOPE = "lm/"
_ADAGRAD = "/Adagrad"
# Slots of other optimizers that people have used in modified versions of bilm-tf.
_SLOT = re.compile(r"/(Adam|Momentum|RMSProp|Adadelta|Ftrl)(?:_\d+)?$")


class _Contents(NamedTuple):
    """The content of a checkpoint.

    Attributes:
      weights: the weights by our names.
      sums: Adagrad's sums, by the names of our optimizer's variables.
      others: other optimizers whose variables are in the checkpoint.
    """

    weights: StoredArrays
    sums: StoredArrays
    others: set[str]


class BilmTfCheckpoint:
    """See `elmo_tf.formats.reader.Reader`."""

    name = "TensorFlow 1 checkpoint of bilm-tf"
    looks_for = f"*.ckpt-*.index with {OPTIONS_FILE} (a training of bilm-tf)"
    needs_tensorflow = True

    def recognizes(self, place: Place) -> bool:
        root = root_of(place, OPTIONS_FILE)
        return root is not None and bool(_indices(place, root))

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        root = root_of(place, OPTIONS_FILE)
        assert root is not None, "it was recognized"
        options = read_small_json(place, f"{root}{OPTIONS_FILE}")
        config = ElmoConfig.from_options(options, place.shown(f"{root}{OPTIONS_FILE}"))
        prefix = _chosen(place, root)
        source = place.shown(prefix)
        with contextlib.ExitStack() as stack:
            vocabulary = stack.enter_context(open_vocabulary(place, config))
            if vocabulary.words is not None:
                config = config.with_vocabulary_size(len(vocabulary.words))
            contents = stack.enter_context(
                tensor_bundle.open_arrays(
                    place, prefix, lambda arrays: _contents(source, config, arrays)
                )
            )
            yield OpenedModel(
                source,
                config,
                contents.weights,
                optimizer=contents.sums,
                vocabulary_file=vocabulary.path,
                unroll_steps=_unroll_steps(options),
                softmax_is_passed_on=True,
                optimizer_is_passed_on=True,
                provenance=("Made from a checkpoint of bilm-tf's training.",),
                notes=_notes(source, contents),
                _words=vocabulary.words,
            )


def _unroll_steps(options: Mapping[str, Any]) -> int | None:
    value = options.get("unroll_steps")
    return value if type(value) is int and value > 0 else None


def _indices(place: Place, root: str) -> dict[str, int]:
    """The step of each checkpoint; -1 if its name has none."""
    names = [name for name in visible_names(place) if name == root + base_name(name)]
    matches = filter(None, map(_INDEX.fullmatch, names))
    found = {match[1]: int(match[2] or -1) for match in matches}
    if place.chosen is not None:
        return {name: step for name, step in found.items() if name == place.chosen}
    return found


def _chosen(place: Place, root: str) -> str:
    """The checkpoint that the user or the file `checkpoint` names, or else the newest.

    The file may contain a path of another machine; only its last component is used.
    """
    found = _indices(place, root)
    list_file = f"{root}{_LIST}"
    if place.has(list_file) and place.size(list_file) <= _LARGEST_LIST:
        with place.local(list_file, _LARGEST_LIST) as path, open(path, "rb") as file:
            match = _NAME_IN_LIST.search(file.read())
        named = match and root + re.split(r"[/\\]", os.fsdecode(match[1]))[-1]
        if named in found:
            return str(named)
    newest = max(found.values())
    names = [name for name, step in found.items() if step == newest]
    if len(names) > 1:
        raise InputError(
            f"{place.path}: more than one checkpoint: {enumerate_names(sorted(names))}; name one, "
            f"as {place.shown(names[0])}"
        )
    return names[0]


def _contents(source: str, config: ElmoConfig, arrays: StoredArrays) -> _Contents:
    """The content of a checkpoint, after a check that it fits the options."""
    weights: dict[str, StoredArray] = {}
    sums: dict[str, StoredArray] = {}
    others: set[str] = set()
    for name, array in arrays.items():
        if not name.startswith(_SCOPE):
            continue  # counters of training
        if match := _SLOT.search(name):
            others.add(match[1])
        elif name.endswith(_ADAGRAD):
            sums[name.removesuffix(_ADAGRAD)] = array
        else:
            weights[name] = array
    if not weights:
        shown = listed(map(printable, arrays), ", ", most_characters=200) or "none"
        raise InputError(
            f"{source}: is not a bilm-tf checkpoint: its variables, {shown}, do not start "
            f"with {_SCOPE}"
        )
    fitted = bilm_tf.our_arrays(config, bilm_tf.fitted(source, config, weights))
    optimizer: dict[str, StoredArray] = {}
    if sums:
        of_optimizer = bilm_tf.fitted(f"{source}: sums of Adagrad", config, sums)
        named = bilm_tf.our_arrays(config, of_optimizer)
        optimizer = {f"{name}.accumulator": array for name, array in named.items()}
    return _Contents(fitted, optimizer, others)


def _notes(source: str, contents: _Contents) -> tuple[str, ...]:
    if not contents.others:
        return ()
    kinds = ", ".join(sorted(contents.others))
    return (f"{source}: has variables of the optimizer {kinds}, which are ignored",)
