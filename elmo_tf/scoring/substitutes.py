"""The most probable words at each position of a sentence, by both directions of the model.

    score(w) = log p_forward(w | the tokens before) + log p_backward(w | the tokens after)

Each p is the full softmax of that direction, normalized over the whole vocabulary including `<S>`,
`</S>` and `<UNK>`. The sum is not normalized: it ranks the words at one position, and its
exponential is not a probability. A word's overall frequency counts twice in it, once for each
direction. Special tokens are excluded; the original token is not.

The two directions reach a position at different times: forward after the tokens before it, backward
after the tokens that follow it. A sentence that fits into one window is computed once. For a longer
one, the backward direction first runs to the beginning and stores its state at each window; then
both directions process the windows from the first to the last. So the backward direction runs
twice, and only the states and the results grow with the sentence.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.config import checks
from elmo_tf.layers.bilm import BiLmState
from elmo_tf.layers.lstm_scan import LstmState
from elmo_tf.model.language_model import ElmoLanguageModel, WindowTensors
from elmo_tf.scoring.evaluation import WindowScorer, spell_window, window_signature
from elmo_tf.text.cloze_windows import ClozeWindows
from elmo_tf.text.corpus import Window
from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

# Positions in a window. The logits of both directions for a block of 8192 words take 128 MB.
_MOST_POSITIONS = 2048
# Words found in one window; about ten arrays of this size are in use at once.
_MOST_FOUND = 1 << 20


class Substitutes(NamedTuple):
    """The best words at each token of a sentence, the best one first.

    Attributes:
      ids: int32 `[tokens, number]`, in the vocabulary.
      scores: float32 `[tokens, number]`, the sum of the two that follow.
      log_probabilities: float32 `[2, tokens, number]`, forward and backward.
    """

    ids: np.ndarray
    scores: np.ndarray
    log_probabilities: np.ndarray


class FoundSubstitutes(NamedTuple):
    """The results for one sentence.

    Attributes:
      losses: float32 `[2, tokens]`, the losses of its tokens, in the order of the text.
      boundary_losses: float32 `[2]`, the losses of `</S>` forward and of `<S>` backward.
      substitutes: the best words at each token.
    """

    losses: np.ndarray
    boundary_losses: np.ndarray
    substitutes: Substitutes


class SubstituteFinder:
    """Finds substitutes in batches of sentences that start from the zero state.

    Args:
      model: the language model.
      vocabulary: the model's vocabulary.
      number: number of words to find at each token, at least 1; at most all words are found.
    """

    def __init__(self, model: ElmoLanguageModel, vocabulary: Vocabulary, number: int) -> None:
        checks.integer(1)(number, "number of substitutes")
        self._model = model
        self._vocabulary = vocabulary
        self.number = min(number, len(vocabulary) - len(SPECIAL_TOKENS))
        self._special_ids = vocabulary.ids(SPECIAL_TOKENS).tolist()
        self._boundary_scorer = WindowScorer(model)
        window, state = window_signature(model)
        self._find = tf.function(
            self._find_in_window, input_signature=[window, state], autograph=False
        )
        self._pass_backward = tf.function(
            self._state_before, input_signature=[window, state.backward], autograph=False
        )

    def __call__(self, batch: Sequence[list[bytes]]) -> list[FoundSubstitutes]:
        """The results for each sentence.

        Args:
          batch: sentences with at least one token; similar lengths are fastest.
        """
        most_positions = min(_MOST_POSITIONS, _MOST_FOUND // max(1, self.number))
        windows = ClozeWindows(batch, self._vocabulary, max(1, most_positions // len(batch)))
        backward_states = self._backward_states(windows, len(batch))
        forward = self._model.zero_state(len(batch)).forward
        parts = []
        for index in range(len(windows)):
            window = windows.window(index)
            state = BiLmState(forward, backward_states.pop())
            found, state = self._find(_as_tensors(window), state)
            forward = state.forward
            if index == 0:  # the backward direction ends here
                last_backward = state.backward
            parts.append(_rows(found, window.lengths))
        last_state = BiLmState(forward, last_backward)
        boundary_losses, _ = self._boundary_scorer(windows.boundaries(), last_state)
        return [
            _joined(row, boundary_losses[:, index, 0])
            for index, row in enumerate(zip(*parts, strict=True))
        ]

    def nothing(self) -> Substitutes:
        """The substitutes of a sentence without tokens."""
        none = np.zeros([0, self.number], np.float32)
        return Substitutes(none.astype(np.int32), none, np.stack([none, none]))

    def _backward_states(self, windows: ClozeWindows, batch: int) -> list[tuple[LstmState, ...]]:
        """The initial backward state of each window, from the last window to the first."""
        states = [self._model.zero_state(batch).backward]
        for index in range(len(windows) - 1, 0, -1):
            states.append(self._pass_backward(_as_tensors(windows.window(index)), states[-1]))
        return states

    def _state_before(
        self, window: WindowTensors, state: tuple[LstmState, ...]
    ) -> tuple[LstmState, ...]:
        encoder = self._model.encoder
        embeddings = encoder.token_layer(spell_window(self._model, window).token_ids)
        inputs = tf.gather(embeddings, window.token_index[1])  # [batch, steps, P]
        return encoder.bilm.run_direction("backward", inputs, state, window.lengths)[1]

    def _find_in_window(
        self, window: WindowTensors, state: BiLmState
    ) -> tuple[tuple[tf.Tensor, ...], BiLmState]:
        """(losses, ids, scores, log-probabilities), with the tokens of all rows concatenated."""
        outputs, state = self._model.window_outputs(spell_window(self._model, window), state)
        # Convert reading order to text order, in which both directions predict the same token.
        backward = tf.reverse_sequence(outputs[1], window.lengths, seq_axis=1)
        is_token = tf.sequence_mask(window.lengths, tf.shape(outputs)[2])  # [batch, steps]
        outputs = tf.boolean_mask(tf.stack([outputs[0], backward]), is_token, axis=1)
        targets = tf.boolean_mask(window.targets[0], is_token)  # [tokens]
        softmax = self._model.softmax
        top = softmax.top_classes(outputs, self.number, self._special_ids)
        logits = tf.stack([softmax.target_logits(each, targets) for each in tf.unstack(outputs)])
        losses = top.log_normalizers - logits  # [2, tokens]
        return (losses, top.ids, top.scores, top.log_probabilities), state


def _as_tensors(window: Window) -> WindowTensors:
    return WindowTensors(tf.constant(window.tokens, tf.string), *window[1:])


def _rows(found: tuple[tf.Tensor, ...], lengths: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """The results for each row's tokens."""
    ends = np.cumsum(lengths)[:-1]
    axes = (1, 0, 0, 1)  # of the tokens
    split = [np.split(part.numpy(), ends, axis) for part, axis in zip(found, axes, strict=True)]
    return list(zip(*split, strict=True))


def _joined(
    windows: Sequence[tuple[np.ndarray, ...]], boundary_losses: np.ndarray
) -> FoundSubstitutes:
    """Concatenates one sentence's results from its windows."""
    losses, ids, scores, log_probabilities = zip(*windows, strict=True)
    return FoundSubstitutes(
        np.concatenate(losses, axis=1),
        boundary_losses,
        Substitutes(
            np.concatenate(ids), np.concatenate(scores), np.concatenate(log_probabilities, axis=1)
        ),
    )
