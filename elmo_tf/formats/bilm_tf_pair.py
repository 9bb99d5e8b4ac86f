"""Reader of models in bilm-tf format: options in JSON, weights in HDF5, perhaps a vocabulary."""

import contextlib
import re
from collections.abc import Iterator

import h5py

from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf, text_settings
from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.formats.places import Place, enumerate_names, read_options
from elmo_tf.text.vocabulary import Vocabulary

HOW_TO_NAME_A_PAIR = "name both files as OPTIONS.json,WEIGHTS.hdf5"

_LARGEST_VOCABULARY = 1 << 28  # bytes, ten times those of any model's
WEIGHT_ENDINGS = (".hdf5", ".h5")
_HOW_TO_NAME_WORDS = "name it too, as OPTIONS.json,WEIGHTS.hdf5,VOCABULARY.txt"


class BilmTfPair:
    """See `elmo_tf.formats.reader.Reader`."""

    looks_for = "options.json or *_options.json with one *.hdf5 (bilm-tf format)"
    needs_tensorflow = False

    def recognizes(self, place: Place) -> bool:
        options, weights = _options_in(place), _weights_in(place)
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
            vocabulary_file, words = None, None
            if config.input.needs_vocabulary:
                name = _vocabulary_in(place)
                vocabulary_file = stack.enter_context(place.local(name, _LARGEST_VOCABULARY))
                words = Vocabulary.from_file(vocabulary_file, place.shown(name))
                config = config.with_vocabulary_size(len(words))
            largest = bilm_tf.largest_file(config)
            weights_file = stack.enter_context(place.local(weights, largest))
            if _holds_vectors(weights_file):
                source = place.shown(weights)
                raise InputError(
                    f"{source}: holds vectors, as elmo-embed writes them, and no weights"
                )
            arrays = bilm_tf.open_weights(weights_file, config, place.shown(weights))
            text = text_settings.read(place)
            yield OpenedModel(
                place.shown(weights),
                config,
                bilm_tf.our_arrays(config, stack.enter_context(arrays)),
                vocabulary_file=vocabulary_file,
                tokenizer=text.tokenizer,
                normalize=text.normalize,
                softmax_is_passed_on=True,
                provenance=("Made from weights in the format of bilm-tf and AllenNLP.",),
                _words=words,
            )


def _options_in(place: Place) -> list[str]:
    return [n for n in _names(place) if _base(n) == "options.json" or n.endswith("_options.json")]


def _weights_in(place: Place) -> list[str]:
    """The weight files. Vectors, and files that are no HDF5, may have the same ending."""
    found = [name for name in _names(place) if name.lower().endswith(WEIGHT_ENDINGS)]
    if len(found) < 2 or not place.is_local:
        return found
    weights = []
    for name in found:
        with place.local(name) as path:
            if h5py.is_hdf5(path) and not _holds_vectors(path):
                weights.append(name)
    return weights or found


def _vocabulary_in(place: Place) -> str:
    """The one vocabulary, such as "vocab.txt", "vocab-2016.txt" or "x_vocab.txt"."""
    found = [n for n in _names(place) if re.fullmatch(r"(vocab.*|.*_vocab)\.txt", _base(n))]
    if len(found) != 1:
        raise InputError(
            f"{place.path}: the options have no char_cnn, so words are looked up in the table of a "
            f"vocabulary, which is not there; {_HOW_TO_NAME_WORDS}"
        )
    return found[0]


def _names(place: Place) -> list[str]:
    # macOS puts "__MACOSX/._name" beside each "name" of a zip.
    return [name for name in place.names if not _base(name).startswith(".")]


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _holds_vectors(path: str) -> bool:
    """Whether an HDF5 file has a dataset for each line of a text, as elmo-embed and others do."""
    try:
        with h5py.File(path, "r") as file:
            return "0" in file or "sentence_to_index" in file
    except OSError:  # whoever reads it will say what is wrong
        return False
