"""Whether the files of a text are still those that were counted, without counting them again.

Names and sizes tell most other texts apart, at no cost. Of the same name and size, a file that was
not written to since is the same; only if that can't be said are its contents looked at.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from elmo_tf.errors import InputError
from elmo_tf.text.sentences import SentenceReader
from elmo_tf.text.tokens import make_tokenizer


class TextIdentity(NamedTuple):
    """What identifies the files of a text, as JSON values.

    Attributes:
      files: their names, sizes and order; a text may be moved.
      times: a digest of when each was last written to.
      contents: a digest of all that is in them.
    """

    files: dict[str, Any]
    times: str
    contents: str

    @classmethod
    def of(cls, paths: Sequence[str]) -> "TextIdentity":
        """Reads the files to their end.

        Raises:
          InputError: one can't be read.
        """
        return cls(names_and_sizes(paths), _digest_of_times(paths), _digest_of_contents(paths))

    def found_again(self, paths: Sequence[str]) -> "TextIdentity | None":
        """The identity of `paths` if their text is the same, with their times as they are now.

        The contents are read only if there were writes to files of the same names and sizes.

        Raises:
          InputError: a file can't be read.
        """
        if names_and_sizes(paths) != self.files:
            return None
        times = _digest_of_times(paths)
        if times != self.times and _digest_of_contents(paths) != self.contents:
            return None
        return self._replace(times=times)


def names_and_sizes(paths: Sequence[str]) -> dict[str, Any]:
    """What identifies the files of a text at a glance: their names, sizes and order."""
    described = SentenceReader(paths, make_tokenizer()).state()["run"]
    return {key: value for key, value in described.items() if key not in ("shuffle_buffer", "seed")}


def _digest_of_times(paths: Sequence[str]) -> str:
    try:
        times = [os.stat(path).st_mtime_ns for path in paths]
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return hashlib.blake2b(repr(times).encode(), digest_size=16).hexdigest()


def _digest_of_contents(paths: Sequence[str]) -> str:
    # 1 GB takes about two seconds, counting its tokens some minutes.
    whole = hashlib.blake2b(digest_size=16)
    for path in paths:
        try:
            with open(path, "rb") as file:
                whole.update(hashlib.file_digest(file, "blake2b").digest())
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return whole.hexdigest()
