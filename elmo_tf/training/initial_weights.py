"""Weights to start a new run from: those of any model, of a run of ours with its softmax too."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import locate
from elmo_tf.formats.opened_model import SCALAR_MIX, SOFTMAX, OpenedModel
from elmo_tf.model import variables
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.text.vocabulary import Vocabulary


class InitialWeights(NamedTuple):
    """A model to start from, while its files are open.

    Attributes:
      source: what the user named it.
      model: the model; its configuration is taken over by the run.
    """

    source: str
    model: OpenedModel

    @property
    def config(self) -> ElmoConfig:
        """Its configuration."""
        return self.model.config

    def has_softmax_for(self, vocabulary: Vocabulary) -> bool:
        """Whether the model has a softmax that predicts these very words in this order."""
        bias = self.model.arrays.get(f"{SOFTMAX}bias")
        if bias is None or bias.shape != (len(vocabulary),):
            return False
        # A model that doesn't say its words is taken to have these if it has as many.
        return (self.model.vocabulary or vocabulary).words == vocabulary.words

    def check_words(self, vocabulary: Vocabulary) -> None:
        """Raises an `InputError` if the model looks words up, and in another vocabulary."""
        own = self.model.input_vocabulary
        if own is not None and own.words != vocabulary.words:
            raise InputError(
                f"{self.source}: reads words by its own vocabulary of {len(own):,}, "
                "which vocabulary_file has to be",
                "vocabulary_file",
            )

    def assign(self, model: ElmoLanguageModel, vocabulary: Vocabulary) -> bool:
        """Assigns all of the biLM, and the softmax if it predicts the same words.

        Returns whether it has assigned the softmax as well.

        The scalar mix stays as it is: it belongs to a task, and not to a language model.
        """
        has_softmax = self.has_softmax_for(vocabulary)
        named = variables.model_variables(model.encoder, model.softmax if has_softmax else None)
        named = {name: each for name, each in named.items() if not name.startswith(SCALAR_MIX)}
        variables.assign(named, self.model, scalar_mix=False, softmax=has_softmax)
        return has_softmax


@contextlib.contextmanager
def open_initial_weights(path: str) -> Iterator[InitialWeights]:
    """Opens a model in any format; its arrays are read when they are assigned.

    Raises:
      InputError: there is no model, or it is damaged.
    """
    with locate.open_model(path) as model:
        yield InitialWeights(path, model)
