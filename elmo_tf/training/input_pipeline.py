"""Windows of text as a stream of batches, read ahead of the step that needs them.

A thread does it, and not tf.data, which was tried and measured (TensorFlow 2.21, 2 busy cores, 64 x
20 tokens, 8192 negatives, in turn in one process):

- `Dataset.from_generator(...).prefetch(4)` over the same stream runs the same Python under the same
  lock: 12 ms a batch, and 17 once each batch brings the position that a checkpoint needs, which
  has to become a string first; the thread takes 17 too.
- It can't be resumed by itself: its iterator can't be saved, "PyFunc is stateful" (tensorflow
  issues 59398 and 27954), and neither can one with some tokenizers (tensorflow/text issue 1289).
- `TextLineDataset` gives a third of the lines per second that `text.lines` gives, names neither
  file nor line of bytes that are not UTF-8, and needs the same Python behind it to cut windows.
- One that is not read to its end could keep a program from ending (tensorflow issues 22632 and
  21277): its threads wait for Python, and Python waits for them. It was seen here once, and not in
  12 programs that tried.
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
    """Classes to draw for each step; 0, the full softmax, where sampling would draw them all."""
    return config.num_negative_samples if config.num_negative_samples < vocabulary_size else 0


class TrainingData(Iterator[Batch]):
    """Iterates over a run's batches from any step on.

    All chance in a batch follows from the seed and the number of its step, so a run that was
    resumed meets the batches of an unbroken one.

    Text is read, windows are cut and tokens become ids in one thread, a few batches ahead,
    while TensorFlow computes the step. The thread ends with the program.

    Args:
      stream: an endless stream of windows, at the position after `first_step` windows. It belongs
        to this object from now on.
      config: of the run; its seed and its number of negative samples count here.
      vocabulary_size: number of target classes.
      token_ids: of the encoder, from tokens to what its lowest layer reads.
      first_step: steps that were done before.
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
        # After the last batch that was handed out; the thread that reads is further.
        self.position = stream.state()
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="training-data")
        self._ahead: deque[Future[tuple[Batch, StreamState] | None]] = deque()
        for _ in range(_BATCHES_AHEAD):
            self._read_ahead()

    def __next__(self) -> Batch:
        """The next batch, after which `position` is the place behind it.

        Raises:
          InputError: what the stream raises.
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
