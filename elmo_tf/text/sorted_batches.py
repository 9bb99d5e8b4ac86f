"""Sentences in batches of similar lengths, their results in the order of the sentences."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from elmo_tf.config import checks

# Sentences to sort by length and batch together; more would pad less and hold more text.
_BATCHES_SORTED = 32
MOST_TOKENS_SORTED = 1 << 20
# A longest sentence has at most twice the tokens of the shortest in its batch and this many more:
# a few batches more, but a whole book on one line is not padding for each line beside it.
_SIMILAR_TOKENS = 32

Result = TypeVar("Result")


def score_sorted(
    score: Callable[[list[list[bytes]]], list[Result]],
    sentences: Iterable[list[bytes]],
    batch_size: int,
    progress: Callable[[int], None] | None = None,
    most_tokens: int = MOST_TOKENS_SORTED,
) -> Iterator[Result]:
    """Scores sentences in batches of similar lengths, and yields the results in their order.

    Args:
      score: takes a batch of sentences, gives a result for each.
      sentences: lists of tokens.
      batch_size: the most sentences to score together.
      progress: told of the tokens done, one boundary for each sentence among them.
      most_tokens: of the sentences that are held together with their results, save that one
        sentence may have more.
    """
    checks.integer(1)(batch_size, "batch_size")
    for group in _groups(sentences, _BATCHES_SORTED * batch_size, most_tokens):
        results: dict[int, Result] = {}
        for places in _similar_lengths([len(sentence) for sentence in group], batch_size):
            batch = [group[place] for place in places]
            results.update(zip(places, score(batch), strict=True))
            if progress is not None:
                progress(sum(len(sentence) + 1 for sentence in batch))
        for place in range(len(group)):
            yield results.pop(place)


def _groups(
    sentences: Iterable[list[bytes]], most: int, most_tokens: int
) -> Iterator[list[list[bytes]]]:
    group: list[list[bytes]] = []
    num_tokens = 0
    for sentence in sentences:
        group.append(sentence)
        num_tokens += len(sentence)
        if len(group) == most or num_tokens >= most_tokens:
            yield group
            group, num_tokens = [], 0
    if group:
        yield group


def _similar_lengths(lengths: list[int], batch_size: int) -> Iterator[list[int]]:
    """Places of the lengths, from short to long, a batch's worth at a time."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (
            len(batch) == batch_size or lengths[place] > 2 * lengths[batch[0]] + _SIMILAR_TOKENS
        ):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
