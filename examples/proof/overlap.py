"""Looks for sentences of Brown's test part in the text of a language model.

    python -m examples.proof.overlap --text=text/train.txt

Sentences are compared by their letters and digits alone, in lower case, so that tokenizers and
quotation marks make no difference; those with fewer than six words are phrases that any text has.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from elmo_tf.errors import InputError
from examples.proof import brown, fetch

MIN_WORDS = 6


def letters(tokens: Sequence[str]) -> str:
    """The letters and digits of a sentence in lower case."""
    return "".join(filter(str.isalnum, "".join(tokens))).lower()


def shared(test: Iterable[Sequence[str]], lines: Iterable[str]) -> list[str]:
    """The sentences of `test` that are lines too, as text.

    Args:
      test: lists of tokens.
      lines: tokenized sentences.
    """
    known = {}
    for tokens in test:
        if sum(token.isalnum() for token in tokens) >= MIN_WORDS:
            known[letters(tokens)] = " ".join(tokens)
    return sorted({known[found] for line in lines if (found := letters(line.split())) in known})


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the shared sentences and their number; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", required=True, type=Path, help="Text of the language model.")
    parser.add_argument(
        "--data", type=Path, default=fetch.default_directory(), help="Directory of fetched data."
    )
    parser.add_argument("--brown", type=Path, help="Unpacked corpus, instead of fetching it.")
    options = parser.parse_args(arguments)
    try:
        corpus = brown.read_corpus(options.brown or fetch.fetch(fetch.BROWN, options.data))
    except InputError as error:
        print(f"overlap: {error}", file=sys.stderr)
        return 1
    with open(options.text, encoding="utf-8") as lines:
        found = shared((sentence.tokens for sentence in corpus.test), lines)
    for sentence in found:
        print(sentence)
    print(f"{len(found)} of {len(corpus.test)} test sentences are in the text")
    return 0


if __name__ == "__main__":
    sys.exit(main())
