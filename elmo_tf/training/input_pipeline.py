"""Prefetches batches of text windows in a thread.

We use a thread instead of tf.data, which we measured (TensorFlow 2.21, 2 busy cores, 64 x 20
tokens, 8192 negatives, alternating in one process):

- `Dataset.from_generator(...).prefetch(4)` over the same stream runs the same Python code under the
  same lock: 12 ms per batch, or 17 ms if each batch includes the position that a checkpoint needs,
  converted to a string. The thread takes 17 ms, with the position.
- Its iterator cannot be saved ("PyFunc is stateful", tensorflow issues 59398 and 27954), nor can
  one with certain tokenizers (tensorflow/text issue 1289), so it cannot resume a run.
- `TextLineDataset` reads a third as many lines per second as `text.lines`, does not report file and
  line of invalid UTF-8, and needs the same Python code to cut windows.
- A dataset that is not read to its end can prevent a program from ending (tensorflow issues 22632
  and 21277), because its threads and Python wait for each other. We saw this once, and not in 12
  attempts to reproduce it.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import tensorflow as tf

from elmo_tf.config.training import TrainingConfig
from elmo_tf.model.inputs.token_input import TokenInput
from elmo_tf.model.language_model import Negatives, WindowTensors
from elmo_tf.text.corpus import StreamState, WindowStream
from elmo_tf.training.negatives import draw_negatives
from elmo_tf.training.step import Batch

_BATCHES_AHEAD = 4


def effective_negatives(config: TrainingConfig, vocabulary_size: int) -> int:
    """Number of negative samples per step; 0 selects the full softmax, also if all classes fit."""
    return config.num_negative_samples if config.num_negative_samples < vocabulary_size else 0


class TrainingData(Iterator[Batch]):
    """Iterator over a run's batches from any step on.

    Random numbers in a batch depend only on the seed and the step, so a resumed run gets the same
    batches as an uninterrupted one.

    One thread reads text, cuts windows and converts tokens to ids, a few batches ahead of the step
    that TensorFlow computes. The thread ends with the program.

    Args:
      stream: an endless stream of windows, positioned after `first_step` windows. This object owns
        it from now on.
      config: the run's settings, of which the seed and the number of negative samples are used.
      vocabulary_size: number of target classes.
      token_ids: the encoder's conversion of tokens to the ids that its lowest layer reads.
      first_step: number of steps completed before.
    """

    def __init__(
        self,
        stream: WindowStream,
        config: TrainingConfig,
        vocabulary_size: int,
        token_ids: TokenInput,
        first_step: int = 0,
    ) -> None:
        self._stream = stream
        self._seed = config.seed
        self._vocabulary_size = vocabulary_size
        self._num_negatives = effective_negatives(config, vocabulary_size)
        self._token_ids = token_ids
        self._step = first_step
        # The position after the last batch returned; the reading thread is ahead of it.
        self.position = stream.state()
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="training-data")
        self._ahead: deque[Future[tuple[Batch, StreamState] | None]] = deque()
        for _ in range(_BATCHES_AHEAD):
            self._read_ahead()

    def __next__(self) -> Batch:
        """Returns the next batch and sets `position` to the position after it.

        Raises:
          InputError: the stream raised it.
        """
        result = self._ahead.popleft().result()
        self._read_ahead()
        if result is None:
            raise StopIteration
        batch, self.position = result
        return batch

    def _read_ahead(self) -> None:
        self._ahead.append(self._reader.submit(self._read))

    def _read(self) -> tuple[Batch, StreamState] | None:
        window = self._stream.next_window()
        if window is None:
            return None
        step, self._step = self._step, self._step + 1
        ids = self._token_ids(tf.constant(window.tokens, tf.string))  # [tokens, ...]
        tensors = WindowTensors(ids, *map(tf.constant, window[1:]))
        batch = Batch(tensors, self._negatives(step), tf.constant([self._seed, step], tf.int32))
        return batch, self._stream.state()

    def _negatives(self, step: int) -> Negatives | None:
        if not self._num_negatives:
            return None
        ids, num_tries = draw_negatives(
            self._seed, step, self._vocabulary_size, self._num_negatives
        )
        return Negatives(tf.constant(ids), tf.constant(num_tries, tf.int32))
