"""Windows of text as a stream of batches, read ahead of the step that needs them."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.config import TrainingConfig
from elmo_tf.language_model import Negatives, WindowTensors
from elmo_tf.text import characters
from elmo_tf.text.corpus import StreamState, Window, WindowStream
from elmo_tf.training.negatives import draw_negatives
from elmo_tf.training.step import Batch

_BATCHES_AHEAD = 4


def effective_negatives(config: TrainingConfig, vocabulary_size: int) -> int:
    """Classes to draw for each step; 0, the full softmax, where sampling would draw them all."""
    return config.num_negative_samples if config.num_negative_samples < vocabulary_size else 0


class TrainingData(Iterator[Batch]):
    """Iterates over a run's batches from any step on.

    Text is read and windows are cut in a thread of their own, a few batches ahead. All chance in a
    batch follows from the seed and the number of its step, so a run that was resumed meets the
    batches of an unbroken one.

    Args:
      stream: an endless stream of windows, at the position after `first_step` windows. It belongs
        to this object from now on.
      config: of the run; its seed and its number of negative samples count here.
      vocabulary_size: number of target classes.
      max_characters: ids per token.
      first_step: steps that were done before.
    """

    def __init__(
        self,
        stream: WindowStream,
        config: TrainingConfig,
        vocabulary_size: int,
        max_characters: int,
        first_step: int = 0,
    ) -> None:
        self._stream = stream
        self._seed = config.seed
        self._vocabulary_size = vocabulary_size
        self._num_negatives = effective_negatives(config, vocabulary_size)
        self._step = first_step
        # Of the batches read ahead; a checkpoint must not hold the place of the reading thread.
        self._positions: deque[StreamState] = deque()
        self._failure: Exception | None = None
        self.position = stream.state()  # after the last batch that was handed out
        places = tf.TensorSpec([2, config.batch_size, config.unroll_steps], tf.int32)
        window = WindowTensors(
            character_ids=tf.TensorSpec([None], tf.string),  # still tokens
            token_index=places,
            targets=places,
            lengths=tf.TensorSpec([config.batch_size], tf.int32),
        )
        negatives: Any = ()
        if self._num_negatives:
            ids = tf.TensorSpec([self._num_negatives], tf.int32)
            negatives = Negatives(ids, num_tries=tf.TensorSpec([], tf.int32))
        dataset = tf.data.Dataset.from_generator(
            self._read,
            output_signature=(window, negatives, tf.TensorSpec([2], tf.int32)),
        )
        dataset = dataset.map(
            lambda window, negatives, seed: (
                _with_characters(window, max_characters),
                negatives,
                seed,
            )
        )
        self._batches = iter(dataset.prefetch(_BATCHES_AHEAD))

    def __next__(self) -> Batch:
        """The next batch, after which `position` is the place behind it.

        Raises:
          InputError: what the stream raises.
        """
        try:
            window, negatives, seed = next(self._batches)
        except (tf.errors.OpError, StopIteration):
            # TensorFlow makes one of its own errors of what is raised while reading.
            if self._failure is not None:
                raise self._failure from None
            raise
        self.position = self._positions.popleft()
        return Batch(window, negatives or None, seed)

    def _read(self) -> Iterator[tuple]:
        try:
            while (window := self._stream.next_window()) is not None:
                # Before the batch is handed on, so that it is there when the batch is.
                self._positions.append(self._stream.state())
                yield _as_arrays(window), self._negatives(), (self._seed, self._step)
                self._step += 1
        except Exception as failure:
            self._failure = failure
            raise

    def _negatives(self) -> Negatives | tuple:
        if not self._num_negatives:
            return ()
        arguments = (self._seed, self._step, self._vocabulary_size, self._num_negatives)
        return Negatives(*draw_negatives(*arguments))


def _as_arrays(window: Window) -> WindowTensors:
    tokens = np.array(window.tokens, dtype=object)  # a NumPy string would lose NULs at its end
    return WindowTensors(tokens, window.token_index, window.targets, window.lengths)


def _with_characters(window: WindowTensors, max_characters: int) -> WindowTensors:
    ids = characters.characters_of_tokens(window.character_ids, max_characters)
    return window._replace(character_ids=ids)  # [words, max_characters]
