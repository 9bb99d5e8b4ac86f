"""One ambiguous word: its occurrences in the text, who is near whom, and a picture of them.

"close" is a noun (the end), a verb (to shut) and an adjective (near) with one spelling, and the
speeches use all three.
"""

from collections.abc import Sequence

import numpy as np

from elmo_tf.storage import files
from elmo_tf.text.tokens import Tokenizer
from examples import occurrences, picture, shell
from examples.occurrences import Occurrence, Sentence
from examples.sotu_text import SpeechSentence

WORD = "close"
# Its senses, and what follows it in a held-out sentence with each.
QUERIES = (
    ("the end", "of their labors"),
    ("to shut", "them against"),
    ("near", "bonds with"),
)
NUM_NEIGHBOURS = 4
MOST_PER_CUE = 25
# The top layer, which Peters et al. 2018 (table 5) found better at telling senses apart than the
# one below.
LAYER = "lstm_outputs2"


def find_word(lines: Sequence[SpeechSentence], tokenizer: Tokenizer) -> list[Occurrence]:
    """Each occurrence in the text, tokenized as for training; contexts said again count once."""
    candidates = [line for line in lines if WORD in line.text]
    tokenized = tokenizer([line.text.encode() for line in candidates])
    sentences = [
        Sentence(tuple(token.decode() for token in split), line.source, line.is_heldout)
        for split, line in zip(tokenized, candidates, strict=True)
    ]
    return occurrences.distinct_contexts(occurrences.find_occurrences(sentences, WORD))


def query_rows(found: Sequence[Occurrence]) -> list[int]:
    """The rows of the occurrences that `QUERIES` speaks of."""
    return [
        next(
            row
            for row, each in enumerate(found)
            if each.sentence.is_heldout and each.is_followed_by(follows)
        )
        for _, follows in QUERIES
    ]


def show_neighbours(found: Sequence[Occurrence], vectors: np.ndarray) -> None:
    """Prints the nearest neighbours of each query among the sentences that were trained on.

    Args:
      found: the occurrences.
      vectors: `[occurrences, dim]`, their vectors of `LAYER`.
    """
    candidates = [row for row, each in enumerate(found) if not each.sentence.is_heldout]
    shell.show_title(f'Nearest neighbours of "{WORD}" in three held-out sentences')
    print(f"Among {len(candidates)} occurrences in the text trained on; cosine of {LAYER}, from")
    print("which the mean over all occurrences was taken, as it is the word and not the sense.")
    vectors = occurrences.center(vectors)
    for (sense, _), query in zip(QUERIES, query_rows(found), strict=True):
        print(f"\n{'':21}{sense}")
        _show_occurrence("?", found[query])
        for row, cosine in occurrences.nearest(vectors, query, candidates, NUM_NEIGHBOURS):
            _show_occurrence(f"{cosine:.2f}", found[row])


def _show_occurrence(label: str, occurrence: Occurrence) -> None:
    print(f"{label:>4} {occurrence.sentence.source:<15} {occurrences.excerpt(occurrence, 78)}")


def draw_picture(path: str, found: Sequence[Occurrence], vectors: np.ndarray) -> None:
    """Saves the picture of all occurrences as PNG; arguments as for `show_neighbours`."""
    cues = occurrences.surface_cues(found, len(picture.COLOURS))
    # Nearly half of all are "the close of" something; they alone would decide on the directions.
    weights = occurrences.cue_weights(cues, MOST_PER_CUE)
    points, shares = occurrences.principal_components(vectors, weights=weights)
    marks = [
        picture.Mark(row, sense, f"{sense}:   {occurrences.snippet(found[row], 9)}")
        for (sense, _), row in zip(QUERIES, query_rows(found), strict=True)
    ]
    with files.write_atomically(path) as temporary:
        picture.draw(
            temporary,
            points,
            cues,
            marks,
            title=f'"{WORD}" in {len(found)} contexts, by the tokens next to it',
            axis_labels=[
                f"principal component {n} ({share:.0%} of the variance)"
                for n, share in enumerate(shares, start=1)
            ],
        )
    print(f"\n{path}: all {len(found)} occurrences, coloured by the tokens next to them")
