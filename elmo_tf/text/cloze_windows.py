"""Windows over the same tokens in both directions, to predict each from all the others (cloze).

The windows of `corpus` follow the steps of a direction: while the forward one is at the beginning
of a sentence, the backward one is at its end. Here a window is a span of the text: the forward
direction predicts its tokens from the first to the last, the backward one from the last to the
first. The forward direction reads a sentence's windows in order, the backward one in reverse.
"""

from collections.abc import Sequence

import numpy as np

from elmo_tf.text import characters
from elmo_tf.text.corpus import Window
from elmo_tf.text.vocabulary import Vocabulary


class ClozeWindows:
    """The windows of a batch of sentences, each sentence in a row of its own.

    In window `k` tokens `k * num_steps` to `(k + 1) * num_steps` of each sentence are predicted, so
    `lengths` of a row is 0 after its end. No window holds the boundaries.

    Args:
      sentences: of at least one token, one a row.
      vocabulary: gives the ids of the targets.
      num_steps: maximal number of steps of a window.
    """

    def __init__(
        self, sentences: Sequence[list[bytes]], vocabulary: Vocabulary, num_steps: int
    ) -> None:
        self._rows = [[characters.BEGIN_TOKEN, *s, characters.END_TOKEN] for s in sentences]
        self._vocabulary = vocabulary
        self._lengths = np.array([len(sentence) for sentence in sentences])
        self._num_steps = min(num_steps, self._lengths.max())

    def __len__(self) -> int:
        return -(-self._lengths.max() // self._num_steps)

    def window(self, index: int) -> Window:
        """One window, computed on each call, so that not all are in memory."""
        begin = index * self._num_steps
        lengths = np.clip(self._lengths - begin, 0, self._num_steps)
        inputs, targets = [], []
        for row, length in zip(self._rows, lengths.tolist(), strict=True):
            # Token t of the sentence is row[t + 1].
            before, after = row[begin : begin + length], row[begin + 2 : begin + 2 + length]
            predicted = row[begin + 1 : begin + 1 + length]
            inputs.append((before, after[::-1]))
            targets.append((predicted, predicted[::-1]))
        return self._pack(inputs, targets, lengths)

    def boundaries(self) -> Window:
        """The step after all windows: each direction predicts the boundary at its end."""
        inputs = [([row[-2]], [row[1]]) for row in self._rows]
        targets = [([characters.END_TOKEN], [characters.BEGIN_TOKEN])] * len(self._rows)
        return self._pack(inputs, targets, np.ones_like(self._lengths))

    def _pack(
        self,
        inputs: list[tuple[list[bytes], list[bytes]]],
        targets: list[tuple[list[bytes], list[bytes]]],
        lengths: np.ndarray,
    ) -> Window:
        shape = (2, len(self._rows), lengths.max())
        token_index, target_ids = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        indices: dict[bytes, int] = {}
        for direction in (0, 1):
            for row, length in enumerate(lengths.tolist()):
                token_index[direction, row, :length] = [
                    indices.setdefault(token, len(indices)) for token in inputs[row][direction]
                ]
                target_ids[direction, row, :length] = self._vocabulary.ids(targets[row][direction])
        return Window(list(indices), token_index, target_ids, lengths.astype(np.int32))
