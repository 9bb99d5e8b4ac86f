"""What the tagging experiments compare, and the sentences of Brown that they use."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from examples.proof.brown import Sentence, Split

FROZEN = ("static", "word", "top", "mix")  # kinds of vectors; see `pos`
VARIANTS = (*FROZEN, "fine-tuned")
SIZES = (5000, 500, 2000)  # sentences to train on, for development, to test on
QUICK_SIZES = (40, 10, 20)
MAX_TOKENS = 60  # longer sentences, 2 % of all, would triple the padding of their batch


class Sample(NamedTuple):
    """Sentences to train on, to choose the epoch by, and to test on."""

    train: list[Sentence]
    development: list[Sentence]
    test: list[Sentence]

    @property
    def tokens(self) -> list[tuple[str, ...]]:
        """The tokens of all sentences, in the order of the parts."""
        return [sentence.tokens for part in self for sentence in part]


def draw(split: Split, sizes: Sequence[int], seed: int = 0) -> Sample:
    """A random sample of each part; `sizes` are numbers of sentences."""
    chooser = random.Random(seed)
    parts = []
    for part, size in zip(split, sizes, strict=True):
        short = [sentence for sentence in part if len(sentence.tokens) <= MAX_TOKENS]
        parts.append(chooser.sample(short, min(size, len(short))))
    return Sample(*parts)
