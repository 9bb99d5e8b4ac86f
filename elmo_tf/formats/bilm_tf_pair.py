"""Reader of models in bilm-tf format: options in JSON, weights in HDF5, optionally a vocabulary."""

import contextlib
from collections.abc import Iterator

import h5py

from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf, text_settings
from elmo_tf.formats.opened_model import SOFTMAX, OpenedModel
from elmo_tf.formats.places import (
    Place,
    base_name,
    enumerate_names,
    read_options,
    visible_names,
)
from elmo_tf.formats.vocabulary_files import VocabularyFile, open_vocabulary

HOW_TO_NAME_A_PAIR = "name both files as OPTIONS.json,WEIGHTS.hdf5"

_HOW_TO_NAME_WORDS = "name it too, as OPTIONS.json,WEIGHTS.hdf5,VOCABULARY.txt"

WEIGHT_ENDINGS = (".hdf5", ".h5")


class BilmTfPair:
    """See `elmo_tf.formats.reader.Reader`."""

    name = "bilm-tf pair"
    looks_for = "options.json or *_options.json with one *.hdf5 (bilm-tf format)"
    needs_tensorflow = False

    def recognizes(self, place: Place) -> bool:
        options, weights = _options_in(place), _weights_in(place)
        if place.chosen is not None:  # the user named a checkpoint in the same directory
            return False
        if not options or not weights:
            return False
        for found, what in ((options, "options.json"), (weights, "weight file (*.hdf5)")):
            if len(found) > 1:
                candidates = enumerate_names(found)
                raise InputError(
                    f"{place.path}: more than one {what}: {candidates}; {HOW_TO_NAME_A_PAIR}"
                )
        return True

    @contextlib.contextmanager
    def open(self, place: Place) -> Iterator[OpenedModel]:
        (options,), (weights,) = _options_in(place), _weights_in(place)
        with contextlib.ExitStack() as stack:
            config = read_options(place, options)
            vocabulary = VocabularyFile(None, None)
            if config.input.needs_vocabulary:
                vocabulary = stack.enter_context(open_vocabulary(place, config, _HOW_TO_NAME_WORDS))
                assert vocabulary.words is not None, "it is needed"
                config = config.with_vocabulary_size(len(vocabulary.words))
            largest = bilm_tf.largest_file(config)
            weights_file = stack.enter_context(place.local(weights, largest))
            if _holds_vectors(weights_file):
                source = place.shown(weights)
                raise InputError(
                    f"{source}: holds vectors, as elmo-embed writes them, and no weights"
                )
            opened_weights = bilm_tf.open_weights(weights_file, config, place.shown(weights))
            arrays = bilm_tf.our_arrays(config, stack.enter_context(opened_weights))
            notes = []
            if vocabulary.words is None and any(name.startswith(SOFTMAX) for name in arrays):
                try:  # the words of the softmax, which an encoder does not need
                    vocabulary = stack.enter_context(open_vocabulary(place, config))
                except InputError as error:
                    notes.append(f"not read: {error}")
            text = text_settings.read(place)
            yield OpenedModel(
                place.shown(weights),
                config,
                arrays,
                vocabulary_file=vocabulary.path,
                tokenizer=text.tokenizer,
                normalize=text.normalize,
                softmax_is_passed_on=True,
                provenance=("Made from weights in the format of bilm-tf and AllenNLP.",),
                notes=tuple(notes),
                _words=vocabulary.words,
            )


def _options_in(place: Place) -> list[str]:
    return [
        n
        for n in visible_names(place)
        if base_name(n) == "options.json" or n.endswith("_options.json")
    ]


def _weights_in(place: Place) -> list[str]:
    """The weight files, without vector files and other files with the same extension."""
    found = [name for name in visible_names(place) if name.lower().endswith(WEIGHT_ENDINGS)]
    if len(found) < 2 or not place.is_local:
        return found
    weights = []
    for name in found:
        with place.local(name, place.size(name)) as path:
            if h5py.is_hdf5(path) and not _holds_vectors(path):
                weights.append(name)
    return weights or found


def _holds_vectors(path: str) -> bool:
    """Whether an HDF5 file has a dataset for each line of a text, as elmo-embed and others do."""
    try:
        with h5py.File(path, "r") as file:
            return "0" in file or "sentence_to_index" in file
    except OSError:  # reading it later reports the error
        return False
