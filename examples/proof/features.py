"""Inputs of the tagger: batches of word ids, cached layers or tokens."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from examples.proof.cached_layers import CachedLayers

PADDING, UNKNOWN = 0, 1  # ids before those of the words


class Features(Protocol):
    """Makes the input of a task model for some sentences of a sample."""

    def begin(self, train: Sequence[int], seed: int) -> None:
        """Prepares for training on the sentences `train`."""

    def batch(self, rows: Sequence[int], training: bool) -> np.ndarray:
        """The input for the sentences `rows`."""


class WordIds:
    """Ids `[sentences, time]` of the words of the training sentences; others are unknown.

    In training half of the words that occur once are unknown too, so that the embedding of unknown
    words is trained.
    """

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        self._sentences = sentences
        self.num_ids = len({token for tokens in sentences for token in tokens}) + 2

    def begin(self, train: Sequence[int], seed: int) -> None:
        self._counts = Counter(token for row in train for token in self._sentences[row])
        self._ids = {token: index for index, token in enumerate(self._counts, start=2)}
        self._chooser = random.Random(seed)

    def batch(self, rows: Sequence[int], training: bool) -> np.ndarray:
        ids = np.zeros([len(rows), max(len(self._sentences[row]) for row in rows)], np.int32)
        for index, row in enumerate(rows):
            for position, token in enumerate(self._sentences[row]):
                is_dropped = training and self._counts[token] == 1 and self._chooser.random() < 0.5
                ids[index, position] = UNKNOWN if is_dropped else self._ids.get(token, UNKNOWN)
        return ids


class Layers:
    """Cached layers `[sentences, layers, time, dim]`."""

    def __init__(self, cached: CachedLayers, layers: Sequence[int]) -> None:
        self._cached, self._layers = cached, layers

    def begin(self, train: Sequence[int], seed: int) -> None:
        del train, seed  # the layers don't depend on them

    def batch(self, rows: Sequence[int], training: bool) -> np.ndarray:
        del training
        return self._cached.padded(rows, self._layers)


class Tokens:
    """Tokens `[sentences, time]`, padded with empty strings."""

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        self._sentences = sentences

    def begin(self, train: Sequence[int], seed: int) -> None:
        del train, seed

    def batch(self, rows: Sequence[int], training: bool) -> np.ndarray:
        del training
        found = [self._sentences[row] for row in rows]
        width = max(map(len, found))
        return np.array([[*tokens, *[""] * (width - len(tokens))] for tokens in found])
