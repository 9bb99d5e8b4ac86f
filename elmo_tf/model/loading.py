"""From whatever a user names as a model to an encoder with its weights.

  load_encoder("options.json,weights.hdf5")   the published pair
  load_encoder("elmo")                        a directory that holds it, a training directory or an
                                              exported SavedModel
  load_encoder("elmo.zip")                    a zip of the pair

`sources` says how the kinds are told apart.
"""

import functools
import logging
import os
from collections.abc import Callable
from typing import Any

from elmo_tf.config import checks
from elmo_tf.config.model import ElmoConfig
from elmo_tf.config.training import TrainingConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf, bilm_tf_model, locate
from elmo_tf.formats.locate import ModelFiles
from elmo_tf.model import checkpoint
from elmo_tf.model.checkpoint import CheckpointReader
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.storage import files
from elmo_tf.text import tokens
from elmo_tf.text.vocabulary import VOCABULARY_FILE, Vocabulary

# Inside a SavedModel. TensorFlow leaves this directory to whoever makes one.
EXTRA_DIRECTORY = "assets.extra"
OPTIONS_FILE = "options.json"
TEXT_FILE = "text.json"  # how the training's text became tokens
TRAINING_FILE = "training.json"  # of a training run
# The dictionary of a SavedModel's checkpoint that holds the state its sentences start from.
INITIAL_STATE = "initial_state"

_logger = logging.getLogger(__name__)
_VARIABLES = os.path.join("variables", "variables")
_SOFTMAX = "softmax."


def load_encoder(path: str | os.PathLike | ModelFiles, **kwargs: Any) -> ElmoEncoder:
    """Builds the encoder of a model of any kind, weights included.

    The weights of the scalar mix come along where there are any: a SavedModel has them; published
    files don't, and training does not touch them. The softmax of a training run is left out.

    Args:
      path: what the user named, or what `locate.resolve_model` made of it.
      **kwargs: given to `ElmoEncoder`.

    Raises:
      InputError: there is no model, it is not one of ours and not in published format, a file is
        damaged, or weights and options do not fit. The message is one line.
    """
    found = path if isinstance(path, ModelFiles) else locate.resolve_model(path)
    if found.kind == locate.TRAINING:
        return _from_training(found, kwargs)
    if found.kind == locate.SAVED_MODEL:
        return _from_saved_model(found, kwargs)
    return load_published(functools.partial(ElmoEncoder, **kwargs), found)


def load_published(make: Callable[..., ElmoEncoder], found: ModelFiles) -> ElmoEncoder:
    """An encoder with the weights of a model in published format.

    Args:
      make: given a configuration, `vocabulary` and `without_initialization`, builds the encoder.
      found: what `locate.resolve_model` found.

    Raises:
      InputError: as `load_encoder`.
    """
    with bilm_tf_model.open_model(found) as model:
        encoder = make(model.config, vocabulary=model.vocabulary, without_initialization=True)
        bilm_tf.assign_arrays(encoder, model.arrays)
    return encoder


def vocabulary_of(model: ModelFiles) -> str | None:
    """The path of the vocabulary kept with a model of ours, or None; published ones have none."""
    directories = {
        locate.TRAINING: model.path,
        locate.SAVED_MODEL: os.path.join(model.path, EXTRA_DIRECTORY),
    }
    if model.kind not in directories:
        return None
    path = os.path.join(directories[model.kind], VOCABULARY_FILE)
    return path if os.path.isfile(path) else None


def read_text_settings(path: str) -> dict[str, str]:
    """`tokenizer` and `normalize` of a file `text.json`; nothing if there is no such file.

    Raises:
      InputError: the file is damaged, or names what we don't know.
    """
    if not os.path.isfile(path):
        return {}
    values = files.read_json(path)
    allowed = {"tokenizer": tokens.TOKENIZERS, "normalize": tokens.NORMALIZATIONS}
    return {
        key: checks.one_of(*names)(values[key], f"{path}: {key}")
        for key, names in allowed.items()
        if values.get(key) is not None
    }


def _from_saved_model(found: ModelFiles, kwargs: dict[str, Any]) -> ElmoEncoder:
    options = os.path.join(found.path, EXTRA_DIRECTORY, OPTIONS_FILE)
    if not os.path.isfile(options):
        raise InputError(
            f"{found.path}: is a SavedModel, but not an export of elmo_tf: "
            f"it has no {EXTRA_DIRECTORY}/{OPTIONS_FILE}"
        )
    text_settings = read_text_settings(os.path.join(found.path, EXTRA_DIRECTORY, TEXT_FILE))
    encoder = _build(ElmoConfig.from_file(options), found, {**text_settings, **kwargs})
    reader = CheckpointReader(os.path.join(found.path, _VARIABLES))
    if reader.shapes(INITIAL_STATE):
        _logger.warning(
            "%s: starts sentences from a state of its own; read as a model it starts from zeros",
            found.path,
        )
    return _assign(encoder, reader)


def _from_training(found: ModelFiles, kwargs: dict[str, Any]) -> ElmoEncoder:
    path = os.path.join(found.path, TRAINING_FILE)
    training = TrainingConfig.from_dict(files.read_json(path).get("settings", {}), path)
    text_settings = {"tokenizer": training.tokenizer, "normalize": training.normalize}
    config = ElmoConfig.from_file(found.options)
    encoder = _build(config, found, {**text_settings, **kwargs})

    def read(reader: CheckpointReader) -> ElmoEncoder:
        return _assign(encoder, reader)

    if checkpoint.from_newest(found.path, read) is None:
        raise InputError(f"{found.path}: is a training directory without a checkpoint so far")
    return encoder


def _build(config: ElmoConfig, found: ModelFiles, kwargs: dict[str, Any]) -> ElmoEncoder:
    vocabulary = None
    if config.input.needs_vocabulary:
        path = vocabulary_of(found)
        if path is None:
            raise InputError(
                f"{found.path}: has no {VOCABULARY_FILE}, and with it no words to look up"
            )
        vocabulary = Vocabulary.from_file(path)
    return ElmoEncoder(config, vocabulary=vocabulary, without_initialization=True, **kwargs)


def _assign(encoder: ElmoEncoder, reader: CheckpointReader) -> ElmoEncoder:
    """Reads what belongs to an encoder and nothing else: softmaxes are large. Returns it."""
    checkpoint.assign_stored(checkpoint.named_variables(encoder), reader, left_out=_SOFTMAX)
    return encoder
