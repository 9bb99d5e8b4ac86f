"""Detects whether the files of a text have changed since they were counted.

File names and sizes distinguish most texts at no cost. A file with the same name and size is
unchanged if its modification time is the same; only otherwise are its contents compared.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from elmo_tf.errors import InputError
from elmo_tf.text.sentences import SentenceReader
from elmo_tf.text.tokens import make_tokenizer


class TextIdentity(NamedTuple):
    """Identity of the files of a text, as JSON values.

    Attributes:
      files: their names without directories, sizes and order.
      times: a digest of their modification times.
      contents: a digest of their contents.
    """

    files: dict[str, Any]
    times: str
    contents: str

    @classmethod
    def of(cls, paths: Sequence[str]) -> "TextIdentity":
        """Reads the files to their end.

        Raises:
          InputError: a file cannot be read.
        """
        return cls(names_and_sizes(paths), _digest_of_times(paths), _digest_of_contents(paths))

    def found_again(self, paths: Sequence[str]) -> "TextIdentity | None":
        """The identity of `paths` with their current times, if their text is the same.

        The contents are read only if names and sizes are equal and a modification time is not.

        Raises:
          InputError: a file cannot be read.
        """
        if names_and_sizes(paths) != self.files:
            return None
        times = _digest_of_times(paths)
        if times != self.times and _digest_of_contents(paths) != self.contents:
            return None
        return self._replace(times=times)


def names_and_sizes(paths: Sequence[str]) -> dict[str, Any]:
    """The names, sizes and order of the files of a text."""
    described = SentenceReader(paths, make_tokenizer()).state()["run"]
    return {key: value for key, value in described.items() if key not in ("shuffle_buffer", "seed")}


def _digest_of_times(paths: Sequence[str]) -> str:
    try:
        times = [os.stat(path).st_mtime_ns for path in paths]
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return hashlib.blake2b(repr(times).encode(), digest_size=16).hexdigest()


def _digest_of_contents(paths: Sequence[str]) -> str:
    # Hashing 1 GB takes about two seconds; counting its tokens takes minutes.
    whole = hashlib.blake2b(digest_size=16)
    for path in paths:
        try:
            with open(path, "rb") as file:
                whole.update(hashlib.file_digest(file, "blake2b").digest())
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return whole.hexdigest()
