"""Models in published format: configuration, arrays and, with word input, words.

`read_model` reads all of one, `open_model` what NumPy asks for; `sources` finds its files.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError, printable
from elmo_tf.formats import bilm_tf, locate
from elmo_tf.formats.locate import ModelFiles
from elmo_tf.formats.mapping import Arrays
from elmo_tf.storage import files, zips
from elmo_tf.text.vocabulary import Vocabulary

_LARGEST_OPTIONS = 1 << 20
_HOW_TO_NAME_WORDS = "name it too, as OPTIONS.json,WEIGHTS.hdf5,VOCABULARY.txt"


class PublishedModel(NamedTuple):
    """A model in published format.

    Attributes:
      config: from its options.
      arrays: the biLM's arrays by published name; see `bilm_tf`. In memory, or stored if the model
        comes from `open_model`; the same goes for `extras`.
      extras: the softmax's arrays by published name, or empty: published files rarely have them.
      vocabulary: the words of a model with word input, or None.
    """

    config: ElmoConfig
    arrays: Arrays | dict[str, bilm_tf.StoredArray]
    extras: Arrays | dict[str, bilm_tf.StoredArray]
    vocabulary: Vocabulary | None


def read_model(
    path: str | os.PathLike | ModelFiles,
    weights: str | os.PathLike | None = None,
    vocabulary: str | os.PathLike | None = None,
) -> PublishedModel:
    """Reads a model in published format: a pair, a directory that holds it, or a zip of it.

    Args:
      path: as for `locate.resolve_model`, or what that returned.
      weights, vocabulary: as for `locate.resolve_model`.

    Raises:
      InputError: as `locate.resolve_model`; or the model is of another kind; or a file is damaged
        or does not fit the other one.
    """
    with open_model(path, weights, vocabulary) as model:
        arrays, extras = (
            {name: np.asarray(array) for name, array in stored.items()}
            for stored in (model.arrays, model.extras)
        )
        return model._replace(arrays=arrays, extras=extras)


@contextlib.contextmanager
def open_model(
    path: str | os.PathLike | ModelFiles,
    weights: str | os.PathLike | None = None,
    vocabulary: str | os.PathLike | None = None,
) -> Iterator[PublishedModel]:
    """As `read_model`, but yields a model whose arrays are read when NumPy asks for them.

    The models in use take hundreds of megabytes; what goes into variables need not be in memory
    twice.
    """
    found = path
    if not isinstance(found, ModelFiles):
        found = locate.resolve_model(path, weights, vocabulary)
    with contextlib.ExitStack() as stack:
        if found.kind == locate.PAIR:
            config = ElmoConfig.from_file(found.options)
            words = _read_vocabulary(config, found, found.vocabulary)
            path, source = found.weights, None
        elif found.kind == locate.ZIP:
            config, words, path, source = _unpack(found, stack)
        else:
            kind = "a SavedModel" if found.kind == locate.SAVED_MODEL else "a training directory"
            raise InputError(f"{found.path}: is {kind}, not a model in published format")
        config = config.with_vocabulary_size(len(words)) if words else config
        arrays = stack.enter_context(bilm_tf.open_weights(path, config, source))
        extras = {name: arrays.pop(name) for name in bilm_tf.SOFTMAX_NAMES if name in arrays}
        yield PublishedModel(config, arrays, extras, words)


def _read_vocabulary(
    config: ElmoConfig, found: ModelFiles, path: str | None, source: str | None = None
) -> Vocabulary | None:
    """The words of a model with word input, else None."""
    if not config.input.needs_vocabulary:
        return None
    if path is None:
        raise InputError(
            f"{found.path}: the options have no char_cnn, so words are looked up in the table of a "
            f"vocabulary, which is not there; {_HOW_TO_NAME_WORDS}"
        )
    return Vocabulary.from_file(path, source)


def _unpack(
    found: ModelFiles, stack: contextlib.ExitStack
) -> tuple[ElmoConfig, Vocabulary | None, str, str]:
    """Configuration and words of a zip; its weights' path, while `stack` is open, and name."""
    options_source, weights_source = (
        f"{found.path}/{printable(name)}" for name in (found.options, found.weights)
    )
    with zips.open_zip(found.path) as archive:
        if archive.getinfo(found.options).file_size > _LARGEST_OPTIONS:
            raise InputError(f"{options_source}: is too large for options, over 1 MiB")
        options = files.parse_json(archive.read(found.options), options_source)
        config = ElmoConfig.from_options(options, options_source)
        words = None
        if config.input.needs_vocabulary:
            with zips.extracted(archive, found.vocabulary) as path:
                source = f"{found.path}/{printable(str(found.vocabulary))}"
                words = _read_vocabulary(config, found, path, source)
        weights = stack.enter_context(zips.extracted(archive, found.weights))
        return config, words, weights, weights_source
