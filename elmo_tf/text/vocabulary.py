"""The vocabulary: the words that a language model predicts, their ids, and the file format.

A vocabulary file is UTF-8 with one word per line; a word's id is its 0-based line number. It must
contain `<S>` and `</S>`, which end a sentence in the backward and forward direction, and `<UNK>`,
which represents all other words. A model with character input uses it only for its predictions:
the characters it reads do not depend on the vocabulary, and inference needs none.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.storage import files
from elmo_tf.text import characters, lines

VOCABULARY_FILE = "vocab.txt"  # the file's name in runs and exports
UNKNOWN_TOKEN = b"<UNK>"
SPECIAL_TOKENS = (characters.BEGIN_TOKEN, characters.END_TOKEN, UNKNOWN_TOKEN)

# Other people's names for the special tokens, without brackets and in lower case.
_OTHER_NAMES = {
    characters.BEGIN_TOKEN: {"s", "bos", "sos", "start"},
    characters.END_TOKEN: {"/s", "eos", "end", "stop"},
    UNKNOWN_TOKEN: {"unk", "unknown", "oov"},
}
_SHOWN_PROBLEMS = 5


class Vocabulary:
    """Words and their ids.

    Args:
      words: distinct words in UTF-8, including the special tokens. A word's id is its index.
      source: their origin for errors, such as a file name.

    Raises:
      InputError: a special token is missing (near misses are shown), or a word occurs twice, is
        blank, is not UTF-8 or contains a line end. The message has the line numbers.
    """

    def __init__(self, words: Sequence[bytes], source: str = "vocabulary") -> None:
        self.words = list(words)
        self._ids = {word: word_id for word_id, word in enumerate(self.words)}
        problems = [*_missing_tokens(self._ids), *_problem_lines(self.words)]
        if problems:
            more = len(problems) - _SHOWN_PROBLEMS
            shown = problems[:_SHOWN_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
            raise InputError(f"{source}: {'; '.join(shown)}")
        self.begin_id, self.end_id, self.unknown_id = (self._ids[word] for word in SPECIAL_TOKENS)

    @classmethod
    def from_file(cls, path: str | os.PathLike, source: str | None = None) -> "Vocabulary":
        """Reads a vocabulary file. Only line ends are removed: spaces are part of a word.

        Args:
          path: the file.
          source: its name in errors; its path by default.
        """
        return cls([line for _, line in lines.read_lines(path)], source or str(path))

    def write(self, path: str | os.PathLike) -> None:
        """Writes a file for `from_file`, atomically."""
        with files.write_atomically(path) as temporary, open(temporary, "xb") as file:
            file.writelines(word + b"\n" for word in self.words)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: bytes) -> bool:
        return word in self._ids

    def id_of(self, word: bytes) -> int:
        """The word's id, or the id of `<UNK>` if the word is not in the vocabulary."""
        return self._ids.get(word, self.unknown_id)

    def count_known(self, words: Sequence[bytes]) -> int:
        """Number of words, with repetitions, that are in the vocabulary and not `<UNK>`."""
        return sum(map(self._ids.__contains__, words)) - words.count(UNKNOWN_TOKEN)

    def ids(self, words: Sequence[bytes]) -> np.ndarray:
        """The ids of some words, `int32 [len(words)]`, as in `id_of`."""
        get, unknown = self._ids.get, self.unknown_id
        return np.array([get(word, unknown) for word in words], dtype=np.int32)


class TokenCounts(NamedTuple):
    """Token frequencies of a text.

    Attributes:
      counts: occurrences of each distinct token.
      num_sentences: sentences with at least one token.
    """

    counts: Counter[bytes]
    num_sentences: int

    @property
    def num_tokens(self) -> int:
        """Number of tokens, with repetitions."""
        return self.counts.total()

    def coverage(self, vocabulary: Vocabulary) -> float:
        """Fraction of the tokens that are in the vocabulary and not `<UNK>`; 0 without tokens."""
        known = sum(
            count
            for word, count in self.counts.items()
            if word in vocabulary and word != UNKNOWN_TOKEN
        )
        return known / max(self.num_tokens, 1)


