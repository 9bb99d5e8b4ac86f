"""Loads a model that a user named into a layer.

  load_encoder("options.json,weights.hdf5")
  load_encoder("elmo.zip")
  load_language_model("run/best")

See `formats.locate` for the forms of a name.
"""

import os
from typing import Any, NamedTuple

from elmo_tf.errors import InputError
from elmo_tf.formats import locate
from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.formats.reader import LocatedModel
from elmo_tf.model import variables
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.text.vocabulary import Vocabulary


class LoadedLanguageModel(NamedTuple):
    """A language model, its vocabulary and the settings of its text.

    Attributes:
      model: the model with its weights, including the softmax.
      vocabulary: the words that it predicts.
      tokenizer, normalize: tokenizer and normalization of its text; None if unknown.
      unroll_steps: window length of its training in tokens; None if unknown.
    """

    model: ElmoLanguageModel
    vocabulary: Vocabulary
    tokenizer: str | None
    normalize: str | None
    unroll_steps: int | None


def load_encoder(
    path: str | os.PathLike | LocatedModel | OpenedModel, **options: Any
) -> ElmoEncoder:
    """See `ElmoEncoder.from_model`."""
    return ElmoEncoder.from_model(path, **options)


def load_language_model(path: str | os.PathLike) -> LoadedLanguageModel:
    """Loads a model with its softmax, such as that of a training run.

    Raises:
      InputError: there is no model at `path`; or it is damaged, or lacks a softmax or a vocabulary.
    """
    with locate.open_model(path) as opened:
        if opened.names() == opened.names(softmax=False):
            raise InputError(
                f"{path}: has no softmax to predict words with; training runs of elmo_tf and of "
                "bilm-tf have one"
            )
        words = opened.vocabulary
        if words is None:
            raise InputError(
                f"{path}: does not say which words its softmax predicts; put vocab.txt beside it"
            )
        model = ElmoLanguageModel(
            opened.config, len(words), vocabulary=words, without_initialization=True
        )
        named = variables.model_variables(model.encoder, model.softmax)
        variables.assign(named, opened, softmax=True)
    return LoadedLanguageModel(
        model, words, opened.tokenizer, opened.normalize, opened.unroll_steps
    )
