"""Reader of Keras's files: `.keras`, and `.weights.h5` with an `options.json`.

The encoder can be the whole saved model or a part of it, such as the encoder of an
`ElmoEmbedding`. Keras numbers a layer's weights in order of their creation:

    .../encoder/char_cnn/vars/0         our char_cnn.embedding
    .../encoder/bilm/forward_0/vars/2   our bilm.forward_0.bias
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import h5py

from elmo_tf.config import checks
from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError, listed, printable
from elmo_tf.formats import bilm_tf, mapping, text_settings
from elmo_tf.formats.file_names import OPTIONS_FILE
from elmo_tf.formats.opened_model import SCALAR_MIX, OpenedModel, StoredArrays
from elmo_tf.formats.places import (
    Place,
    base_name,
    enumerate_names,
    read_options,
    visible_names,
)
from elmo_tf.formats.text_settings import TextSettings
from elmo_tf.formats.vocabulary_files import open_vocabulary
from elmo_tf.storage import files, hdf5
from elmo_tf.storage.stored_array import StoredArray
from elmo_tf.text.vocabulary import Vocabulary

_ENDING = ".weights.h5"
_SAVED_CONFIG, _SAVED_WEIGHTS = "config.json", "model.weights.h5"  # in a .keras file
_LARGEST_CONFIG = 1 << 26  # bytes; it may contain a vocabulary
_ENCODER_CLASS = "elmo_tf>ElmoEncoder"
_FIRST_WEIGHT = "bilm/forward_0/vars/0"
# A model also has other layers and optimizer variables.
_TIMES_LARGER = 4


class _Settings(NamedTuple):
    """Settings that are known before the weights are read."""

    config: ElmoConfig
    vocabulary_file: str | None
    words: Vocabulary | None
    text: TextSettings


class KerasWeights:
    """See `elmo_tf.formats.reader.Reader`."""

    name = "weights of a Keras model"
    looks_for = f"{OPTIONS_FILE} with *{_ENDING}, or a .keras file (Keras)"
    needs_tensorflow = False

    def recognizes(self, place: Place) -> bool:
        if _is_saved_model(place):
            return True
        weights = _weights_in(place)
        return len(weights) == 1 and len(_options_in(place)) == 1 and _is_keras(place, weights[0])

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        with contextlib.ExitStack() as stack:
            if _is_saved_model(place):
                settings, weights = _saved_settings(place), _SAVED_WEIGHTS
            else:
                settings = _settings_beside(place, stack)
                (weights,) = _weights_in(place)
            config, source = settings.config, place.shown(weights)
            largest = _TIMES_LARGER * bilm_tf.largest_file(config)
            path = stack.enter_context(place.local(weights, largest))
            datasets = stack.enter_context(hdf5.open_datasets(path, source))
            yield OpenedModel(
                source,
                config,
                _our_arrays(source, config, datasets),
                vocabulary_file=settings.vocabulary_file,
                tokenizer=settings.text.tokenizer,
                normalize=settings.text.normalize,
                provenance=("Made from the weights of a Keras model.",),
                _words=settings.words,
            )


def _is_saved_model(place: Place) -> bool:
    return place.has(_SAVED_CONFIG) and place.has(_SAVED_WEIGHTS)


def _options_in(place: Place) -> list[str]:
    return [name for name in visible_names(place) if base_name(name).endswith(OPTIONS_FILE)]


def _weights_in(place: Place) -> list[str]:
    return [name for name in visible_names(place) if name.lower().endswith((".h5", ".hdf5"))]


def _is_keras(place: Place, name: str) -> bool:
    """Whether a file is Keras's, by its content or, in an archive, by its name."""
    if not place.is_local:
        return name.lower().endswith(_ENDING)
    with place.local(name, place.size(name)) as path:
        try:
            with h5py.File(path, "r") as file:  # every layer of Keras has a group of this name
                return "vars" in file and "RNN_0" not in file
        except OSError:  # reading it later reports the error
            return False


def _settings_beside(place: Place, stack: contextlib.ExitStack) -> _Settings:
    (options,) = _options_in(place)
    config = read_options(place, options)
    if not config.input.needs_vocabulary:
        return _Settings(config, None, None, text_settings.read(place))
    vocabulary = stack.enter_context(open_vocabulary(place, config))
    assert vocabulary.words is not None, "it is needed"
    config = config.with_vocabulary_size(len(vocabulary.words))
    return _Settings(config, vocabulary.path, vocabulary.words, text_settings.read(place))


