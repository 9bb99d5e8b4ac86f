"""Reader of ELMoForManyLangs' models: two files of torch.save, two dictionaries, a configuration.

The configuration is named by `config.json`, mostly by a path of the authors' machine; archives that
people download lack it. Then it is the one that all public models share.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.config import checks
from elmo_tf.config.inputs import DEFAULT_FILTERS, DictionaryInputConfig
from elmo_tf.config.model import ElmoConfig, LstmConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import mapping, torch_file
from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.formats.places import Place, base_name, read_small_json
from elmo_tf.storage.stored_array import Shape, StoredArray
from elmo_tf.text import dictionaries
from elmo_tf.text.dictionaries import Dictionaries

_EMBEDDER_FILE, _ENCODER_FILE, _ARGUMENTS_FILE = "token_embedder.pkl", "encoder.pkl", "config.json"
_CONFIG_FOLDER = "configs"
_LARGEST_DICTIONARY = 1 << 28  # bytes, far more than those of any model
_ROOM_IN_FILE = 1 << 24  # bytes beside the arrays

_PUBLIC: dict[str, Any] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [list(pair) for pair in DEFAULT_FILTERS],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}

Arrays = dict[str, StoredArray]


class ManyLangs:
    """See `elmo_tf.formats.reader.Reader`."""

    name = "ELMoForManyLangs"
    looks_for = f"{_EMBEDDER_FILE} with {_ENCODER_FILE} (ELMoForManyLangs)"
    needs_tensorflow = False

    def recognizes(self, place: Place) -> bool:
        root = _root(place)
        return root is not None and place.has(root + _ENCODER_FILE)

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        root = _root(place)
        assert root is not None, "it was recognized"
        with contextlib.ExitStack() as stack:
            source, settings = _settings(place, root)
            words = _dictionaries(place, root, settings.embedder, stack)
            config = _config(source, settings, words)
            arrays: Arrays = {}
            for name, entries in (
                (_EMBEDDER_FILE, _embedder_entries(config)),
                (_ENCODER_FILE, _encoder_entries(config)),
            ):
                shown = place.shown(root + name)
                largest = 8 * sum(int(np.prod(entry.shape)) for entry in entries) + _ROOM_IN_FILE
                path = stack.enter_context(place.local(root + name, largest))
                stored = stack.enter_context(torch_file.open_tensors(path, shown))
                arrays |= _from_theirs(shown, entries, stored)
            yield OpenedModel(
                place.path,
                config,
                arrays,
                provenance=("Made from a model of ELMoForManyLangs.",),
                _input_words=words,
            )


class _Settings(NamedTuple):
    """The two parts of their configuration that shape a model."""

    encoder: Mapping[str, Any]
    embedder: Mapping[str, Any]


class _Entry(NamedTuple):
    """One array of theirs, and arrays of ours that are made from it, by name."""

    name: str
    shape: Shape
    ours: Mapping[str, Callable[[np.ndarray], np.ndarray]]


def _root(place: Place) -> str | None:
    """The folder of an archive in which the model is, "" or ending in "/"; None without one."""
    if place.has(_EMBEDDER_FILE):
        return ""
    found = [name for name in place.names if base_name(name) == _EMBEDDER_FILE]
    return found[0].removesuffix(_EMBEDDER_FILE) if len(found) == 1 else None


def _settings(place: Place, root: str) -> tuple[str, _Settings]:
    """The configuration, and what to call it in errors."""
    found = dict(_PUBLIC)
    source = f"{place.path}: the configuration of ELMoForManyLangs' public models"
    if place.has(root + _ARGUMENTS_FILE):
        arguments = read_small_json(place, root + _ARGUMENTS_FILE)
        shown = place.shown(root + _ARGUMENTS_FILE)
        try:
            named = checks.text(arguments.get("config_path"), "config_path")
        except InputError as error:
            raise InputError(f"{shown}: {error}") from None
        # A path that leads out of the model is one of another machine.
        base = os.path.basename(named)
        for name in (named, base, f"{_CONFIG_FOLDER}/{base}"):
            is_within = not os.path.isabs(name) and ".." not in name.split("/")
            if is_within and base and place.has(root + name):
                found = dict(read_small_json(place, root + name))
                source = place.shown(root + name)
                break
    try:
        parts = [checks.mapping(found.get(key), key) for key in ("encoder", "token_embedder")]
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    return source, _Settings(*parts)


def _dictionaries(
    place: Place, root: str, embedder: Mapping[str, Any], stack: contextlib.ExitStack
) -> Dictionaries:
    """The dictionaries that the embedder uses; one of words is always written, used or not."""
    names = [
        name
        for name, key in (
            (dictionaries.WORDS_FILE, "word_dim"),
            (dictionaries.CHARACTERS_FILE, "char_dim"),
        )
        if embedder.get(key)
    ]
    missing = [name for name in names if not place.has(root + name)]
    if missing:
        raise InputError(f"{place.path}: has no {' and no '.join(missing)}")
    paths = {
        name: stack.enter_context(place.local(root + name, _LARGEST_DICTIONARY)) for name in names
    }
    return Dictionaries.read(paths, {name: place.shown(root + name) for name in names})


def _config(source: str, settings: _Settings, words: Dictionaries) -> ElmoConfig:
    encoder, embedder = settings
    try:
        if encoder.get("name") != "elmo":
            raise InputError(
                f"encoder.name must be 'elmo', got {checks.shown(encoder.get('name'))}; the "
                "encoder 'lstm' is no bidirectional language model"
            )
        kind = checks.one_of("cnn", "lstm")(
            str(embedder.get("name")).lower(), "token_embedder.name"
        )
        options = {key: embedder[key] for key in _PUBLIC["token_embedder"] if key in embedder}
        del options["name"]
        if kind == "lstm" and options.get("char_dim"):
            raise InputError("token_embedder.char_dim must be 0 for the token embedder 'lstm'")
        sizes = [0 if part is None else len(part) for part in words]
        options |= {"num_words": sizes[0], "num_characters": sizes[1], "cuts_words": kind == "cnn"}
        lstm = {key: encoder[key] for key in _PUBLIC["encoder"] if key in encoder}
        for clip in ("cell_clip", "proj_clip"):  # 0 means none
            lstm[clip] = lstm.get(clip) or None
        lstm |= {"use_skip_connections": True, "always_projects": True}
        return ElmoConfig(
            checks.read_section(
                DictionaryInputConfig, {"token_embedder": options}, "token_embedder"
            ),
            checks.read_section(LstmConfig, {"encoder": lstm}, "encoder"),
        )
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _embedder_entries(config: ElmoConfig) -> list[_Entry]:
    given = config.input
    assert isinstance(given, DictionaryInputConfig)
    ours, entries = "dictionary_embedding", []

    def same(values: np.ndarray) -> np.ndarray:
        return values

    if given.word_dim:
        entries.append(
            _Entry(
                "word_emb_layer.embedding.weight",
                (given.num_words, given.word_dim),
                {f"{ours}.word_embedding.embedding": same},
            )
        )
    if given.char_dim:
        entries.append(
            _Entry(
                "char_emb_layer.embedding.weight",
                (given.num_characters, given.char_dim),
                {f"{ours}.char_cnn.embedding": same},
            )
        )
        for i, (width, count) in enumerate(given.filters):
            kernel, bias = (
                f"{ours}.char_cnn.convolution_{part}_{i}" for part in ("kernel", "bias")
            )
            shape = (count, given.char_dim, width)
            entries += [
                _Entry(f"convolutions.{i}.weight", shape, {kernel: np.transpose}),
                _Entry(f"convolutions.{i}.bias", (count,), {bias: same}),
            ]
        entries += _highway_entries(given, f"{ours}.char_cnn")
    width = given.word_dim + given.num_filters
    dim = config.lstm.projection_dim
    return [
        *entries,
        _Entry("projection.weight", (dim, width), {f"{ours}.projection_kernel": np.transpose}),
        _Entry("projection.bias", (dim,), {f"{ours}.projection_bias": same}),
    ]


def _highway_entries(given: DictionaryInputConfig, ours: str) -> list[_Entry]:
    """Their gate lets the input through, ours the candidate: ours is open where theirs is shut."""
    width = given.num_filters

    def candidate(values: np.ndarray) -> np.ndarray:
        return values[:width]

    def gate(values: np.ndarray) -> np.ndarray:
        return -values[width:]

    entries = []
    for i in range(given.num_highway_layers):
        name, path = f"highways._layers.{i}", f"{ours}.highway_{i}"
        for theirs, part, shape in (
            ("weight", "matrix", (2 * width, width)),
            ("bias", "bias", (2 * width,)),
        ):
            of_ours = {f"{path}.candidate_{part}": candidate, f"{path}.gate_{part}": gate}
            entries.append(_Entry(f"{name}.{theirs}", shape, of_ours))
    return entries


def _encoder_entries(config: ElmoConfig) -> list[_Entry]:
    dim, width = config.lstm.dim, config.lstm.projection_dim

    def reordered(values: np.ndarray) -> np.ndarray:
        """Their gates are in the order i, f, g, o, ours i, g, f, o."""
        i, f, g, o = np.split(values, 4)
        return np.concatenate([i, g, f, o])

    def bias(values: np.ndarray) -> np.ndarray:
        """Ours gets 1 added to the forget gate when it is used; theirs has it."""
        forget = np.repeat(np.array([0, 0, 1, 0], values.dtype), dim)
        return reordered(values) - forget

    entries = []
    for direction in ("forward", "backward"):
        for layer in range(config.lstm.num_layers):
            name, ours = f"{direction}_layer_{layer}", f"bilm.{direction}_{layer}"
            kernel = (4 * dim, width)
            entries += [
                _Entry(
                    f"{name}.input_linearity.weight", kernel, {f"{ours}.input_kernel": reordered}
                ),
                _Entry(
                    f"{name}.state_linearity.weight",
                    kernel,
                    {f"{ours}.recurrent_kernel": reordered},
                ),
                _Entry(f"{name}.state_linearity.bias", (4 * dim,), {f"{ours}.bias": bias}),
                _Entry(
                    f"{name}.state_projection.weight",
                    (width, dim),
                    {f"{ours}.projection_kernel": lambda values: values},
                ),
            ]
    return entries


def _from_theirs(source: str, entries: list[_Entry], stored: Mapping[str, StoredArray]) -> Arrays:
    """Our arrays, if theirs are those of the configuration."""
    expected = {entry.name: entry.shape for entry in entries}
    shapes = {name: array.shape for name, array in stored.items()}
    problems = [
        f"not single precision: {name} is {array.dtype}"
        for name, array in stored.items()
        if name in expected and array.dtype != np.float32
    ]
    mapping.require_fit(source, expected, shapes, problems, to="its configuration")
    return {
        path: stored[entry.name].view(make)
        for entry in entries
        for path, make in entry.ours.items()
    }
