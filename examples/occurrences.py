"""Occurrences of one word in context: finding them, comparing their vectors, laying them out.

Everything here is NumPy; where the vectors come from is none of its business.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Sentence(NamedTuple):
    """A tokenized sentence and where it is from.

    Attributes:
      tokens: its tokens.
      source: year and speaker.
      is_heldout: whether it belongs to a document that training never saw.
    """

    tokens: tuple[str, ...]
    source: str
    is_heldout: bool


class Occurrence(NamedTuple):
    """One token of a sentence.

    Attributes:
      sentence: the whole sentence.
      position: the token's place in it, from 0.
    """

    sentence: Sentence
    position: int

    def is_followed_by(self, text: str) -> bool:
        """Whether the tokens behind it, joined by spaces, begin with `text`."""
        return " ".join(self.sentence.tokens[self.position + 1 :]).startswith(text)

    def cues(self) -> list[str]:
        """The word with the token before it, and with the token behind it, where there is one."""
        tokens = self.sentence.tokens
        pairs = [tokens[start : start + 2] for start in (self.position - 1, self.position)]
        return [" ".join(pair) for pair in pairs if len(pair) == 2]


def find_occurrences(sentences: Iterable[Sentence], word: str) -> list[Occurrence]:
    """Each occurrence of exactly this token, in order; a sentence may have several."""
    return [
        Occurrence(sentence, position)
        for sentence in sentences
        for position, token in enumerate(sentence.tokens)
        if token == word
    ]


def distinct_contexts(occurrences: Iterable[Occurrence]) -> list[Occurrence]:
    """The same without repetitions: presidents say some sentences again, word for word."""
    first: dict[tuple, Occurrence] = {}
    for occurrence in occurrences:
        first.setdefault((occurrence.sentence.tokens, occurrence.position), occurrence)
    return list(first.values())


def surface_cues(found: Sequence[Occurrence], count: int) -> list[str | None]:
    """For each occurrence the first of `count` word pairs that it shows, such as "to close".

    The first pair is the most frequent one; the next is the most frequent one among occurrences
    that do not show the first; and so on. Occurrences that show none get None.
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
    """Weights `[occurrences]` with which all occurrences of a cue count as `most` at most."""
    counts = Counter(cues)
    return np.array([min(1.0, most / counts[cue]) for cue in cues])


def center(vectors: np.ndarray) -> np.ndarray:
    """Takes off the mean: what all occurrences share, the word itself, says nothing of its sense.

    Args:
      vectors: `[occurrences, dim]`.
    """
    return vectors - vectors.mean(axis=0)


def nearest(vectors: np.ndarray, query: int, candidates: Sequence[int], count: int) -> list[tuple]:
    """The candidates whose vectors point most nearly the way the query's does.

    Args:
      vectors: `[occurrences, dim]`.
      query: row of the occurrence to compare with.
      candidates: rows to choose among; the query itself is left out.
      count: how many to return at most.

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
      count: components to keep.
      weights: `[occurrences]`, how much each counts for mean and variance; None for all the same.

    Returns:
      Coordinates `[occurrences, count]`, the direction of the largest variance first, and the share
      of the variance along each, `[count]`. Signs are chosen so that they do not depend on the
      library: along each direction the coordinate farthest from zero is positive.
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
    """The word in brackets with what stands around it, on one line of at most `width` characters.

    The word stands at the same column in each, so that excerpts can be read as a table.
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
    """The word in brackets with `count` tokens on each side at most."""
    tokens, place = occurrence.sentence.tokens, occurrence.position
    left, right = tokens[max(0, place - count) : place], tokens[place + 1 : place + 1 + count]
    return join_tokens([*left, f"[{tokens[place]}]", *right])


def join_tokens(tokens: Sequence[str]) -> str:
    """Tokens as readable text: no space before a comma, nor around an apostrophe or a hyphen."""
    text = ""
    for token in tokens:
        glued = not text or token in ".,;:?!)]%" or token in "'’-" or text[-1] in "'’-($[“\""
        text += token if glued else f" {token}"
    return text