def _saved_settings(place: Place) -> _Settings:
    """The settings of the encoder in a `.keras` file's configuration."""
    source = place.shown(_SAVED_CONFIG)
    with place.local(_SAVED_CONFIG, _LARGEST_CONFIG) as path, open(path, "rb") as file:
        saved = files.parse_json(file.read(_LARGEST_CONFIG), source)
    found = _encoders_in(saved)
    if len(found) != 1:
        what = f"{len(found)} different encoders" if found else "no encoder"
        raise InputError(f"{source}: is the configuration of a Keras model with {what} of elmo_tf")
    values = checks.mapping(found[0], f"{source}: config of {_ENCODER_CLASS}")
    config = ElmoConfig.from_options(values.get("config", {}), source)
    words = values.get("vocabulary")
    text = text_settings.from_dict({k: values.get(k) for k in TextSettings._fields}, source)
    if words is None:
        return _Settings(config, None, None, text)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise checks.refusal(f"{source}: vocabulary", "a list of words", words)
    vocabulary = Vocabulary([word.encode("utf-8", "surrogateescape") for word in words], source)
    return _Settings(config.with_vocabulary_size(len(words)), None, vocabulary, text)


def _encoders_in(saved: Mapping[str, Any]) -> list[Any]:
    """The distinct configurations of all encoders; layers may share an encoder."""
    found: dict[str, Any] = {}
    left: list[Any] = [saved]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if value.get("registered_name") == _ENCODER_CLASS:
                shapes = {**value, "shared_object_id": None}
                found[json.dumps(shapes, sort_keys=True)] = value.get("config")
            left += value.values()
        elif isinstance(value, list):
            left += value
    return list(found.values())


def _our_arrays(source: str, config: ElmoConfig, stored: StoredArrays) -> dict[str, StoredArray]:
    shapes = bilm_tf.our_shapes(config)
    if shapes is None:
        raise InputError(
            f"{source}: has a model with dictionary input, which this format does not support"
        )
    scope = _scope(source, stored)
    theirs = _numbered(scope, shapes)
    came = {
        name: array.shape
        for name, array in stored.items()
        if name.startswith(f"{scope}bilm/") or name in theirs.values()
    }
    problems = [
        f"not floating point: {name} is {stored[name].dtype}"
        for name in came
        if stored[name].dtype.kind != "f"
    ]
    expected = {theirs[path]: shape for path, shape in shapes.items()}
    mapping.require_fit(source, expected, came, problems)
    arrays = {path: bilm_tf.float32_array(stored[name], name) for path, name in theirs.items()}
    return arrays | _mix_arrays(scope, config.lstm.num_layers + 1, stored)


def _scope(source: str, stored: StoredArrays) -> str:
    """The prefix of the encoder's weight names: "", or for example "layers/elmo/encoder/"."""
    found = [name for name in stored if name == _FIRST_WEIGHT or name.endswith(f"/{_FIRST_WEIGHT}")]
    if len(found) == 1:
        return found[0].removesuffix(_FIRST_WEIGHT)
    if found:
        raise InputError(f"{source}: holds {len(found)} encoders: {enumerate_names(found)}")
    shown = listed(map(printable, stored), ", ", most_characters=200) or "nothing"
    raise InputError(f"{source}: holds no encoder: looked for {_FIRST_WEIGHT}, it has {shown}")


def _numbered(scope: str, shapes: Mapping[str, Any]) -> dict[str, str]:
    """Keras's names by ours, which are in the order in which layers create their weights."""
    numbers: dict[str, int] = {}
    names = {}
    for path in shapes:
        layer = path.rsplit(".", 1)[0].replace(".", "/")
        names[path] = f"{scope}{layer}/vars/{numbers.setdefault(layer, 0)}"
        numbers[layer] += 1
    return names


def _mix_arrays(scope: str, num_layers: int, stored: StoredArrays) -> dict[str, StoredArray]:
    """The scalar mix that a task trained, if there is one, or else the encoder's own."""
    task = re.sub(r"encoder/$", "mix/mix_{}/vars/", scope)
    folders = [f"{scope}parts/scalar_mix/vars/", f"{scope}scalar_mix/vars/"]
    if task != scope and f"{task.format(1)}0" not in stored:
        folders.insert(0, task.format(0))
    for folder in folders:
        weights, gamma = (stored.get(f"{folder}{number}") for number in range(2))
        if weights is None or gamma is None:
            continue
        if weights.shape == (num_layers,) and gamma.shape == ():
            return {f"{SCALAR_MIX}layer_weights": weights, f"{SCALAR_MIX}gamma": gamma}
    return {}
