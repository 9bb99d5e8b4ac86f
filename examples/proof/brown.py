"""The Brown corpus with 12 universal tags: sentences, the split, and three kinds of tokens.

The tags are those of Petrov, Das and McDonald 2012, "A Universal Part-of-Speech Tagset",
https://arxiv.org/abs/1104.2086. Brown's tags are described in the manual of the corpus (Francis
and Kucera 1979), from which the table below was made.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_tf.errors import InputError

UNIVERSAL_TAGS = (
    *("ADJ", "ADP", "ADV", "CONJ", "DET", "NOUN"),
    *("NUM", "PRON", "PRT", "VERB", "X", "."),
)
# The stem of Brown's tag, without its endings for inflection, negation and kind of text.
_STEMS = {
    "ADJ": "jj jjr jjs jjt ap od",
    "ADP": "in cs",
    "ADV": "rb rbr rbt rn ql qlp wrb wql *",
    "CONJ": "cc",
    "DET": "at dt dti dts dtx abx pp$ wdt wp$",
    "NOUN": "nn nns np nps nr nrs",
    "NUM": "cd",
    "PRON": "pn pp$$ ppl ppls ppo pps ppss wpo wps",
    "PRT": "rp to ex uh abl abn",
    "VERB": "vb vbd vbg vbn vbz md be bed bedz beg bem ben ber bez do dod doz hv hvd hvg hvn hvz",
    "X": "nil",
    ".": ". , : ( ) -- `` '' '",
}
_TAG_OF_STEM = {stem: tag for tag, stems in _STEMS.items() for stem in stems.split()}
_KIND_OF_TEXT = re.compile(r"(-(hl|tl|nc))+$")  # headline, title, cited word
_QUOTES = {"``": '"', "''": '"'}  # the language model has seen plain quotation marks
_CATEGORIES = "abcdefghjklmnpr"
MIN_SHARE = 0.05  # of a type's tokens, for each of two tags of an ambiguous type


class Sentence(NamedTuple):
    """A tagged sentence.

    Attributes:
      tokens: its tokens.
      tags: their universal tags.
      file: name of its file: "c", a letter for the category of text, and a number.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    file: str


class Split(NamedTuple):
    """Sentences by the number of their file: test if it ends in 0, development if in 5."""

    train: list[Sentence]
    development: list[Sentence]
    test: list[Sentence]


def universal_tag(tag: str) -> str:
    """The universal tag of a tag of the Brown corpus; of a contraction, that of its first part.

    Raises:
      InputError: it is no tag of the corpus.
    """
    if tag.startswith("fw-"):
        return "X"  # a foreign word
    stem = _KIND_OF_TEXT.sub("", tag).split("+")[0]
    stem = _KIND_OF_TEXT.sub("", stem)
    for candidate in (stem, stem.rstrip("*"), stem.rstrip("*").removesuffix("$")):
        if candidate in _TAG_OF_STEM:
            return _TAG_OF_STEM[candidate]
    raise InputError(f"tag of the Brown corpus: must have a stem like nn or vbd, got {tag!r}")


def read_file(path: Path) -> list[Sentence]:
    """The sentences of a file with one sentence of `word/tag` a line."""
    sentences = []
    for line in path.read_text(encoding="utf-8").splitlines():
        pairs = [pair.rpartition("/") for pair in line.split()]
        if pairs:
            tokens = tuple(_QUOTES.get(token, token) for token, _, _ in pairs)
            tags = tuple(universal_tag(tag) for _, _, tag in pairs)
            sentences.append(Sentence(tokens, tags, path.name))
    return sentences


def read_corpus(directory: Path) -> Split:
    """The corpus in the directory of `fetch`."""
    split = Split([], [], [])
    for path in sorted(directory.glob(f"package/c[{_CATEGORIES}][0-9][0-9]")):
        digit = int(path.name[2:]) % 10
        part = {0: split.test, 5: split.development}.get(digit, split.train)
        part.extend(read_file(path))
    return split


def tag_counts(sentences: Iterable[Sentence]) -> dict[str, Counter[str]]:
    """How often each type has each tag."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for token, tag in zip(sentence.tokens, sentence.tags, strict=True):
            counts[token][tag] += 1
    return counts


def ambiguous_types(counts: dict[str, Counter[str]]) -> set[str]:
    """Types with two or more tags that each make up 5 % or more of their tokens."""
    found = set()
    for token, tags in counts.items():
        least = MIN_SHARE * tags.total()
        if sum(count >= least for count in tags.values()) >= 2:
            found.add(token)
    return found


def most_frequent_tags(counts: dict[str, Counter[str]], sentences: Iterable[Sentence]) -> list[str]:
    """The baseline: the most frequent tag of each token's type; of an unseen one NOUN."""
    best = {token: tags.most_common(1)[0][0] for token, tags in counts.items()}
    return [best.get(token, "NOUN") for sentence in sentences for token in sentence.tokens]


def accuracies(
    right: np.ndarray, tokens: Sequence[str], ambiguous: set[str], seen: set[str]
) -> dict[str, float]:
    """The fraction of right tags over all tokens, ambiguous ones, and types not in `seen`.

    Args:
      right: bool `[tokens]`.
      tokens: the tokens in the same order.
      ambiguous: the ambiguous types.
      seen: the types of the training sentences.
    """
    is_ambiguous = np.array([token in ambiguous for token in tokens])
    is_unseen = np.array([token not in seen for token in tokens])
    return {
        "all": float(right.mean()),
        "ambiguous": float(right[is_ambiguous].mean()),
        "unseen": float(right[is_unseen].mean()),
    }
