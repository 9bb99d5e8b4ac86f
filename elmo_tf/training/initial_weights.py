"""Initial weights of a new run from any model, with its softmax if the vocabulary is the same.

If training continues from a bilm-tf checkpoint, the optimizer's state is restored too, so that the
next steps are those that bilm-tf would have made.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import tensorflow as tf

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import locate, mapping
from elmo_tf.formats.opened_model import SCALAR_MIX, SOFTMAX, OpenedModel
from elmo_tf.model import variables
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.text.vocabulary import Vocabulary


class InitialWeights(NamedTuple):
    """A model to start from, while its files are open.

    Attributes:
      source: the name that the user gave.
      model: the model, whose configuration becomes the run's.
    """

    source: str
    model: OpenedModel

    @property
    def config(self) -> ElmoConfig:
        """Its configuration."""
        return self.model.config

    def has_softmax_for(self, vocabulary: Vocabulary) -> bool:
        """Whether the model has a softmax over exactly these words, in this order."""
        bias = self.model.arrays.get(f"{SOFTMAX}bias")
        if bias is None or bias.shape != (len(vocabulary),):
            return False
        # If the model's words are unknown, assume these words if their number is the same.
        return (self.model.vocabulary or vocabulary).words == vocabulary.words

    def check_words(self, vocabulary: Vocabulary) -> None:
        """Raises an `InputError` if the model has word input with a different vocabulary."""
        own = self.model.input_vocabulary
        if own is not None and own.words != vocabulary.words:
            raise InputError(
                f"{self.source}: reads words by its own vocabulary of {len(own):,}, "
                "which vocabulary_file has to be",
                "vocabulary_file",
            )

    def assign(self, model: ElmoLanguageModel, vocabulary: Vocabulary) -> bool:
        """Assigns the weights of the biLM, and of the softmax if it predicts the same words.

        The scalar mix is not assigned: it belongs to a task, not to the language model.

        Returns:
          Whether the softmax was assigned.
        """
        has_softmax = self.has_softmax_for(vocabulary)
        named = variables.model_variables(model.encoder, model.softmax if has_softmax else None)
        named = {name: each for name, each in named.items() if not name.startswith(SCALAR_MIX)}
        variables.assign(named, self.model, scalar_mix=False, softmax=has_softmax)
        return has_softmax

    def assign_optimizer(
        self, slots: Mapping[str, tf.Variable], is_wanted: bool | None, has_softmax: bool
    ) -> bool:
        """Restores the optimizer's state from the model's training, if requested.

        Args:
          slots: the variables of the new optimizer; see `training.optimizers.named_slots`.
          is_wanted: see `TrainingConfig.initial_optimizer`.
          has_softmax: whether the softmax was assigned. A new softmax keeps its initial slots.

        Returns:
          Whether the state was restored.

        Raises:
          InputError: the state was requested, and the model has none or one of another optimizer.
        """
        stored = self.model.optimizer
        if is_wanted is False or (is_wanted is None and not self.model.optimizer_is_passed_on):
            return False
        if is_wanted and not stored:
            raise InputError(
                f"{self.model.source}: has stored nothing of an optimizer, which "
                "initial_optimizer=True asks for",
                "initial_optimizer",
            )

        # A step counter, such as "iteration", is restored too; the learning rate is the run's.
        def is_taken(name: str) -> bool:
            return name != "learning_rate" and (has_softmax or not name.startswith(SOFTMAX))

        ours = {name: variable for name, variable in slots.items() if is_taken(name)}
        theirs = {name: array for name, array in stored.items() if is_taken(name)}
        expected = variables.shapes_of({n: v for n, v in ours.items() if "." in n})
        shapes = {name: each.shape for name, each in theirs.items() if "." in name}
        if is_wanted is None and expected != shapes:  # the run uses a different optimizer
            return False
        mapping.require_fit(
            f"{self.model.source}: its optimizer", expected, shapes, to="that of the run"
        )
        for name, array in theirs.items():
            if name in ours:
                ours[name].assign(array.read())
        return True


@contextlib.contextmanager
def open_initial_weights(path: str) -> Iterator[InitialWeights]:
    """Opens a model in any format; its arrays are read when they are assigned.

    Raises:
      InputError: there is no model at `path`, or it is damaged.
    """
    with locate.open_model(path) as model:
        yield InitialWeights(path, model)
