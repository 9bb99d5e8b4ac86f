"""Weights to start a new run from: published ones, or those of another run of ours."""

import os
from typing import NamedTuple

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf, bilm_tf_model, locate
from elmo_tf.formats.mapping import Arrays
from elmo_tf.model import checkpoint, loading
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.training import run_directory

_SOFTMAX = "softmax."


class InitialWeights(NamedTuple):
    """A model to start from.

    Attributes:
      source: what the user named it.
      config: its configuration, which the run takes over.
      arrays: by our names, those of a softmax among them if the model has one.
      vocabulary: what its softmax predicts and, with word input, it reads; or None if it does not
        say.
    """

    source: str
    config: ElmoConfig
    arrays: Arrays
    vocabulary: Vocabulary | None

    def has_softmax_for(self, vocabulary: Vocabulary) -> bool:
        """Whether the model has a softmax that predicts these very words in this order."""
        bias = self.arrays.get(f"{_SOFTMAX}bias")
        # A model that doesn't say its words is taken to have these if it has as many.
        words = (self.vocabulary or vocabulary).words
        return bias is not None and len(bias) == len(vocabulary) and words == vocabulary.words

    def check_words(self, vocabulary: Vocabulary) -> None:
        """Raises an `InputError` if the model looks words up, and in another vocabulary."""
        if self.config.input.needs_vocabulary and self.vocabulary.words != vocabulary.words:
            raise InputError(
                f"{self.source}: reads words by its own vocabulary of {len(self.vocabulary):,}, "
                "which vocabulary_file has to be",
                "vocabulary_file",
            )

    def assign(self, model: ElmoLanguageModel, vocabulary: Vocabulary) -> bool:
        """Assigns all of the biLM, and the softmax if it predicts the same words.

        Returns whether it has assigned the softmax as well.

        The scalar mix stays as it is: it belongs to a task, and not to a language model.
        """
        softmax = model.softmax if self.has_softmax_for(vocabulary) else None
        variables = checkpoint.model_variables(model.encoder, softmax)
        variables = {name: each for name, each in variables.items() if not _is_mix(name)}
        arrays = {
            name: array
            for name, array in self.arrays.items()
            if not _is_mix(name) and (softmax is not None or not name.startswith(_SOFTMAX))
        }
        checkpoint.assign_variables(variables, arrays, self.source)
        return softmax is not None


def read_initial_weights(path: str) -> InitialWeights:
    """Reads a model of any kind that `model.loading` knows.

    Raises:
      InputError: there is no model, or it is damaged.
    """
    found = locate.resolve_model(path)
    if found.kind == locate.TRAINING:
        config = ElmoConfig.from_file(found.options)
        arrays = checkpoint.read_newest(found.path)
        vocabulary = Vocabulary.from_file(os.path.join(found.path, run_directory.VOCABULARY))
        return InitialWeights(path, config, arrays, vocabulary)
    if found.kind == locate.SAVED_MODEL:
        encoder = loading.load_encoder(found)
        variables = checkpoint.named_variables(encoder)
        arrays = {name: variable.numpy() for name, variable in variables.items()}
        return InitialWeights(path, encoder.config, arrays, encoder.vocabulary)
    model = bilm_tf_model.read_model(found)
    arrays = bilm_tf.from_published(model.config, {**model.arrays, **model.extras})
    return InitialWeights(path, model.config, arrays, model.vocabulary)


def _is_mix(name: str) -> bool:
    return name.startswith("scalar_mix.")
