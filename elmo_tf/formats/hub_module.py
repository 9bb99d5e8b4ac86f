"""Reader of ELMo modules of TensorFlow Hub in TF1 format: google/elmo 1 to 3, and DeepPavlov's.

A module is a TensorFlow 1 SavedModel with the variables of bilm-tf's inference graph and a scalar
mix. It has no options; sizes are inferred from shapes. Everything else (clips, activation, skip
connections, characters per token) is taken from bilm-tf's published options, from which these
modules were made.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError, listed, printable
from elmo_tf.formats import bilm_tf, mapping, tensor_bundle
from elmo_tf.formats.file_names import SAVED_MODEL_FILE
from elmo_tf.formats.opened_model import SCALAR_MIX, OpenedModel, StoredArrays
from elmo_tf.formats.places import Place, root_of
from elmo_tf.storage.stored_array import StoredArray

_MODULE_FILE = "tfhub_module.pb"
_VARIABLES = "variables/variables"

# The module's name may precede all of these.
_OF_BILM = re.compile(r"(?:.*/)?bilm(?:_\d+)?/(.*)")
_OF_MIX = re.compile(r"(?:.*/)?aggregation/(.*)")
_STATE = re.compile(r"Variable(?:_\d+)?")  # LSTM states, which DeepPavlov's modules carry over
_MIX_NAMES = {
    "weights": "layer_weights",
    "elmo_output_ELMo_W": "layer_weights",
    "scaling": "gamma",
    "elmo_output_ELMo_gamma": "gamma",
}
_ASSUMED = (
    "Its files don't show these, which are those of the published modules: activation relu, clips "
    "of 3, skip connections, and up to 50 characters of a token."
)
_PADDED_CHARACTERS = "char_embed"
_CLIP = 3.0
_MAX_CHARACTERS = 50

Arrays = dict[str, StoredArray]


class _Contents(NamedTuple):
    """The content of a module.

    Attributes:
      config: the configuration, inferred from shapes.
      arrays: arrays of the biLM, by our names.
      mix: arrays of the scalar mix, by our names.
      has_axis: whether gamma is a vector of length 1, as in DeepPavlov's modules.
      unknown: names of other variables.
    """

    config: ElmoConfig
    arrays: Arrays
    mix: Arrays
    has_axis: bool
    unknown: list[str]


class HubModule:
    """See `elmo_tf.formats.reader.Reader`."""

    name = "TF1 hub module"
    looks_for = f"{_MODULE_FILE} with {SAVED_MODEL_FILE} (a module of TensorFlow Hub, TF1 format)"
    needs_tensorflow = True

    def recognizes(self, place: Place) -> bool:
        root = root_of(place, _MODULE_FILE)
        return root is not None and all(
            place.has(root + name) for name in (SAVED_MODEL_FILE, f"{_VARIABLES}.index")
        )

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        root = root_of(place, _MODULE_FILE)
        assert root is not None, "it was recognized"
        with tensor_bundle.open_arrays(
            place, f"{root}{_VARIABLES}", lambda arrays: _contents(place, arrays)
        ) as contents:
            yield OpenedModel(
                place.path,
                contents.config,
                contents.arrays | contents.mix,
                provenance=("Made from a module of TensorFlow Hub in TF1 format.", _ASSUMED),
                notes=_notes(place, contents),
            )


def _contents(place: Place, stored: StoredArrays) -> _Contents:
    bilm, mix, unknown = _named_arrays(place, stored)
    config = _config(place, bilm)
    arrays = bilm_tf.our_arrays(config, bilm_tf.fitted(place.path, config, bilm))
    has_axis = "gamma" in mix and mix["gamma"].shape == (1,)
    mix = _mix_arrays(place, mix, config.lstm.num_layers + 1)
    return _Contents(config, arrays, mix, has_axis, unknown)


def _named_arrays(place: Place, stored: StoredArrays) -> tuple[Arrays, Arrays, list[str]]:
    """Arrays of the biLM by bilm-tf's names, of the scalar mix by ours, and names of all others."""
    bilm: Arrays = {}
    mix: Arrays = {}
    unknown = []
    for name, array in stored.items():
        if match := _OF_BILM.fullmatch(name):
            if not _STATE.fullmatch(match[1]):
                bilm[bilm_tf.current_name(match[1])] = array
        elif (match := _OF_MIX.fullmatch(name)) and match[1] in _MIX_NAMES:
            mix[_MIX_NAMES[match[1]]] = array
        else:
            unknown.append(name)
    if not bilm:
        what = f"it has variables {listed(map(printable, unknown), ', ')}"
        what = what if unknown else "it has no variables"
        raise InputError(f"{place.path}: is a TensorFlow Hub module but not ELMo: {what}")
    characters = bilm.get(_PADDED_CHARACTERS)
    # Row 0 is padding, which the bilm-tf format does not store.
    if characters is not None and (characters.shape or (0,))[0] > 0:
        bilm[_PADDED_CHARACTERS] = characters.view(lambda rows: rows, slice(1, None))
    return bilm, mix, unknown


def _config(place: Place, arrays: Mapping[str, StoredArray]) -> ElmoConfig:
    """The options inferred from shapes; the fit of all shapes is checked later."""

    def shape(name: str, rank: int) -> tuple[int, ...]:
        found = arrays[name].shape if name in arrays else None
        if found is None or len(found) != rank:
            raise InputError(
                f"{place.path}: is not ELMo: no variable {name} with {rank} dimensions"
            )
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
    """The arrays of the scalar mix by our names; empty if the module has none."""
    if not mix:
        return {}
    shapes = {name: array.shape for name, array in mix.items()}
    if shapes.get("gamma") == (1,):
        mix = {**mix, "gamma": mix["gamma"].view(lambda values: values.reshape(()))}
        shapes["gamma"] = ()
    expected = {"layer_weights": (num_layers,), "gamma": ()}
    problems = [
        f"not floating point: {name} is {array.dtype}"
        for name, array in mix.items()
        if array.dtype.kind != "f"
    ]
    mapping.require_fit(f"{place.path}: scalar mix", expected, shapes, problems, to="its layers")
    return {f"{SCALAR_MIX}{name}": array for name, array in mix.items()}


def _notes(place: Place, contents: _Contents) -> tuple[str, ...]:
    notes = []
    if contents.unknown:
        shown = listed(map(printable, contents.unknown), ", ")
        notes.append(f"{place.path}: has variables that are not known and not used: {shown}")
    # DeepPavlov's `default` is a mean without gamma; that of other modules is the mean of `elmo`.
    gamma = contents.mix[f"{SCALAR_MIX}gamma"].read().item() if contents.has_axis else 1.0
    if gamma != 1.0:
        notes.append(
            f"{place.path}: its own `default` leaves out gamma, {gamma:.6g}, by which `default` "
            "is multiplied here"
        )
    return tuple(notes)
