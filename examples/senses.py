"""Ambiguous words: their occurrences in the text, the nearest of them, and a picture of all.

"close", for example, is a noun (the end), a verb (to shut) and an adjective (near) with one
spelling, and the speeches use all three.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.storage import files
from elmo_tf.text.tokens import Tokenizer
from examples import occurrences, picture, shell
from examples.occurrences import Occurrence, Sentence
from examples.sotu_text import SpeechSentence


class AmbiguousWord(NamedTuple):
    """A word with several senses.

    Attributes:
      text: the word as a token.
      queries: for each sense its meaning, and the text that follows the word in the held-out
        sentence to ask about.
    """

    text: str
    queries: tuple[tuple[str, str], ...]


CLOSE = AmbiguousWord(
    "close",
    (
        ("the end", "of their labors"),
        ("to shut", "them against"),
        ("near", "bonds with"),
    ),
)
LIGHT = AmbiguousWord(
    "light",
    (
        ("not heavy", "task for"),
        ("in a lighthouse", "- houses"),
        ("to shine on", "her path"),
    ),
)
REST = AmbiguousWord(
    "rest",
    (
        ("the others", "were made prisoners"),
        ("to be based", "upon individual thrift"),
        ("repose", ", health"),
    ),
)
NUM_NEIGHBOURS = 4
MOST_PER_CUE = 25
# The top layer, which Peters et al. 2018 (table 5) found better at telling senses apart than the
# one below.
LAYER = "lstm_outputs2"


def find_word(
    word: AmbiguousWord, lines: Sequence[SpeechSentence], tokenizer: Tokenizer
) -> list[Occurrence]:
    """Each occurrence in the text, tokenized as for training; contexts said again count once."""
    candidates = [line for line in lines if word.text in line.text]
    tokenized = tokenizer([line.text.encode() for line in candidates])
    sentences = [
        Sentence(tuple(token.decode() for token in split), line.source, line.is_heldout)
        for split, line in zip(tokenized, candidates, strict=True)
    ]
    return occurrences.distinct_contexts(occurrences.find_occurrences(sentences, word.text))


def query_rows(word: AmbiguousWord, found: Sequence[Occurrence]) -> list[int]:
    """The row of each query's occurrence."""
    return [
        next(
            row
            for row, each in enumerate(found)
            if each.sentence.is_heldout and each.is_followed_by(follows)
        )
        for _, follows in word.queries
    ]


def show_neighbours(word: AmbiguousWord, found: Sequence[Occurrence], vectors: np.ndarray) -> None:
    """Prints the nearest neighbours of each query among the sentences that were trained on.

    Args:
      word: the word.
      found: its occurrences.
      vectors: `[occurrences, dim]`, their vectors of `LAYER`.
    """
    candidates = [row for row, each in enumerate(found) if not each.sentence.is_heldout]
    shell.show_title(
        f'Nearest neighbours of "{word.text}" in {len(word.queries)} held-out sentences'
    )
    print(
        f"Among {len(candidates)} occurrences in the training text, by the cosine of the top layer."
    )
    print("The mean over all occurrences is subtracted: it represents the word and no sense of it.")
    vectors = occurrences.center(vectors)
    for (sense, _), query in zip(word.queries, query_rows(word, found), strict=True):
        print(f"\n{'':21}{sense}")
        _show_occurrence("?", found[query])
        for row, cosine in occurrences.nearest(vectors, query, candidates, NUM_NEIGHBOURS):
            _show_occurrence(f"{cosine:.2f}", found[row])


def _show_occurrence(label: str, occurrence: Occurrence) -> None:
    print(f"{label:>4} {occurrence.sentence.source:<15} {occurrences.excerpt(occurrence, 78)}")


def draw_picture(
    path: str, word: AmbiguousWord, found: Sequence[Occurrence], vectors: np.ndarray
) -> None:
    """Saves the picture of all occurrences as PNG; arguments as for `show_neighbours`."""
    cues = occurrences.surface_cues(found, len(picture.COLOURS))
    # Nearly half of all are "the close of" something; they alone would decide on the directions.
    weights = occurrences.cue_weights(cues, MOST_PER_CUE)
    points, shares = occurrences.principal_components(vectors, weights=weights)
    marks = [
        picture.Mark(row, sense, f"{sense}:   {occurrences.snippet(found[row], 9)}")
        for (sense, _), row in zip(word.queries, query_rows(word, found), strict=True)
    ]
    with files.write_atomically(path) as temporary:
        picture.draw(
            temporary,
            points,
            cues,
            marks,
            title=f'"{word.text}" in {len(found)} contexts, by the tokens next to it',
            axis_labels=[
                f"principal component {n} ({share:.0%} of the variance)"
                for n, share in enumerate(shares, start=1)
            ],
        )
    print(f"\n{path}: all {len(found)} occurrences, coloured by the tokens next to them")
