"""Batches of sentences, limited by their number of tokens including padding and boundaries."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from elmo_tf.config import checks

DEFAULT_BATCH_TOKENS = 2048

_NUM_BOUNDARIES = 2  # the encoder reads `<S>` before each sentence and `</S>` after it

Sentence = TypeVar("Sentence")


def batches_by_tokens(
    sentences: Iterable[Sentence],
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
    *,
    length: Callable[[Any], int] = len,
) -> Iterator[list[Sentence]]:
    """Splits sentences into batches of bounded size, in their order.

    A batch is padded to its longest sentence, so it has

        number of sentences * (tokens of the longest + 2)        2 for the boundaries

    tokens. Each batch has as many sentences as fit into `batch_tokens`. A longer sentence becomes
    a batch of its own: nothing is truncated or skipped. Sorting the sentences by length reduces
    padding.

    Args:
      sentences: lists of tokens, read lazily; an infinite generator is allowed.
      batch_tokens: maximum number of tokens in a batch, at least 1.
      length: returns the number of tokens of a sentence, for sentences that are not lists.

    Yields:
      Lists of one or more sentences.

    Raises:
      InputError: `batch_tokens` is below 1, or a sentence is a string and not a list of tokens.

    Example:
      >>> for batch in batches_by_tokens([["a"], ["b", "c"], ["d"]], batch_tokens=8):
      ...     vectors = encoder(elmo_tf.batch_to_ids(batch))["elmo"]        # two batches: 2 and 1
    """
    batch_tokens = checks.integer(minimum=1)(batch_tokens, "batch_tokens")
    return _batches(sentences, batch_tokens, length)


def _batches(
    sentences: Iterable[Sentence], batch_tokens: int, length: Callable[[Sentence], int]
) -> Iterator[list[Sentence]]:
    batch: list[Sentence] = []
    longest = 0
    for sentence in sentences:
        if isinstance(sentence, (str, bytes)):
            raise checks.refusal("each sentence", "a list of tokens", sentence)
        longest = max(longest, length(sentence))
        if batch and (len(batch) + 1) * (longest + _NUM_BOUNDARIES) > batch_tokens:
            yield batch
            batch, longest = [], length(sentence)
        batch.append(sentence)
    if batch:
        yield batch