def count_tokens(sentences: Iterable[Sequence[bytes]]) -> TokenCounts:
    """Counts the tokens of sentences. Memory grows with the number of distinct tokens only."""
    counts: Counter[bytes] = Counter()
    num_sentences = 0
    for tokens in sentences:
        if tokens:
            counts.update(tokens)
            num_sentences += 1
    return TokenCounts(counts, num_sentences)


def choose_words(
    counts: Counter[bytes], min_count: int = 1, max_size: int | None = None
) -> Vocabulary:
    """Builds the vocabulary of the most frequent words.

    The special tokens `<S>`, `</S>` and `<UNK>` come first, whether or not the text contains them,
    then the words by descending count; words of equal count are sorted by their bytes. Tokens that
    can't be a line of a vocabulary file (blank, with a line end, not UTF-8) are excluded.

    Args:
      counts: occurrences of each token.
      min_count: excludes words with fewer occurrences; at least 1.
      max_size: maximum size of the vocabulary with the three special tokens, which is the number
        of rows of the softmax; at least 4. None for no limit.

    Raises:
      InputError: no word remains.
    """
    checks.integer(1)(min_count, "min_count")
    checks.optional(checks.integer(len(SPECIAL_TOKENS) + 1))(max_size, "max_size")
    words = [word for word in counts if word not in SPECIAL_TOKENS and not _fault(word)]
    if not words:
        raise InputError("no words to make a vocabulary of")
    kept = [word for word in words if counts[word] >= min_count]
    if not kept:
        most = max(counts[word] for word in words)
        raise InputError(
            f"min_count must be at most {most}, which the most frequent word reaches, "
            f"got {min_count}"
        )
    kept.sort(key=lambda word: (-counts[word], word))
    return Vocabulary([*SPECIAL_TOKENS, *kept][:max_size])


def build_vocabulary(
    sentences: Iterable[Sequence[bytes]], min_count: int = 1, max_size: int | None = None
) -> Vocabulary:
    """`count_tokens`, then `choose_words`."""
    return choose_words(count_tokens(sentences).counts, min_count, max_size)


def _fault(word: bytes) -> str:
    """Why the word can't be a line of a vocabulary file, as a predicate for an error; or ""."""
    if not word.strip():
        return "is blank"
    if b"\n" in word or b"\r" in word:
        return "holds a line feed or carriage return inside"
    try:
        word.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"is not UTF-8: byte 0x{word[error.start]:02x} at byte {error.start + 1}"
    return ""


def _problem_lines(words: Sequence[bytes]) -> list[str]:
    problems = []
    first_lines: dict[bytes, int] = {}
    for line, word in enumerate(words, start=1):
        fault = _fault(word)
        if fault:
            problems.append(f"line {line} {fault}")
        elif word in first_lines:
            problems.append(f"line {line} repeats line {first_lines[word]}, {_show(word)}")
        else:
            first_lines[word] = line
    return problems


def _missing_tokens(ids: dict[bytes, int]) -> list[str]:
    """A message for each missing special token, with words that may have been meant as it."""
    messages = []
    for token in SPECIAL_TOKENS:
        if token not in ids:
            near = [
                f"line {word_id + 1} has {_show(word)}"
                for word, word_id in ids.items()
                if _bare_name(word) in _OTHER_NAMES[token]
            ]
            message = f"the line {token.decode()} is missing"
            messages.append(f"{message} ({', '.join(near[:2])})" if near else message)
    return messages


def _bare_name(word: bytes) -> str:
    """A special token's name without brackets and case: `unk` for `<unk>`, `[UNK]`, `<UNK> 12`."""
    first = next(iter(word.decode("utf-8", "replace").split()), "-")
    if first[0].isalnum() or first[-1].isalnum():  # no brackets: an ordinary word
        return ""
    return "".join(c for c in first if c.isalnum() or c == "/").casefold()


def _show(word: bytes) -> str:
    text = repr(word.decode("utf-8", "replace"))
    return text if len(text) <= 40 else text[:37] + "..."
