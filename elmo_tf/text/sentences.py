"""Reads sentences from files in one or more passes, resumable at any sentence.

A sentence is a line. Lines are read in blocks: each block is tokenized as a whole, since tokenizers
are slow on single lines, and then shuffled if requested. A position consists of the block's start
and the number of sentences taken from it, so it is small for any corpus and any shuffle buffer.
Restoring it reads one block again. Memory depends on the size of a block, not on that of a file.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.config import checks
from elmo_tf.errors import InputError, counted
from elmo_tf.text import lines

Tokenizer = Callable[[Sequence[bytes]], list[list[bytes]]]

# Limits of the lines tokenized together. The second is for corpora with one document per line.
_CHUNK_LINES = 1024
_CHUNK_BYTES = 1 << 20


class _BlockStart(NamedTuple):
    """The start of a block.

    Attributes:
      pass_number: completed passes over the corpus.
      shard: index in this pass's order of the files.
      offset: bytes before the block in that file.
      line_number: lines before the block in that file.
      num_sentences: sentences before the block in this pass.
    """

    pass_number: int = 0
    shard: int = 0
    offset: int = 0
    line_number: int = 0
    num_sentences: int = 0


class SentenceReader(Iterator[list[bytes]]):
    """Iterates over the sentences of some files, each a list of tokens; see the module.

    Blank lines and empty files are skipped. The reader does not treat the tokens `<S>` and `</S>`
    in a text specially; the model reads them as boundaries.

    Args:
      files: the shards of the corpus, UTF-8 text with one sentence per line.
      tokenizer: maps a batch of lines to lists of tokens; see `tokens.make_tokenizer`.
      shuffle_buffer: number of sentences to shuffle together, which are in memory. Above 0, each
        pass also reads the files in a new random order. 0 does not shuffle.
      seed: together with the number of the pass, determines these orders.
      passes: number of passes over the corpus; None for no end.

    Raises:
      InputError: there are no files, a file is not regular, has changed, or is not UTF-8; or an
        endless reader finds no sentence in a whole pass.
    """

    def __init__(
        self,
        files: Sequence[str],
        tokenizer: Tokenizer,
        shuffle_buffer: int = 0,
        seed: int = 0,
        passes: int | None = None,
    ) -> None:
        if not files:
            raise InputError("no files to read sentences from")
        self._files = [os.path.expanduser(path) for path in files]
        self._sizes = [_size_of(path) for path in self._files]
        self._tokenizer = tokenizer
        self._shuffle_buffer = checks.integer(0)(shuffle_buffer, "shuffle_buffer")
        self._seed = seed
        self._num_passes = None if passes is None else checks.integer(1)(passes, "passes")
        self._identity = self._describe_run()
        self._begin = self._end = _BlockStart()  # of the current block
        self._block: list[list[bytes]] = []
        self._num_taken = 0

    def __iter__(self) -> "SentenceReader":
        return self

    def __next__(self) -> list[bytes]:
        while self._num_taken == len(self._block):
            if self._end.pass_number == self._num_passes:
                raise StopIteration
            self._load_block(self._end)
        self._num_taken += 1
        return self._block[self._num_taken - 1]

    def state(self) -> dict:
        """The position as JSON values, for `restore`."""
        return {**self._begin._asdict(), "num_taken": self._num_taken, "run": self._identity}

    def restore(self, state: dict) -> None:
        """Returns to a position. The following sentences are the same as those after `state`.

        Raises:
          InputError: the reader's files or settings differ from those of `state`.
        """
        for key, saved in state["run"].items():
            if saved != self._identity[key]:
                raise InputError(
                    f"{key} changed since the position in the data was saved: "
                    f"was {saved}, is {self._identity[key]}"
                )
        begin = _BlockStart(**{key: state[key] for key in _BlockStart._fields})
        path = self._files[self._order(begin.pass_number)[begin.shard]]
        if _begins_a_line(path, begin.offset):
            self._load_block(begin)
            self._num_taken = state["num_taken"]
            if self._num_taken <= len(self._block):
                return
        raise InputError(f"{path} changed since the position in the data was saved")

    def _describe_run(self) -> dict:
        """The settings that must not change for a position to be valid, by names for errors.

        Files are compared by base name, order and size, so a corpus may be moved but not edited.
        """
        names = [os.path.basename(path) for path in self._files]
        digest = hashlib.sha256(repr(list(zip(names, self._sizes, strict=True))).encode())
        return {
            "shuffle_buffer": self._shuffle_buffer,
            "seed": self._seed,
            "number of text files": len(self._files),
            "size of the text files in bytes": sum(self._sizes),
            "names and sizes of the text files (SHA-256)": digest.hexdigest(),
        }

    def _load_block(self, begin: _BlockStart) -> None:
        wanted = self._shuffle_buffer or _CHUNK_LINES
        block: list[list[bytes]] = []
        end = begin
        with contextlib.closing(self._lines_from(begin)) as unread:
            while len(block) < wanted:
                chunk, end = _take_chunk(unread, end, wanted - len(block))
                if not chunk:
                    end = _BlockStart(begin.pass_number + 1)
                    break
                block.extend(tokens for tokens in self._tokenizer(chunk) if tokens)
                if not self._shuffle_buffer:
                    break
        num_sentences = begin.num_sentences + len(block)
        if end.pass_number == begin.pass_number:
            end = end._replace(num_sentences=num_sentences)
        elif num_sentences == 0 and self._num_passes is None:
            raise InputError(f"no sentence in {_list_shortly(self._files)}")
        if self._shuffle_buffer:
            key = (begin.pass_number, begin.shard, begin.line_number)
            block = [block[i] for i in self._permutation(len(block), *key)]
        self._begin, self._end = begin, end
        self._block, self._num_taken = block, 0

    def _lines_from(
        self, position: _BlockStart
    ) -> Generator[tuple[bytes, _BlockStart], None, None]:
        """Yields the non-blank lines up to the pass's end, each with the position after it."""
        order = self._order(position.pass_number)
        for shard in range(position.shard, len(order)):
            if shard != position.shard:
                position = position._replace(shard=shard, offset=0, line_number=0)
            path = self._files[order[shard]]
            if _size_of(path) != self._sizes[order[shard]]:
                raise InputError(f"{path} changed its size while it was in use")
            for number, line, offset in lines.read_lines_from(
                path, position.offset, position.line_number
            ):
                if line.strip():
                    lines.check_utf8(line, path, number)
                    yield line, position._replace(offset=offset, line_number=number)

    def _order(self, pass_number: int) -> Sequence[int]:
        """The order of the files in a pass."""
        if not self._shuffle_buffer:
            return range(len(self._files))
        return self._permutation(len(self._files), pass_number)

    def _permutation(self, length: int, *key: int) -> list[int]:
        # NumPy guarantees that the numbers of RandomState never change, so a run can be resumed
        # with another release. Its seed consists of 32-bit words.
        words = [half for part in (self._seed, *key) for half in (part >> 32, part)]
        generator = np.random.RandomState([word % (1 << 32) for word in words])
        return generator.permutation(length).tolist()


def _take_chunk(
    unread: Iterator[tuple[bytes, _BlockStart]], position: _BlockStart, max_lines: int
) -> tuple[list[bytes], _BlockStart]:
    """Lines to tokenize together, none at the end of the pass, and the position after them."""
    chunk: list[bytes] = []
    num_bytes = 0
    for line, position in unread:  # noqa: B007, the last one is returned
        chunk.append(line)
        num_bytes += len(line)
        if len(chunk) == min(max_lines, _CHUNK_LINES) or num_bytes >= _CHUNK_BYTES:
            break
    return chunk, position


def _size_of(path: str) -> int:
    """The size in bytes; an `InputError` if the file can't be read twice, such as a pipe."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} is not a regular file")
    return status.st_size


def _begins_a_line(path: str, offset: int) -> bool:
    if offset == 0:
        return True
    with open(path, "rb") as file:
        file.seek(offset - 1)
        around = file.read(2)
    # A single byte means that the offset is the end of the file, whose last line may lack "\n".
    return len(around) == 1 or around[:1] == b"\n"


def _list_shortly(files: Sequence[str]) -> str:
    return (
        files[0] if len(files) == 1 else f"{files[0]} and {counted(len(files) - 1, 'other file')}"
    )
