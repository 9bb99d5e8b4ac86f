"""Processes sentences in batches of similar lengths; returns results in the original order."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from elmo_tf.config import checks

# Number of batches whose sentences are sorted together; more need less padding and more memory.
_BATCHES_SORTED = 32
MOST_TOKENS_SORTED = 1 << 20
# The longest sentence of a batch has at most (2 * shortest + _SIMILAR_TOKENS) tokens. This makes a
# few more batches, but no batch is padded to the length of a single very long line.
_SIMILAR_TOKENS = 32

Result = TypeVar("Result")


def score_sorted(
    score: Callable[[list[list[bytes]]], list[Result]],
    sentences: Iterable[list[bytes]],
    batch_size: int,
    progress: Callable[[int], None] | None = None,
    most_tokens: int = MOST_TOKENS_SORTED,
) -> Iterator[Result]:
    """Scores sentences in batches of similar lengths, and yields the results in original order.

    Args:
      score: maps a batch of sentences to a list of results.
      sentences: lists of tokens.
      batch_size: maximum number of sentences to score together.
      progress: called with the number of tokens scored, including one boundary per sentence.
      most_tokens: limit of the tokens in memory, whose sentences are sorted together; a single
        sentence may exceed it.
    """
    checks.integer(1)(batch_size, "batch_size")
    for group in _groups(sentences, _BATCHES_SORTED * batch_size, most_tokens):
        results: dict[int, Result] = {}
        for indices in _similar_lengths([len(sentence) for sentence in group], batch_size):
            batch = [group[index] for index in indices]
            results.update(zip(indices, score(batch), strict=True))
            if progress is not None:
                progress(sum(len(sentence) + 1 for sentence in batch))
        for index in range(len(group)):
            yield results.pop(index)


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
    """Yields batches of indices into `lengths`, from short to long."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (
            len(batch) == batch_size or lengths[index] > 2 * lengths[batch[0]] + _SIMILAR_TOKENS
        ):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
