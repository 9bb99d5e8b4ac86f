"""Reads a text file in chunks of bounded size, with line numbers."""

import collections
import hashlib
import itertools
import os
from collections.abc import Iterator
from typing import NamedTuple

from elmo_tf.text import lines
from elmo_tf.text.tokens import Tokenizer

_BYTES_PER_LINE = 16  # added to the size of each line, so that blank lines count too


class Line(NamedTuple):
    """A line: its 0-based number, its bytes and its tokens."""

    number: int
    text: bytes
    tokens: list[bytes]


class ChunkedText:
    """The lines of a file, in chunks of consecutive lines.

    Args:
      path: the file, or a pipe.
      tokenizer: maps lines to lists of tokens.

    Attributes:
      num_lines: lines read so far.
      offset: bytes read so far.

    Raises:
      InputError: while reading, as for `lines.read_lines`.
    """

    def __init__(self, path: str, tokenizer: Tokenizer) -> None:
        self.path = os.path.expanduser(path)
        self._tokenizer = tokenizer
        self.rewind()

    def rewind(self) -> None:
        """Returns to the first line. Not possible for a pipe."""
        self.num_lines = self.offset = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._lines = self._read()

    @property
    def digest(self) -> str:
        """Digest of the lines read so far, independent of the kind of line ends."""
        return self._digest.hexdigest()

    def skip(self, num_lines: int) -> None:
        """Skips `num_lines` lines, or the rest; they count in the digest."""
        collections.deque(itertools.islice(self._lines, num_lines), maxlen=0)

    def chunks(self, max_bytes: int) -> Iterator[list[Line]]:
        """Yields the remaining lines, tokenized, in chunks of at least `max_bytes` but the last.

        No chunk is empty, and each is read on demand.
        """
        chunk, size = [], 0
        for line in self._lines:
            chunk.append(line)
            size += len(line) + _BYTES_PER_LINE
            if size >= max_bytes:
                yield self._tokenized(chunk)
                chunk, size = [], 0
        if chunk:
            yield self._tokenized(chunk)

    def _tokenized(self, chunk: list[bytes]) -> list[Line]:
        numbers = itertools.count(self.num_lines - len(chunk))
        return list(map(Line, numbers, chunk, self._tokenizer(chunk)))

    def _read(self) -> Iterator[bytes]:
        for number, line, offset in lines.read_lines_from(self.path):
            self.num_lines, self.offset = number, offset
            self._digest.update(line)
            self._digest.update(b"\n")
            yield line
