"""elmo_tf's training step, on windows in memory."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from comparison import workers
from comparison.trainers import Trainer
from elmo_tf.config.model import ElmoConfig
from elmo_tf.formats import bilm_tf
from elmo_tf.model.language_model import ElmoLanguageModel, Negatives, WindowTensors
from elmo_tf.model.variables import model_variables
from elmo_tf.training.negatives import draw_negatives
from elmo_tf.training.optimizers import Adagrad
from elmo_tf.training.step import Batch, TrainStep


class ElmoTfTrainer(Trainer):
    """The step of `elmo-train`, with inputs from memory."""

    def prepare(self, model: str) -> None:
        settings = self.settings
        config = ElmoConfig.from_file(Path(model, "options.json"))
        arrays = bilm_tf.read_weights(Path(model, "model.hdf5"), config)
        self._vocabulary_size = len(arrays[bilm_tf.SOFTMAX_NAMES[0]])
        language_model = ElmoLanguageModel(config, self._vocabulary_size, settings.dropout)
        variables = model_variables(language_model.encoder, language_model.softmax)
        for name, array in bilm_tf.from_bilm_tf(config, arrays).items():
            variables[name].assign(array)
        self._step = TrainStep(
            language_model,
            Adagrad(settings.learning_rate),
            settings.batch_size,
            settings.unroll_steps,
            settings.num_negatives,
            settings.clip_norm,
        )
        self._state = language_model.zero_state(settings.batch_size)
        self._windows = [self._window(number) for number in range(len(self.token_index))]
        self._num_steps = 0

    def _window(self, number: int) -> WindowTensors:
        words, places = np.unique(self.token_index[number], return_inverse=True)
        return WindowTensors(
            tf.constant(self.character_ids[words]),
            tf.constant(places.reshape(self.token_index[number].shape), tf.int32),
            tf.constant(self.targets[number]),
            tf.fill([self.settings.batch_size], self.settings.unroll_steps),
        )

    def step(self, window: int) -> float:
        negatives = None
        if count := self.settings.num_negatives:
            # Include the time of drawing, because bilm-tf's graph includes it too.
            drawn = draw_negatives(0, self._num_steps, self._vocabulary_size, count)
            negatives = Negatives(*map(tf.constant, drawn))
        batch = Batch(self._windows[window], negatives, tf.constant([0, self._num_steps]))
        result, self._state = self._step(batch, self._state)
        self._num_steps += 1
        return result.loss


if __name__ == "__main__":
    workers.serve(ElmoTfTrainer)
