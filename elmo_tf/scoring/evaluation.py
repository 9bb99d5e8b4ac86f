"""Perplexity of a language model: exact losses of every token, in bounded memory.

There are two modes, with different results:

  evaluate_sentences   each sentence starts from the same state, as in an encoder
  evaluate_streams     the state is carried over between the sentences of each stream, as in
                       training

In both, a sentence of n tokens has n + 1 predictions in each direction: its tokens, and `</S>`
forward or `<S>` backward. Each is made exactly once.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.layers.bilm import BiLmState
from elmo_tf.model.initial_state import repeat_state
from elmo_tf.model.language_model import ElmoLanguageModel, WindowTensors
from elmo_tf.text.corpus import Window, WindowStream, sentence_windows
from elmo_tf.text.sorted_batches import score_sorted
from elmo_tf.text.vocabulary import Vocabulary

# Maximum number of predictions in a window. Their logits for a block of 8192 words take 128 MB.
_MOST_PREDICTIONS = 4096

# Called with the number of tokens after each window.
ReportTokens = Callable[[int], None]


class Evaluation(NamedTuple):
    """Losses over a text.

    Attributes:
      forward_loss: mean negative log-likelihood in nats of the tokens, each given those before it.
      backward_loss: the same, each given those after it.
      num_tokens: number of predictions in each direction: tokens, and one boundary per sentence.
    """

    forward_loss: float
    backward_loss: float
    num_tokens: int

    @property
    def perplexity(self) -> float:
        """Exp of the mean of both losses, as in bilm-tf."""
        return _exp(0.5 * (self.forward_loss + self.backward_loss))

    @property
    def forward_perplexity(self) -> float:
        """Exp of the forward loss."""
        return _exp(self.forward_loss)

    @property
    def backward_perplexity(self) -> float:
        """Exp of the backward loss."""
        return _exp(self.backward_loss)


def _exp(loss: float) -> float:
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


class WindowScorer:
    """Exact losses of windows of any size, by one traced function.

    Args:
      model: the language model. Calls use its current weights.
      initial_state: the initial state of each text, one row, or None for zeros.
    """

    def __init__(self, model: ElmoLanguageModel, initial_state: BiLmState | None = None) -> None:
        self._model = model
        self._initial_state = initial_state
        self._function = tf.function(
            self._losses, input_signature=window_signature(model), autograph=False
        )

    def __call__(self, window: Window, state: BiLmState) -> tuple[np.ndarray, BiLmState]:
        """Losses, float32 `[2, batch, steps]`, zero past a row's length, and the next state."""
        tokens = tf.constant(window.tokens, tf.string)
        losses, state = self._function(WindowTensors(tokens, *window[1:]), state)
        return losses.numpy(), state

    def initial_state(self, batch: int) -> BiLmState:
        """The initial state of `batch` rows."""
        if self._initial_state is None:
            return self._model.zero_state(batch)
        return repeat_state(self._initial_state, batch)

    def _losses(self, window: WindowTensors, state: BiLmState) -> tuple[tf.Tensor, BiLmState]:
        return self._model(spell_window(self._model, window), state)


def window_signature(model: ElmoLanguageModel) -> list[Any]:
    """The input signature for windows of any size: `WindowTensors` and the state.

    Here `token_ids` are tokens, string `[tokens]`; `spell_window` converts them to ids.
    """
    indices = tf.TensorSpec([2, None, None], tf.int32)
    window = WindowTensors(
        token_ids=tf.TensorSpec([None], tf.string),
        token_index=indices,
        targets=indices,
        lengths=tf.TensorSpec([None], tf.int32),
    )
    state = tf.nest.map_structure(
        lambda tensor: tf.TensorSpec([None, tensor.shape[1]], tensor.dtype), model.zero_state(1)
    )
    return [window, state]


