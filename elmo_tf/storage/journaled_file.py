"""A file that can be killed at any moment and continues at its last commit."""

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from elmo_tf.errors import InputError

PAGE_BYTES = 512

Buffer = bytes | bytearray | memoryview


class JournaledFile:
    """A file object that others write to as they like, and that stands as of its last commit.

    Formats such as HDF5 change their tables in place, so that a process killed at the wrong moment
    leaves a file that can't be opened. Here, what is written past the end of the last commit goes
    to the file at once, but pages (`PAGE_BYTES` each) below that end are kept in memory. `commit`
    writes them to a journal beside the file, moves the journal into place in one step, and only
    then copies them to the file. Whoever opens the file next copies them once more, which does no
    harm, and cuts off what is behind the end that the journal names. So a process that was killed

        before the journal moved    leaves the file as of the commit before,
        after it moved              leaves the file as of this commit.

    Journal and file are on the disk before they count: a power cut is no worse than a kill.
    Memory grows with the pages that change between two commits, and with nothing else.

    Args:
      path: the file, made if there is none; its journal is `path + ".journal"`. Without a journal
        nothing was ever committed, and the file starts empty.

    Attributes:
      record: what the last commit was given, or None before the first one.

    Raises:
      InputError: another process has the file open, or the journal is damaged (no kill does that).
    """

    def __init__(self, path: str) -> None:
        self.record: Any = None
        self._path = path
        self._journal = path + ".journal"
        self._pages: dict[int, bytearray] = {}
        self._failure: OSError | None = None
        self._position = self._length = self._committed = 0
        if not os.path.exists(path):  # a journal without its file is left over from `move_to`
            self._forget_journal()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self._lock()
            self._recover()
        except BaseException:
            self.close()
            raise

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._length}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        """Reads `size` bytes; what was never written is zeros, past the end too."""
        start = self._position
        self._position += size
        content = self._read_stored(start, size)
        for number in _pages_of(start, min(start + size, self._boundary)):
            if number in self._pages:
                here, there = _overlap(number, start, size)
                content[here] = self._pages[number][there]
        return bytes(content)

    def write(self, content: Buffer) -> int:
        """Writes on; never fails. A full disk is reported by the next commit.

        A library cannot be expected to survive a failed write: HDF5, for one, can then not even
        close its file, and h5py turns the error into a SystemError.
        """
        try:
            self.write_at(self._position, content)
        except OSError as error:
            self._failure = error
            self.write_at(self._position, content)
        self._position += len(content)
        return len(content)

    def write_at(self, offset: int, content: Buffer) -> None:
        """Writes bytes, or a memoryview of bytes, at a place of their own; may fail."""
        size = len(content)
        for number in _pages_of(offset, min(offset + size, self._boundary)):
            if number not in self._pages:
                self._pages[number] = self._read_stored(number * PAGE_BYTES, PAGE_BYTES)
            here, there = _overlap(number, offset, size)
            self._pages[number][there] = content[here]
        behind = max(offset, self._boundary)
        if behind < offset + size:
            _write_all(self._descriptor, memoryview(content)[behind - offset :], behind)
        self._length = max(self._length, offset + size)

    def truncate(self, size: int) -> int:
        self._length = size  # the file itself follows at the commit
        return size

    def flush(self) -> None:
        """Does nothing: only a commit counts."""

    def commit(self, record: Any) -> None:
        """Makes what was written so far last, together with `record`, any value of JSON.

        Raises:
          OSError: the disk is full, or was full in an earlier write.
        """
        if self._failure:
            raise self._failure
        if self._length > self._committed:
            os.ftruncate(self._descriptor, self._length)
        os.fsync(self._descriptor)
        numbers = sorted(self._pages)
        head = {"length": self._length, "pages": numbers, "record": record}
        with open(self._journal + ".new", "wb") as file:
            file.write(json.dumps(head).encode("ascii") + b"\n")
            file.writelines(self._pages[number] for number in numbers)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._journal + ".new", self._journal)
        sync_directory(self._journal)
        self._apply(self._length, self._pages)
        self.record = record

    def reset(self) -> None:
        """Throws all content and the record away."""
        self._forget_journal()
        self.record = None
        self._apply(0, {})

    def move_to(self, target: str) -> None:
        """Moves the file as of the last commit to `target`, in one step, and drops the journal."""
        os.fsync(self._descriptor)
        os.replace(self._path, target)
        sync_directory(target)
        self._forget_journal()

    def close(self) -> None:
        """Closes the file; whatever was not committed is gone when it is opened again."""
        os.close(self._descriptor)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{self._path}: another process is writing it") from None

    def _recover(self) -> None:
        length, pages = 0, {}
        with contextlib.suppress(FileNotFoundError), open(self._journal, "rb") as file:
            try:
                head = json.loads(file.readline())
                length, self.record = head["length"], head["record"]
                pages = {number: bytearray(file.read(PAGE_BYTES)) for number in head["pages"]}
            except (ValueError, TypeError, LookupError) as error:
                raise InputError(f"{self._journal}: is damaged: {error}") from error
            if os.fstat(self._descriptor).st_size < length:
                raise InputError(f"{self._path}: is shorter than its journal says ({length} bytes)")
        self._apply(length, pages)

    def _apply(self, length: int, pages: Mapping[int, bytearray]) -> None:
        """Brings the file itself to the state that the journal on the disk describes."""
        for number, page in pages.items():
            _write_all(self._descriptor, memoryview(page), number * PAGE_BYTES)
        os.ftruncate(self._descriptor, length)
        self._length = self._committed = length
        self._pages = {}

    @property
    def _boundary(self) -> int:
        """Where the pages end that hold a committed byte; after a failure all stay in memory."""
        if self._failure:
            return sys.maxsize
        return -(-self._committed // PAGE_BYTES) * PAGE_BYTES

    def _forget_journal(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._journal)

    def _read_stored(self, offset: int, size: int) -> bytearray:
        """What the file holds, filled up with zeros."""
        content = bytearray(size)
        view, done = memoryview(content), 0
        while count := os.preadv(self._descriptor, [view[done:]], offset + done):
            done += count
        return content


def sync_directory(path: str) -> None:
    """Makes a move to `path` last: a file's name is content of its directory."""
    descriptor = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pages_of(start: int, end: int) -> range:
    """The pages that hold any of the bytes from `start` up to `end`."""
    return range(start // PAGE_BYTES, -(-end // PAGE_BYTES))


def _overlap(number: int, offset: int, size: int) -> tuple[slice, slice]:
    """Where page `number` and `size` bytes at `offset` meet: within the bytes, within the page."""
    begin = number * PAGE_BYTES
    start, end = max(offset, begin), min(offset + size, begin + PAGE_BYTES)
    return slice(start - offset, end - offset), slice(start - begin, end - begin)


def _write_all(descriptor: int, content: memoryview, offset: int) -> None:
    while content:
        count = os.pwrite(descriptor, content, offset)
        content, offset = content[count:], offset + count
