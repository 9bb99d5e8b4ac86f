"""Occurrences of a word in context: search, nearest neighbours, and layout in two dimensions.

This module uses only NumPy and is independent of the source of the vectors.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Sentence(NamedTuple):
    """A tokenized sentence and its source.

    Attributes:
      tokens: its tokens.
      source: year and speaker.
      is_heldout: whether its document is held out from training.
    """

    tokens: tuple[str, ...]
    source: str
    is_heldout: bool


class Occurrence(NamedTuple):
    """One token of a sentence.

    Attributes:
      sentence: the whole sentence.
      position: index of the token, from 0.
    """

    sentence: Sentence
    position: int

    def is_followed_by(self, text: str) -> bool:
        """Whether the following tokens, joined by spaces, begin with `text`."""
        return " ".join(self.sentence.tokens[self.position + 1 :]).startswith(text)

    def cues(self) -> list[str]:
        """The word with the previous token, and with the next token, if they exist."""
        tokens = self.sentence.tokens
        pairs = [tokens[start : start + 2] for start in (self.position - 1, self.position)]
        return [" ".join(pair) for pair in pairs if len(pair) == 2]


def find_occurrences(sentences: Iterable[Sentence], word: str) -> list[Occurrence]:
    """All occurrences of exactly this token, in order; a sentence may have several."""
    return [
        Occurrence(sentence, position)
        for sentence in sentences
        for position, token in enumerate(sentence.tokens)
        if token == word
    ]


def distinct_contexts(occurrences: Iterable[Occurrence]) -> list[Occurrence]:
    """The occurrences without duplicates: presidents repeat some sentences verbatim."""
    first: dict[tuple, Occurrence] = {}
    for occurrence in occurrences:
        first.setdefault((occurrence.sentence.tokens, occurrence.position), occurrence)
    return list(first.values())


def surface_cues(found: Sequence[Occurrence], count: int) -> list[str | None]:
    """For each occurrence, the first of `count` word pairs that it contains, such as "to close".

    The first pair is the most frequent one; each further pair is the most frequent one among the
    occurrences without an earlier pair. Occurrences without any pair get None.
    """
    chosen: list[str | None] = [None] * len(found)
    for _ in range(count):
        without = [row for row, cue in enumerate(chosen) if cue is None]
        counts = Counter(cue for row in without for cue in found[row].cues())
        if not counts:
            break
        best = min(counts, key=lambda cue: (-counts[cue], cue))
        for row in without:
            if best in found[row].cues():
                chosen[row] = best
    return chosen


def cue_weights(cues: Sequence[str | None], most: float) -> np.ndarray:
    """Weights `[occurrences]` that limit the total weight of each cue to `most`."""
    counts = Counter(cues)
    return np.array([min(1.0, most / counts[cue]) for cue in cues])


def center(vectors: np.ndarray) -> np.ndarray:
    """Subtracts the mean, which represents the word itself rather than one of its senses.

    Args:
      vectors: `[occurrences, dim]`.
    """
    return vectors - vectors.mean(axis=0)


def nearest(vectors: np.ndarray, query: int, candidates: Sequence[int], count: int) -> list[tuple]:
    """The candidates with the largest cosine similarity to the query.

    Args:
      vectors: `[occurrences, dim]`.
      query: row of the occurrence to compare with.
      candidates: rows to choose from; the query itself is excluded.
      count: maximum number of results.

    Returns:
      Pairs (row, cosine), the largest cosine first.
    """
    candidates = np.array([row for row in candidates if row != query], int)
    lengths = np.linalg.norm(vectors, axis=1)
    products = vectors[candidates] @ vectors[query]
    cosines = products / np.maximum(lengths[candidates] * lengths[query], 1e-12)
    order = np.argsort(-cosines, kind="stable")[:count]
    return [(int(candidates[place]), float(cosines[place])) for place in order]


def principal_components(
    vectors: np.ndarray, count: int = 2, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Principal component analysis by singular value decomposition.

    Args:
      vectors: `[occurrences, dim]`.
      count: number of components.
      weights: `[occurrences]`, weights for mean and variance; None for equal weights.

    Returns:
      Coordinates `[occurrences, count]`, in order of decreasing variance, and the fraction of the
      variance of each component, `[count]`. The sign of a component is chosen so that its
      coordinate of largest magnitude is positive, independent of the library.
    """
    weights = np.ones(len(vectors)) if weights is None else weights
    centered = vectors - np.average(vectors, axis=0, weights=weights)
    _, singular, directions = np.linalg.svd(
        np.sqrt(weights)[:, np.newaxis] * centered, full_matrices=False
    )
    coordinates = centered @ directions[:count].T  # [occurrences, count]
    farthest = np.abs(coordinates).argmax(axis=0)
    signs = np.where(coordinates[farthest, np.arange(count)] < 0, -1, 1)
    shares = singular**2 / np.maximum(np.sum(singular**2), 1e-12)
    return coordinates * signs, shares[:count]


def excerpt(occurrence: Occurrence, width: int) -> str:
    """The word in brackets with its context, on one line of at most `width` characters.

    The word is at the same column in all excerpts, so that they form a table.
    """
    tokens, place = occurrence.sentence.tokens, occurrence.position
    word = f"[{tokens[place]}]"
    left_width = (width - len(word) - 2) * 2 // 5
    right_width = width - len(word) - 2 - left_width
    left, right = join_tokens(tokens[:place]), join_tokens(tokens[place + 1 :])
    if len(left) > left_width:
        left = "…" + left[len(left) - left_width + 1 :]
    if len(right) > right_width:
        right = right[: right_width - 1] + "…"
    return f"{left:>{left_width}} {word} {right}".rstrip()


def snippet(occurrence: Occurrence, count: int) -> str:
    """The word in brackets with up to `count` tokens on each side."""
    tokens, place = occurrence.sentence.tokens, occurrence.position
    left, right = tokens[max(0, place - count) : place], tokens[place + 1 : place + 1 + count]
    return join_tokens([*left, f"[{tokens[place]}]", *right])


def join_tokens(tokens: Sequence[str]) -> str:
    """Joins tokens to readable text, without spaces before commas or around apostrophes."""
    text = ""
    for token in tokens:
        glued = not text or token in ".,;:?!)]%" or token in "'’-" or text[-1] in "'’-($[“\""
        text += token if glued else f" {token}"
    return text
