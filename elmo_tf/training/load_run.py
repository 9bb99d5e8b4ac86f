"""A trained language model, softmax included, from the directory of its run."""

import os
from typing import NamedTuple

from elmo_tf.config.training import TrainingConfig
from elmo_tf.model import checkpoint
from elmo_tf.model.checkpoint import CheckpointReader
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.training import run_directory


class TrainedModel(NamedTuple):
    """A language model with what is needed to score text with it.

    Attributes:
      model: with the weights of the newest checkpoint.
      vocabulary: the words it predicts.
      training: how it was trained, and above all how its text was tokenized.
    """

    model: ElmoLanguageModel
    vocabulary: Vocabulary
    training: TrainingConfig


def load_trained_model(path: str) -> TrainedModel:
    """Loads the newest checkpoint of a run.

    Args:
      path: the directory of the run, or its `best`.

    Raises:
      InputError: it is no run, has no checkpoint yet, or is damaged.
    """
    config, training, _ = run_directory.read_description(path)
    vocabulary = Vocabulary.from_file(os.path.join(path, run_directory.VOCABULARY))
    model = ElmoLanguageModel(
        config, len(vocabulary), vocabulary=vocabulary, without_initialization=True
    )
    variables = checkpoint.model_variables(model.encoder, model.softmax)

    def read(reader: CheckpointReader) -> TrainedModel:
        checkpoint.assign_stored(variables, reader)
        return TrainedModel(model, vocabulary, training)

    return checkpoint.read_newest(path, read)
