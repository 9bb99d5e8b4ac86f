"""Reader of our own exports: SavedModels with their options in `assets.extra/`."""

import contextlib
from collections.abc import Iterator

from elmo_tf.errors import InputError
from elmo_tf.formats import checkpoint, tensor_bundle, text_settings
from elmo_tf.formats.file_names import (
    EXTRA_DIRECTORY,
    OPTIONS_FILE,
    SAVED_MODEL_FILE,
)
from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.formats.places import Place, read_options, root_of
from elmo_tf.formats.vocabulary_files import LARGEST_WORD_LIST
from elmo_tf.text.dictionaries import CHARACTERS_FILE, WORDS_FILE, Dictionaries
from elmo_tf.text.vocabulary import VOCABULARY_FILE

_OPTIONS = f"{EXTRA_DIRECTORY}/{OPTIONS_FILE}"
_VARIABLES = "variables/variables"
_VOCABULARY = f"{EXTRA_DIRECTORY}/{VOCABULARY_FILE}"


class SavedModel:
    """See `elmo_tf.formats.reader.Reader`."""

    name = "SavedModel of elmo_tf"
    looks_for = f"{SAVED_MODEL_FILE} with {_OPTIONS} (an export)"
    needs_tensorflow = True

    def recognizes(self, place: Place) -> bool:
        return root_of(place, SAVED_MODEL_FILE) is not None

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        root = root_of(place, SAVED_MODEL_FILE)
        assert root is not None, "it was recognized"
        if not place.has(root + _OPTIONS):
            raise InputError(
                f"{place.path}: is a SavedModel, but not an export of elmo_tf: it has no {_OPTIONS}"
            )
        config = read_options(place, root + _OPTIONS)
        has_words = place.has(root + _VOCABULARY)
        if config.input.needs_vocabulary and not has_words:
            raise InputError(
                f"{place.path}: has no {_VOCABULARY}, which a model with word input needs"
            )
        text = text_settings.read(place, f"{root}{EXTRA_DIRECTORY}/{text_settings.TEXT_FILE}")
        prefix = f"{root}{_VARIABLES}"
        source = place.shown(prefix)
        with contextlib.ExitStack() as stack:
            words_file = dictionaries = None
            if has_words:
                words_file = stack.enter_context(place.local(root + _VOCABULARY, LARGEST_WORD_LIST))
            if config.input.needs_dictionaries:
                dictionaries = _dictionaries(place, root)
            opened = tensor_bundle.open_arrays(place, prefix, checkpoint.grouped)
            groups = stack.enter_context(opened)
            yield OpenedModel(
                source,
                config,
                checkpoint.require_model(groups, source),
                vocabulary_file=words_file,
                tokenizer=text.tokenizer,
                normalize=text.normalize,
                provenance=("Made from an earlier export, whose model card may say more.",),
                notes=_notes(place, checkpoint.INITIAL_STATE in groups),
                _input_words=dictionaries,
            )


def _notes(place: Place, has_state: bool) -> tuple[str, ...]:
    if not has_state:
        return ()
    return (
        f"{place.path}: has a stored initial state, which is ignored: the loaded model "
        "starts from zeros",
    )


def _dictionaries(place: Place, root: str) -> Dictionaries:
    """The dictionaries in the export; the encoder checks that none is missing."""
    names = {name: f"{root}{EXTRA_DIRECTORY}/{name}" for name in (WORDS_FILE, CHARACTERS_FILE)}
    shown = {name: place.shown(path) for name, path in names.items() if place.has(path)}
    with contextlib.ExitStack() as stack:
        paths = {
            name: stack.enter_context(place.local(names[name], LARGEST_WORD_LIST)) for name in shown
        }
        return Dictionaries.read(paths, shown)
