"""What every trainer is asked for, whatever it is made of."""

import abc
import time
from typing import Any, NamedTuple

import numpy as np

from comparison import workers


class Settings(NamedTuple):
    """How to train; as in `elmo_tf.config.training.TrainingConfig`."""

    batch_size: int
    unroll_steps: int
    num_negatives: int
    dropout: float
    clip_norm: float
    learning_rate: float = 0.2


class Trainer(abc.ABC):
    """A system that does training steps on given windows, from given weights.

    Args:
      model: a directory with `options.json` and `model.hdf5`, the softmax among its weights.
      windows: a file that `data.write_windows` wrote.
      settings: fields of `Settings`.
    """

    def __init__(self, model: str, windows: str, settings: dict[str, Any]) -> None:
        self.settings = Settings(**settings)
        with np.load(windows) as arrays:
            self.character_ids = arrays["character_ids"]  # [words, max_characters]
            self.token_index = arrays["token_index"]  # [windows, 2, batch, steps]
            self.targets = arrays["targets"]
        self._next_window = 0
        self.prepare(model)

    @abc.abstractmethod
    def prepare(self, model: str) -> None:
        """Builds the model and makes of the windows what the step is fed; not measured."""

    @abc.abstractmethod
    def step(self, window: int) -> float:
        """Updates the weights by one window, carries the state on, and returns the loss."""

    def train(self, num_steps: int) -> dict:
        """Goes on for some steps, from the first window again after the last."""
        losses = []
        workers.forget_peak_memory()
        begin = time.perf_counter()
        for _ in range(num_steps):
            losses.append(float(self.step(self._next_window)))
            self._next_window = (self._next_window + 1) % len(self.token_index)
        seconds = time.perf_counter() - begin
        num_tokens = num_steps * self.settings.batch_size * self.settings.unroll_steps
        return {"seconds": seconds, "tokens": num_tokens, "losses": losses, **workers.memory()}
