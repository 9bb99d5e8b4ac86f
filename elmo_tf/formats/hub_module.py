"""Reader of ELMo modules of TensorFlow Hub in TF1 format: google/elmo 1 to 3, and DeepPavlov's.

A module is a SavedModel of TensorFlow 1 whose variables are those of bilm-tf's inference graph, and
the scalar mix. It has no options: sizes follow from shapes. What shapes don't tell (clips,
activation, skip connections, characters of a token) is taken from the options that bilm-tf
published, from which these modules were made.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError, listed
from elmo_tf.formats import bilm_tf, mapping
from elmo_tf.formats.checkpoint import CheckpointFile
from elmo_tf.formats.file_names import SAVED_MODEL_FILE
from elmo_tf.formats.opened_model import SCALAR_MIX, OpenedModel
from elmo_tf.formats.places import Place, base_name
from elmo_tf.storage.stored_array import StoredArray

_MODULE_FILE = "tfhub_module.pb"
_VARIABLES = "variables/variables"
_LARGEST_INDEX = 1 << 24  # bytes; the public module's has some 2,000
_ROOM_IN_FILES = 1 << 20  # bytes beside the arrays

# The module's name may stand before all of these.
_OF_BILM = re.compile(r"(?:.*/)?bilm(?:_\d+)?/(.*)")
_OF_MIX = re.compile(r"(?:.*/)?aggregation/(.*)")
_STATE = re.compile(r"Variable(?:_\d+)?")  # LSTM states, which DeepPavlov's modules carry over
_MIX_NAMES = {
    "weights": "layer_weights",
    "elmo_output_ELMo_W": "layer_weights",
    "scaling": "gamma",
    "elmo_output_ELMo_gamma": "gamma",
}
_PADDED_CHARACTERS = "char_embed"
_CLIP = 3.0
_MAX_CHARACTERS = 50

Arrays = dict[str, StoredArray]


class HubModule:
    """See `elmo_tf.formats.reader.Reader`."""

    looks_for = f"{_MODULE_FILE} with {SAVED_MODEL_FILE} (a module of TensorFlow Hub, TF1 format)"
    needs_tensorflow = True

    def recognizes(self, place: Place) -> bool:
        root = _root(place)
        return root is not None and all(
            place.has(root + name) for name in (SAVED_MODEL_FILE, f"{_VARIABLES}.index")
        )

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        root = _root(place)
        assert root is not None, "it was recognized"
        with contextlib.ExitStack() as stack:
            checkpoint = stack.enter_context(_opened_variables(place, root))
            bilm, mix = _named_arrays(place, checkpoint)
            config = _config(place, bilm)
            shapes = {name: array.shape for name, array in bilm.items()}
            mapping.require_fit(place.path, bilm_tf.shapes_for(config, bilm), shapes)
            arrays = bilm_tf.our_arrays(config, bilm)
            arrays |= _mix_arrays(place, mix, config.lstm.num_layers + 1)
            yield OpenedModel(
                place.path,
                config,
                arrays,
                provenance=("Made from a module of TensorFlow Hub in TF1 format.",),
                notes=_notes(place, mix),
            )


def _root(place: Place) -> str | None:
    """The folder of an archive in which the module is, "" or ending in "/"; None without one."""
    if place.has(_MODULE_FILE):
        return ""
    found = [name for name in place.names if base_name(name) == _MODULE_FILE]
    return found[0].removesuffix(_MODULE_FILE) if len(found) == 1 else None


@contextlib.contextmanager
def _opened_variables(place: Place, root: str) -> Iterator[CheckpointFile]:
    """The variables; from an archive its index is unpacked first, which bounds all others."""
    index = f"{root}{_VARIABLES}.index"
    largest = None
    if not place.is_local:
        name = {index: f"{_VARIABLES}.index"}
        with place.local_folder(name, _LARGEST_INDEX) as folder:
            shapes = CheckpointFile(os.path.join(folder, _VARIABLES)).shapes.values()
            size = sum(8 * int(np.prod(shape, dtype=object)) for shape in shapes)
            largest = size + place.size(index) + _ROOM_IN_FILES
    shards = _shards(place, f"{root}{_VARIABLES}.data-")
    names = {name: name.removeprefix(root) for name in (index, *shards)}
    with place.local_folder(names, largest) as folder:
        yield CheckpointFile(os.path.join(folder, _VARIABLES))


def _shards(place: Place, start: str) -> list[str]:
    """Names of the files with the variables' values, all of them by what the first one says."""
    for count in range(1, 1000):
        names = [f"{start}{shard:05}-of-{count:05}" for shard in range(count)]
        if place.has(names[0]):
            missing = [name for name in names if not place.has(name)]
            if missing:
                raise InputError(f"{place.path}: has no {listed(missing, ', ')}")
            return names
    raise InputError(f"{place.path}: has no {start}00000-of-00001, or as many as there are")


