"""Example sentences of WordNet for each sense of ambiguous verbs, adjectives and nouns.

The files are described in WordNet's manual pages wndb(5) and wninput(5).
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

PARTS_OF_SPEECH = ("verb", "adj", "noun")
MIN_EXAMPLES = 2  # of each of two senses of a lemma
_DIRECTORY = "usr/share/wordnet"
_VOWELS = "aeiou"
_TOKEN = re.compile(r"\w+|[^\w\s]")  # as --tokenizer=unicode_punctuation splits English


class Occurrence(NamedTuple):
    """A lemma in an example sentence.

    Attributes:
      lemma: the lemma and its part of speech, as "run.verb".
      sense: the number of its sense, from 1 on, by how frequent WordNet takes it to be.
      tokens: the sentence.
      position: index of the lemma's token.
    """

    lemma: str
    sense: int
    tokens: tuple[str, ...]
    position: int


def read_occurrences(directory: Path) -> list[Occurrence]:
    """Occurrences of lemmas with two or more senses of two or more examples each.

    Args:
      directory: the directory of `fetch`.
    """
    by_sense: dict[tuple[str, int], list[Occurrence]] = defaultdict(list)
    for part in PARTS_OF_SPEECH:
        for occurrence in _occurrences(directory / _DIRECTORY, part):
            by_sense[occurrence.lemma, occurrence.sense].append(occurrence)
    kept: dict[str, list[list[Occurrence]]] = defaultdict(list)
    for (lemma, _), found in sorted(by_sense.items()):
        if len(found) >= MIN_EXAMPLES:
            kept[lemma].append(found)
    senses = [sense for of_lemma in kept.values() if len(of_lemma) > 1 for sense in of_lemma]
    return [occurrence for sense in senses for occurrence in sense]


def inflections(lemma: str) -> set[str]:
    """The regular forms of a lemma, and some that don't exist."""
    stem = lemma[:-1] if lemma.endswith("e") else lemma
    forms = {lemma, lemma + "s", lemma + "es", stem + "ed", stem + "ing", stem + "er", stem + "est"}
    if lemma.endswith("y"):
        forms |= {lemma[:-1] + ending for ending in ("ies", "ied", "ier", "iest")}
    if len(lemma) > 2 and lemma[-1] not in _VOWELS + "wxy" and lemma[-2] in _VOWELS:
        forms |= {lemma + lemma[-1] + ending for ending in ("ed", "ing", "er", "est")}
    return forms


def _occurrences(directory: Path, part: str) -> Iterator[Occurrence]:
    ranks = _sense_numbers(directory / f"index.{part}")
    irregular = defaultdict(set)
    for line in _lines(directory / f"{part}.exc"):
        form, *lemmas = line.split()
        for lemma in lemmas:
            irregular[lemma].add(form)
    for line in _lines(directory / f"data.{part}"):
        fields, _, gloss = line.partition(" | ")
        offset, _, _, count, *rest = fields.split()
        examples = [_TOKEN.findall(text) for text in re.findall(r'"([^"]+)"', gloss)]
        for word in rest[: 2 * int(count, 16) : 2]:
            lemma = re.sub(r"\(\w+\)$", "", word).lower()  # an adjective's position
            forms = inflections(lemma) | irregular[lemma]
            for tokens in examples:
                lower = [token.lower() for token in tokens]
                found = [index for index, token in enumerate(lower) if token in forms]
                if len(found) == 1 and (lemma, offset) in ranks:
                    sense = ranks[lemma, offset]
                    yield Occurrence(f"{lemma}.{part}", sense, tuple(tokens), found[0])


def _sense_numbers(path: Path) -> dict[tuple[str, str], int]:
    """The number of the sense for each pair of lemma and offset of a synset."""
    numbers = {}
    for line in _lines(path):
        lemma, _, count, *rest = line.split()
        for number, offset in enumerate(rest[-int(count) :], start=1):
            numbers[lemma, offset] = number
    return numbers


def _lines(path: Path) -> Sequence[str]:
    """The lines of a file without those of its licence, which begin with a space."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith(" ")]
