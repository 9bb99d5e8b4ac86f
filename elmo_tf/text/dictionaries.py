"""Dictionaries of words and of characters, in the format of ELMoForManyLangs.

Each line has an entry, a tab and the entry's id. White space around a line is ignored, so a line
with only an id has an entry of white space, which is U+3000.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from elmo_tf.config import checks
from elmo_tf.errors import InputError, printable
from elmo_tf.storage import files
from elmo_tf.text import lines

WORDS_FILE, CHARACTERS_FILE = "word.dic", "char.dic"
UNKNOWN, BEGIN, END, PADDING = "<oov>", "<bos>", "<eos>", "<pad>"
WORD_BEGIN, WORD_END = "<bow>", "<eow>"

_WHITE_SPACE = "\u3000"
_OF_WORDS = (UNKNOWN,)
_OF_CHARACTERS = (UNKNOWN, BEGIN, END, PADDING, WORD_BEGIN, WORD_END)


class Dictionary:
    """Entries and their ids, which start at 0.

    Args:
      entries: distinct entries; the id of an entry is its index.
      source: their origin, for errors.
      required: entries that must exist.

    Raises:
      InputError: an entry occurs twice, or a required one is missing.
    """

    def __init__(
        self, entries: Sequence[str], source: str = "dictionary", required: Sequence[str] = ()
    ) -> None:
        self.entries = tuple(entries)
        self.ids = {entry: number for number, entry in enumerate(self.entries)}
        if len(self.ids) < len(self.entries):
            twice = next(e for i, e in enumerate(self.entries) if self.ids[e] != i)
            raise InputError(f"{source}: {printable(twice)} occurs twice")
        missing = [entry for entry in required if entry not in self.ids]
        if missing:
            raise InputError(f"{source}: has no entry {', '.join(missing)}")

    def __len__(self) -> int:
        return len(self.entries)

    @classmethod
    def from_file(
        cls, path: str | os.PathLike, source: str | None = None, required: Sequence[str] = ()
    ) -> "Dictionary":
        """Reads a file, whose ids may be in any order.

        Raises:
          InputError: a line is malformed, an id is missing or occurs twice, or as for the
            constructor.
        """
        source = os.fspath(path) if source is None else source
        entries: dict[int, str] = {}
        for number, line in lines.read_lines(path):
            try:
                fields = line.decode("utf-8").strip().split("\t")
            except UnicodeDecodeError:
                raise InputError(f"{source}: line {number}: is not UTF-8") from None
            entry = _WHITE_SPACE if len(fields) == 1 else fields[0]
            if len(fields) > 2 or not (fields[-1].isascii() and fields[-1].isdigit()):
                raise InputError(f"{source}: line {number}: must be an entry, a tab and its id")
            if len(fields[-1]) > 10 or int(fields[-1]) in entries:
                raise InputError(f"{source}: line {number}: id {fields[-1][:20]} can't be used")
            entries[int(fields[-1])] = entry
        if sorted(entries) != list(range(len(entries))):
            missing = next(i for i in range(len(entries)) if i not in entries)
            raise InputError(f"{source}: has {len(entries):,} entries, but none with id {missing}")
        return cls([entries[i] for i in range(len(entries))], source, required)

    def write(self, path: str | os.PathLike) -> None:
        """Writes a file for `from_file`, atomically."""
        with files.write_atomically(path) as temporary, open(temporary, "xb") as file:
            file.writelines(f"{e}\t{i}\n".encode() for i, e in enumerate(self.entries))


class Dictionaries(NamedTuple):
    """The dictionaries of a model.

    Attributes:
      words: the dictionary of words; None for a model without words.
      characters: the dictionary of characters; None for a model without characters.
    """

    words: Dictionary | None
    characters: Dictionary | None

    @classmethod
    def read(cls, paths: Mapping[str, str], shown: Mapping[str, str]) -> "Dictionaries":
        """Reads `WORDS_FILE` and `CHARACTERS_FILE`, whichever `paths` has.

        Args:
          paths: the files' paths, by these names.
          shown: their names in errors.

        Raises:
          InputError: as for `Dictionary.from_file`.
        """

        def one(name: str, required: Sequence[str]) -> Dictionary | None:
            if name not in paths:
                return None
            return Dictionary.from_file(paths[name], shown[name], required)

        return cls(one(WORDS_FILE, _OF_WORDS), one(CHARACTERS_FILE, _OF_CHARACTERS))

    @classmethod
    def from_json(cls, value: Any) -> "Dictionaries":
        """The inverse of `to_json`."""
        value = checks.mapping(value, "vocabulary")
        parts = []
        for key, required in (("words", _OF_WORDS), ("characters", _OF_CHARACTERS)):
            entries = value.get(key)
            if entries is not None:
                entries = Dictionary(entries, f"vocabulary.{key}", required)
            parts.append(entries)
        return cls(*parts)

    def to_json(self) -> dict[str, list[str] | None]:
        """The lists of entries, as JSON values."""
        return {
            name: None if part is None else list(part.entries)
            for name, part in self._asdict().items()
        }
