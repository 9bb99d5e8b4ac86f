"""Windows in which both directions predict the same tokens, as a cloze task needs.

In a window of `corpus`, both directions have made the same number of steps: when the forward
direction is at the beginning of a sentence, the backward one is at its end. Here, a window is a
span of text. The forward direction predicts its tokens from first to last, the backward one from
last to first; so the forward direction reads the windows in order, the backward one in reverse.
"""

from collections.abc import Sequence

import numpy as np

from elmo_tf.text import characters
from elmo_tf.text.corpus import Window
from elmo_tf.text.vocabulary import Vocabulary


class ClozeWindows:
    """The windows of a batch of sentences, one sentence per row.

    Window `k` predicts the tokens from `k * num_steps` to `(k + 1) * num_steps` of each sentence;
    the row's length is 0 after the sentence's end. Windows do not predict the boundaries.

    Args:
      sentences: one per row, each with at least one token.
      vocabulary: maps targets to ids.
      num_steps: maximum number of steps in a window.
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
        """Computes a window. Windows are not cached, to save memory."""
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
        """The step after all windows, in which each direction predicts its last boundary."""
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
