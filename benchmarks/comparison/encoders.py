"""The interface of the systems that encode."""

import abc
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from comparison import workers

Sentences = Sequence[Sequence[str]]


class Encoder(abc.ABC):
    """A system that computes ELMo vectors: the mean of all layers for each token.

    Args:
      model: a directory with `options.json` and `model.hdf5`.
      sentences: a JSON file with lists of tokens, shortest first.
      max_batch_size: the largest batch size that will be used.
    """

    def __init__(self, model: str, sentences: str, max_batch_size: int) -> None:
        self.model = Path(model)
        self.sentences: Sentences = json.loads(Path(sentences).read_text())
        self.max_batch_size = max_batch_size

    @abc.abstractmethod
    def load_model(self) -> None:
        """Loads the model."""

    @abc.abstractmethod
    def encode_batch(self, sentences: Sentences) -> np.ndarray:
        """Vectors of one batch, `[batch, max_tokens, 2 * projection_dim]`."""

    def encode_all(self, sentences: Sentences, batch_size: int) -> None:
        """Computes the vectors of all sentences in batches, in the given order."""
        for first in range(0, len(sentences), batch_size):
            self.encode_batch(sentences[first : first + batch_size])

    def load(self) -> dict:
        """Loads the model and encodes once, because some systems defer work to the first call."""
        before = workers.memory()["resident"]
        begin = time.perf_counter()
        self.load_model()
        self.encode_batch([["one"]])
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "before": before, **workers.memory()}

    def write_outputs(self, path: str, first: int, count: int) -> None:
        """Writes the vectors of one batch, to compare systems."""
        np.save(path, self.encode_batch(self.sentences[first : first + count]))

    def encode(self, batch_size: int, chosen: Sequence[int]) -> dict:
        """Encodes the chosen sentences; returns the time."""
        sentences = [self.sentences[number] for number in chosen]
        workers.forget_peak_memory()
        begin = time.perf_counter()
        self.encode_all(sentences, batch_size)
        return {"seconds": time.perf_counter() - begin, **workers.memory()}
