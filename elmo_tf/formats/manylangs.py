"""Reader of ELMoForManyLangs' models: two torch.save files, two dictionaries, a configuration.

`config.json` names the configuration file, usually by a path on the authors' machine, and the
published archives do not contain that file. It is then the configuration of all public models.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.config import checks
from elmo_tf.config.inputs import DEFAULT_FILTERS, DictionaryInputConfig
from elmo_tf.config.model import ElmoConfig, LstmConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import manylangs_weights, torch_file
from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.formats.places import Place, read_small_json, root_of
from elmo_tf.formats.vocabulary_files import LARGEST_WORD_LIST
from elmo_tf.storage.stored_array import StoredArray
from elmo_tf.text import dictionaries
from elmo_tf.text.dictionaries import Dictionaries

_EMBEDDER_FILE, _ENCODER_FILE, _ARGUMENTS_FILE = "token_embedder.pkl", "encoder.pkl", "config.json"
_CONFIG_FOLDER = "configs"
_ROOM_IN_FILE = 1 << 24  # bytes in addition to the arrays

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
        root = root_of(place, _EMBEDDER_FILE)
        return root is not None and place.has(root + _ENCODER_FILE)

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        root = root_of(place, _EMBEDDER_FILE)
        assert root is not None, "it was recognized"
        with contextlib.ExitStack() as stack:
            source, settings = _settings(place, root)
            words = _dictionaries(place, root, settings.embedder, stack)
            config = _config(source, settings, words)
            arrays: Arrays = {}
            for name, entries in (
                (_EMBEDDER_FILE, manylangs_weights.embedder_entries(config)),
                (_ENCODER_FILE, manylangs_weights.encoder_entries(config)),
            ):
                shown = place.shown(root + name)
                largest = 8 * sum(int(np.prod(entry.shape)) for entry in entries) + _ROOM_IN_FILE
                path = stack.enter_context(place.local(root + name, largest))
                stored = stack.enter_context(torch_file.open_tensors(path, shown))
                arrays |= manylangs_weights.from_theirs(shown, entries, stored)
            yield OpenedModel(
                place.path,
                config,
                arrays,
                provenance=("Made from a model of ELMoForManyLangs.",),
                _input_words=words,
            )


class _Settings(NamedTuple):
    """The two parts of their configuration that determine a model's architecture."""

    encoder: Mapping[str, Any]
    embedder: Mapping[str, Any]


def _settings(place: Place, root: str) -> tuple[str, _Settings]:
    """The name of the configuration in errors, and the configuration."""
    found = dict(_PUBLIC)
    source = f"{place.path}: the configuration of ELMoForManyLangs' public models"
    if place.has(root + _ARGUMENTS_FILE):
        arguments = read_small_json(place, root + _ARGUMENTS_FILE)
        shown = place.shown(root + _ARGUMENTS_FILE)
        try:
            named = checks.text(arguments.get("config_path"), "config_path")
        except InputError as error:
            raise InputError(f"{shown}: {error}") from None
        # A path outside of the model's directory is one on another machine.
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
    """The dictionaries that the embedder uses; a file of words exists even if it is not used."""
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
        name: stack.enter_context(place.local(root + name, LARGEST_WORD_LIST)) for name in names
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
