"""Reader of our own exports: SavedModels with their options in `assets.extra/`."""

import contextlib
import os
from collections.abc import Iterator

from elmo_tf.errors import InputError
from elmo_tf.formats import checkpoint, text_settings
from elmo_tf.formats.checkpoint import CheckpointReader
from elmo_tf.formats.file_names import (
    EXTRA_DIRECTORY,
    OPTIONS_FILE,
    SAVED_MODEL_FILE,
)
from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.formats.places import Directory, Place, read_options
from elmo_tf.text.dictionaries import CHARACTERS_FILE, WORDS_FILE, Dictionaries
from elmo_tf.text.vocabulary import VOCABULARY_FILE

_OPTIONS = f"{EXTRA_DIRECTORY}/{OPTIONS_FILE}"
_VOCABULARY = f"{EXTRA_DIRECTORY}/{VOCABULARY_FILE}"


class SavedModel:
    """See `elmo_tf.formats.reader.Reader`."""

    looks_for = f"{SAVED_MODEL_FILE} with {_OPTIONS} (an export)"
    needs_tensorflow = True

    def recognizes(self, place: Place) -> bool:
        return isinstance(place, Directory) and place.has(SAVED_MODEL_FILE)

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        if not place.has(_OPTIONS):
            raise InputError(
                f"{place.path}: is a SavedModel, but not an export of elmo_tf: it has no {_OPTIONS}"
            )
        config = read_options(place, _OPTIONS)
        words_file = place.shown(_VOCABULARY) if place.has(_VOCABULARY) else None
        if config.input.needs_vocabulary and words_file is None:
            raise InputError(f"{place.path}: has no {_VOCABULARY}, and with it no words to look up")
        dictionaries = _dictionaries(place) if config.input.needs_dictionaries else None
        text = text_settings.read(place, f"{EXTRA_DIRECTORY}/{text_settings.TEXT_FILE}")
        reader = CheckpointReader(os.path.join(place.path, "variables", "variables"))
        notes = []
        if reader.arrays(checkpoint.INITIAL_STATE):
            notes.append(
                f"{place.path}: starts sentences from a state of its own; read as a model it "
                "starts from zeros"
            )
        yield OpenedModel(
            reader.prefix,
            config,
            reader.model_arrays(),
            vocabulary_file=words_file,
            tokenizer=text.tokenizer,
            normalize=text.normalize,
            provenance=("Made from an earlier export, whose model card may say more.",),
            notes=tuple(notes),
            _input_words=dictionaries,
        )


def _dictionaries(place: Place) -> Dictionaries:
    """Those beside the options; the encoder finds out whether one is missing."""
    names = {name: f"{EXTRA_DIRECTORY}/{name}" for name in (WORDS_FILE, CHARACTERS_FILE)}
    shown = {name: place.shown(path) for name, path in names.items() if place.has(path)}
    return Dictionaries.read(shown, shown)