def spell_window(model: ElmoLanguageModel, window: WindowTensors) -> WindowTensors:
    """The window with its tokens converted to ids, in the graph."""
    return window._replace(token_ids=model.encoder.token_ids(window.token_ids))


def score_sentences(
    scorer: WindowScorer,
    sentences: Iterable[list[bytes]],
    vocabulary: Vocabulary,
    batch_size: int,
    progress: ReportTokens | None = None,
) -> Iterator[np.ndarray]:
    """Scores sentences, each from the initial state, and yields their losses in the same order.

    A loss does not depend on the other sentences, except for float32 rounding. Memory depends on
    `batch_size` and on the length of the longest sentence.

    Args:
      scorer: the model's scorer.
      sentences: lists of tokens.
      vocabulary: the model's vocabulary.
      batch_size: number of sentences in a batch.
      progress: called with the number of tokens after each window.

    Yields:
      float32 `[2, tokens + 1]`: forward losses from the first token to `</S>`; backward losses from
      the last token to `<S>`.
    """

    def score(batch: list[list[bytes]]) -> list[np.ndarray]:
        return score_batch(scorer, batch, vocabulary)

    return score_sorted(score, sentences, batch_size, progress)


def score_batch(
    scorer: WindowScorer, batch: Sequence[list[bytes]], vocabulary: Vocabulary
) -> list[np.ndarray]:
    """The losses of one batch of sentences, as `score_sentences` yields them."""
    num_steps = max(1, _MOST_PREDICTIONS // (2 * len(batch)))
    state = scorer.initial_state(len(batch))
    parts = []
    # Split a long sentence into windows, so that memory does not grow with its length.
    for window in sentence_windows(batch, vocabulary, num_steps):
        losses, state = scorer(window, state)
        parts.append(losses)
    joined = np.concatenate(parts, axis=2)  # [2, batch, longest]
    return [joined[:, row, : len(sentence) + 1] for row, sentence in enumerate(batch)]


def evaluate_sentences(
    scorer: WindowScorer,
    sentences: Iterable[list[bytes]],
    vocabulary: Vocabulary,
    batch_size: int,
    progress: ReportTokens | None = None,
) -> Evaluation:
    """Evaluates each sentence from the initial state; the batch size does not affect the result.

    Raises:
      InputError: there is no sentence, or a loss is not finite.
    """
    scored = score_sentences(scorer, sentences, vocabulary, batch_size, progress)
    return _summary((losses, losses.shape[1]) for losses in scored)


def evaluate_streams(
    scorer: WindowScorer, stream: WindowStream, progress: ReportTokens | None = None
) -> Evaluation:
    """Evaluates windows with carried-over state, as in training and in bilm-tf.

    The result depends on the stream's batch size, which determines the sentences of each row.

    Args:
      scorer: the model's scorer.
      stream: one pass over the text, including incomplete windows.
      progress: called with the number of tokens after each window.

    Raises:
      InputError: there is no sentence, or a loss is not finite.
    """

    def windows() -> Iterator[tuple[np.ndarray, int]]:
        state = None
        for window in iter(stream.next_window, None):
            state = state or scorer.initial_state(len(window.lengths))
            losses, state = scorer(window, state)
            num_tokens = int(window.lengths.sum())
            if progress is not None:
                progress(num_tokens)
            yield losses, num_tokens

    return _summary(windows())


def _summary(parts: Iterable[tuple[np.ndarray, int]]) -> Evaluation:
    """Sums in float64, which is accurate enough for a billion float32 losses."""
    sums, num_tokens = np.zeros(2), 0
    for losses, count in parts:
        sums += losses.reshape(2, -1).sum(axis=1, dtype=np.float64)
        num_tokens += count
    if not num_tokens:
        raise InputError("sentences: no sentence to evaluate", "sentences")
    if not np.isfinite(sums).all():
        raise InputError("the model's losses are not finite; its weights are not usable")
    forward, backward = (sums / num_tokens).tolist()
    return Evaluation(forward, backward, num_tokens)
