"""The interface of the systems that train."""

import abc
import time
from typing import Any, NamedTuple

import numpy as np

from comparison import workers


class Settings(NamedTuple):
    """Training settings; see `elmo_tf.config.training.TrainingConfig`."""

    batch_size: int
    unroll_steps: int
    num_negatives: int
    dropout: float
    clip_norm: float
    learning_rate: float = 0.2


class Trainer(abc.ABC):
    """A system that makes training steps on given windows, from given weights.

    Args:
      model: a directory with `options.json` and `model.hdf5`, which includes the softmax.
      windows: a file written by `data.write_windows`.
      settings: values of `Settings`.
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
        """Builds the model and converts the windows to inputs of a step; not measured."""

    @abc.abstractmethod
    def step(self, window: int) -> float:
        """Updates the weights with one window, carries the state over, and returns the loss."""

    def train(self, num_steps: int) -> dict:
        """Makes `num_steps` more steps; after the last window it continues with the first."""
        losses = []
        workers.forget_peak_memory()
        begin = time.perf_counter()
        for _ in range(num_steps):
            losses.append(float(self.step(self._next_window)))
            self._next_window = (self._next_window + 1) % len(self.token_index)
        seconds = time.perf_counter() - begin
        num_tokens = num_steps * self.settings.batch_size * self.settings.unroll_steps
        return {"seconds": seconds, "tokens": num_tokens, "losses": losses, **workers.memory()}