def _named_arrays(place: Place, checkpoint: CheckpointFile) -> tuple[Arrays, Arrays]:
    """Arrays of the biLM by bilm-tf's names, and of the scalar mix by ours."""
    bilm: Arrays = {}
    mix: Arrays = {}
    unknown = []
    for name, array in checkpoint.stored_arrays().items():
        if match := _OF_BILM.fullmatch(name):
            if not _STATE.fullmatch(match[1]):
                bilm[bilm_tf.current_name(match[1])] = array
        elif (match := _OF_MIX.fullmatch(name)) and match[1] in _MIX_NAMES:
            mix[_MIX_NAMES[match[1]]] = array
        else:
            unknown.append(name)
    if unknown or not bilm:
        what = f"it has variables {listed(unknown, ', ')}" if unknown else "it has no variables"
        raise InputError(f"{place.path}: is a module of TensorFlow Hub, but no ELMo: {what}")
    if _PADDED_CHARACTERS in bilm:  # row 0 is padding, which the format of published files lacks
        bilm[_PADDED_CHARACTERS] = bilm[_PADDED_CHARACTERS].view(lambda a: a, slice(1, None))
    return bilm, mix


def _config(place: Place, arrays: Mapping[str, StoredArray]) -> ElmoConfig:
    """The options that the shapes imply; whether all of them fit is found out later."""

    def shape(name: str, rank: int) -> tuple[int, ...]:
        found = arrays[name].shape if name in arrays else None
        if found is None or len(found) != rank:
            raise InputError(f"{place.path}: is no ELMo: no variable {name} with {rank} dimensions")
        return found

    filters: list[list[int]] = []
    while (name := f"CNN/W_cnn_{len(filters)}") in arrays:
        _, width, _, count = shape(name, 4)
        filters.append([width, count])
    num_highway = _count(arrays, r"CNN_high_(\d+)/W_carry")
    num_layers = _count(arrays, r"RNN_0/RNN/MultiRNNCell/Cell(\d+)/LSTMCell/W_0")
    first = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
    dim = shape(f"{first}/B", 1)[0] // 4
    projection_dim = shape(f"{first}/W_P_0", 2)[1] if f"{first}/W_P_0" in arrays else dim
    options: dict[str, Any] = {
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": shape(_PADDED_CHARACTERS, 2)[1]},
            "filters": filters,
            "max_characters_per_token": _MAX_CHARACTERS,
            "n_characters": 262,
            "n_highway": num_highway,
        },
        "lstm": {
            "cell_clip": _CLIP,
            "dim": dim,
            "n_layers": num_layers,
            "proj_clip": _CLIP,
            "projection_dim": projection_dim,
            "use_skip_connections": True,
        },
    }
    return ElmoConfig.from_options(options, place.path)


def _count(arrays: Mapping[str, StoredArray], pattern: str) -> int:
    return sum(re.fullmatch(pattern, name) is not None for name in arrays)


def _mix_arrays(place: Place, mix: Arrays, num_layers: int) -> Arrays:
    """The scalar mix by our names; none if the module has none."""
    if not mix:
        return {}
    shapes = {name: array.shape for name, array in mix.items()}
    if shapes.get("gamma") == (1,):
        mix = {**mix, "gamma": mix["gamma"].view(lambda values: values.reshape(()))}
        shapes["gamma"] = ()
    expected = {"layer_weights": (num_layers,), "gamma": ()}
    mapping.require_fit(f"{place.path}: scalar mix", expected, shapes)
    return {f"{SCALAR_MIX}{name}": array for name, array in mix.items()}


def _notes(place: Place, mix: Arrays) -> tuple[str, ...]:
    """DeepPavlov's `default` is a mean without gamma; that of all others is the mean of `elmo`."""
    gamma = mix.get("gamma")
    if gamma is None or gamma.shape != (1,) or gamma.read().item() == 1:
        return ()
    return (
        f"{place.path}: its own `default` leaves out gamma, {gamma.read().item():.6g}, by which "
        "`default` is multiplied here",
    )
