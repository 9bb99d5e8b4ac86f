"""From whatever a user names as a model to a layer with its weights.

  load_encoder("options.json,weights.hdf5")
  load_encoder("elmo.zip")
  load_language_model("run/best")

`formats.locate` says what may be named.
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
    """A language model with what is needed to score text with it.

    Attributes:
      model: with its weights, those of the softmax included.
      vocabulary: the words it predicts.
      tokenizer, normalize: how its text became tokens; None if that is not known.
      unroll_steps: tokens of a window in its training; None if that is not known.
    """

    model: ElmoLanguageModel
    vocabulary: Vocabulary
    tokenizer: str | None
    normalize: str | None
    unroll_steps: int | None


def load_encoder(
    path: str | os.PathLike | LocatedModel | OpenedModel, **options: Any
) -> ElmoEncoder:
    """As `ElmoEncoder.from_model`."""
    return ElmoEncoder.from_model(path, **options)


def load_language_model(path: str | os.PathLike) -> LoadedLanguageModel:
    """Loads a model with its softmax, such as that of a training run.

    Raises:
      InputError: there is no model, it has no softmax or does not say which words that predicts,
        or it is damaged.
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
