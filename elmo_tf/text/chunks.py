"""A text file in chunks of a bounded size, each line with its number."""

import collections
import hashlib
import itertools
import os
from collections.abc import Iterator
from typing import NamedTuple

from elmo_tf.text import lines
from elmo_tf.text.tokens import Tokenizer

_BYTES_PER_LINE = 16  # added to a line's text, so that blank lines fill a chunk too


class Line(NamedTuple):
    """A line's number, from 0 on, its bytes and its tokens."""

    number: int
    text: bytes
    tokens: list[bytes]


class ChunkedText:
    """The lines of a file, in chunks of consecutive ones.

    Args:
      path: the file, or a pipe.
      tokenizer: from lines to tokens.

    Attributes:
      num_lines: lines read so far.
      offset: number of bytes of the file that hold them.

    Raises:
      InputError: while reading, see `lines.read_lines`.
    """

    def __init__(self, path: str, tokenizer: Tokenizer) -> None:
        self.path = os.path.expanduser(path)
        self._tokenizer = tokenizer
        self.rewind()

    def rewind(self) -> None:
        """Returns to the first line; a pipe can't."""
        self.num_lines = self.offset = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._lines = self._read()

    @property
    def digest(self) -> str:
        """Digest of the lines read so far, without their line ends."""
        return self._digest.hexdigest()

    def skip(self, num_lines: int) -> None:
        """Reads `num_lines` lines, or all that are left, for their digest alone."""
        collections.deque(itertools.islice(self._lines, num_lines), maxlen=0)

    def chunks(self, max_bytes: int) -> Iterator[list[Line]]:
        """Yields the lines left, tokenized; a chunk is full when it has `max_bytes` of text.

        No chunk is empty, and each is read only when it is asked for.
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
