"""Log-probabilities of each token of a text in both directions, and the most probable substitutes.

Sentences are scored as in `evaluation.evaluate_sentences`: each from the zero state, with the full
softmax, and with the same sums. A sentence without tokens, from a blank line, has no scores.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.scoring.evaluation import WindowScorer, score_batch
from elmo_tf.scoring.substitutes import SubstituteFinder, Substitutes
from elmo_tf.text.sorted_batches import MOST_TOKENS_SORTED, score_sorted
from elmo_tf.text.vocabulary import Vocabulary

DEFAULT_BATCH_SIZE = 32

# Maximum number of substitutes in memory, 16 bytes each; a single sentence may have more.
_MOST_SUBSTITUTES_HELD = 1 << 22
# Number of tokens whose substitutes are converted to text at a time.
_TOKENS_IN_PIECE = 64
# `str.splitlines` treats these as line ends; JSON does not.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


class SentenceScores(NamedTuple):
    """Natural logarithms of the probabilities of one sentence's tokens.

    Attributes:
      tokens: the tokens.
      is_unknown: bool `[tokens]`, whether the token is not in the vocabulary and scored as `<UNK>`.
      forward: float32 `[tokens]`, given all tokens before it.
      backward: float32 `[tokens]`, given all tokens after it.
      forward_boundary: that of `</S>` given all tokens; None if there are no tokens.
      backward_boundary: that of `<S>` given all tokens; None if there are no tokens.
      substitutes: the most probable words at each token, or None if not requested.
    """

    tokens: list[bytes]
    is_unknown: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    forward_boundary: np.float32 | None
    backward_boundary: np.float32 | None
    substitutes: Substitutes | None = None


def score_lines(
    model: ElmoLanguageModel,
    vocabulary: Vocabulary,
    sentences: Iterable[list[bytes]],
    num_substitutes: int = 0,
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> Iterator[SentenceScores]:
    """Scores sentences and yields the results in the same order.

    Memory depends on `batch_size` and on the longest sentence with its substitutes. It depends
    neither on the number of sentences nor, apart from the model's table, on the vocabulary.

    Args:
      model: the language model.
      vocabulary: the model's vocabulary.
      sentences: lists of tokens, which may be empty.
      num_substitutes: number of words to find at each token, at most the size of the vocabulary;
        see `substitutes`. 0 finds none, which is faster.
      batch_size: number of sentences in a batch.

    Raises:
      InputError: `num_substitutes` or `batch_size` is too small, or a score is not finite.

    Example:
      >>> trained = load_language_model("run")
      >>> for scores in score_lines(trained.model, trained.vocabulary, [[b"the", b"cat"]]):
      ...     scores.forward.sum() + scores.forward_boundary     # log p of the whole sentence
    """
    checks.integer(0)(num_substitutes, "num_substitutes")
    checks.integer(1)(batch_size, "batch_size")
    most_tokens = MOST_TOKENS_SORTED
    if num_substitutes:
        most_tokens = min(most_tokens, max(1, _MOST_SUBSTITUTES_HELD // num_substitutes))
    scorer = _SentenceScorer(model, vocabulary, num_substitutes)
    return score_sorted(scorer, sentences, batch_size, most_tokens=most_tokens)


class _SentenceScorer:
    """Scores batches of sentences, which may be empty."""

    def __init__(
        self, model: ElmoLanguageModel, vocabulary: Vocabulary, num_substitutes: int
    ) -> None:
        self._vocabulary = vocabulary
        self._scorer = WindowScorer(model)
        self._finder = None
        self._no_substitutes = None
        if num_substitutes:
            self._finder = SubstituteFinder(model, vocabulary, num_substitutes)
            self._no_substitutes = self._finder.nothing()

    def __call__(self, batch: list[list[bytes]]) -> list[SentenceScores]:
        scored = self._score([sentence for sentence in batch if sentence])
        return [next(scored) if sentence else self._blank() for sentence in batch]

    def _score(self, batch: list[list[bytes]]) -> Iterator[SentenceScores]:
        if self._finder:
            for sentence, found in zip(batch, self._finder(batch), strict=True):
                yield self._scores(sentence, *found)
        else:
            losses_of_all = score_batch(self._scorer, batch, self._vocabulary)
            for sentence, losses in zip(batch, losses_of_all, strict=True):
                forward, backward = losses[:, :-1]
                # Backward losses are in the order from the last token to the first.
                yield self._scores(sentence, np.stack([forward, backward[::-1]]), losses[:, -1])

    def _scores(
        self,
        sentence: list[bytes],
        losses: np.ndarray,
        boundary_losses: np.ndarray,
        substitutes: Substitutes | None = None,
    ) -> SentenceScores:
        log_probabilities = np.column_stack([losses, boundary_losses])
        # Rounding could give a probability above 1.
        log_probabilities = np.minimum(0.0 - log_probabilities, 0.0)
        if not np.isfinite(log_probabilities).all():
            raise InputError("the model's scores are not finite; its weights are not usable")
        is_unknown = self._vocabulary.ids(sentence) == self._vocabulary.unknown_id
        forward, backward = log_probabilities[:, :-1]
        forward_boundary, backward_boundary = log_probabilities[:, -1]
        return SentenceScores(
            sentence,
            is_unknown,
            forward,
            backward,
            forward_boundary,
            backward_boundary,
            substitutes,
        )

    def _blank(self) -> SentenceScores:
        nothing = np.zeros(0, np.float32)
        return SentenceScores(
            [], nothing.astype(bool), nothing, nothing, None, None, self._no_substitutes
        )


def to_json(scores: SentenceScores, vocabulary: Vocabulary) -> Iterator[str]:
    """The scores as one line of JSON, without a line end, in several parts.

    A line may be long, because substitutes take much more memory as text than as numbers. Numbers
    have as many digits as a float32 needs. An invalid UTF-8 byte becomes U+FFFD; it occurs only
    where a tokenizer cut a character.
    """
    values = {
        "tokens": [_text(token) for token in scores.tokens],
        "is_unknown": scores.is_unknown.tolist(),
        "forward": _numbers(scores.forward),
        "backward": _numbers(scores.backward),
        "forward_boundary": _number(scores.forward_boundary),
        "backward_boundary": _number(scores.backward_boundary),
    }
    start = _dumps(values)
    if scores.substitutes is None:
        yield start
        return
    yield start.removesuffix("}") + ', "substitutes": ['
    for begin in range(0, len(scores.tokens), _TOKENS_IN_PIECE):
        piece = Substitutes(
            scores.substitutes.ids[begin : begin + _TOKENS_IN_PIECE],
            scores.substitutes.scores[begin : begin + _TOKENS_IN_PIECE],
            scores.substitutes.log_probabilities[:, begin : begin + _TOKENS_IN_PIECE],
        )
        separator = ", " if begin else ""
        yield separator + ", ".join(_dumps(words) for words in _words(piece, vocabulary))
    yield "]}"


def _words(substitutes: Substitutes, vocabulary: Vocabulary) -> Iterator[list[dict[str, Any]]]:
    """For each token a list of its substitutes, as JSON values."""
    columns = zip(
        substitutes.ids.tolist(),
        _numbers(substitutes.scores),
        *(_numbers(each) for each in substitutes.log_probabilities),
        strict=True,
    )
    for ids, *numbers in columns:
        yield [
            {"token": _text(vocabulary.words[id_]), "score": total, "forward": f, "backward": b}
            for id_, total, f, b in zip(ids, *numbers, strict=True)
        ]


def _numbers(array: np.ndarray) -> list[Any]:
    """The array as Python numbers with the digits of float32."""
    return array.astype(str).astype(np.float64).tolist()


def _number(value: np.float32 | None) -> float | None:
    return None if value is None else float(str(value))


def _text(token: bytes) -> str:
    return token.decode("utf-8", "replace")


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).translate(_LINE_ENDS)
