"""A file object whose writes never fail, for libraries that don't survive a failed write."""

import os
import sys

PAGE_BYTES = 512

Buffer = bytes | bytearray | memoryview


class UnfailingFile:
    """A binary file object that notes a failed write and reports it when asked.

    HDF5 can't even close its file after a failed write: h5py turns the error into a SystemError,
    or ends the process with a segmentation fault. Here a write that fails, as on a full disk,
    goes to memory, and so do all writes after it; reading finds them there. The writer looks at
    `failure` from time to time, so that little is kept, and has to call `require_whole` at the end.

    Args:
      path: the file.
      flags: of `os.open`.

    Attributes:
      failure: the first error of writing, or None. It has the path as its `filename`.
    """

    def __init__(self, path: str, flags: int) -> None:
        self.failure: OSError | None = None
        self._path = path
        self._pages: dict[int, bytearray] = {}
        # Pages below this offset are changed in memory only; see `JournaledFile`.
        self._committed = 0
        self._position = self._length = 0
        self._descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)

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
        """Writes at the current offset; never fails."""
        try:
            self.write_at(self._position, content)
        except OSError as error:
            self.failure = _with_path(error, self._path)
            self.write_at(self._position, content)
        self._position += len(content)
        return len(content)

    def write_at(self, offset: int, content: Buffer) -> None:
        """Writes bytes, or a memoryview of bytes, at an offset; may fail."""
        size = len(content)
        for number in _pages_of(offset, min(offset + size, self._boundary)):
            if number not in self._pages:
                self._pages[number] = self._read_stored(number * PAGE_BYTES, PAGE_BYTES)
            here, there = _overlap(number, offset, size)
            self._pages[number][there] = content[here]
        behind = max(offset, self._boundary)
        if behind < offset + size:
            self._write_all(memoryview(content)[behind - offset :], behind)
        self._length = max(self._length, offset + size)

    def truncate(self, size: int) -> int:
        self._length = size  # the file itself follows in `require_whole`
        return size

    def flush(self) -> None:
        """Does nothing; see `require_whole`."""

    def require_whole(self) -> None:
        """Gives the file the length that was written, on the disk.

        Raises:
          OSError: this failed, or an earlier write did.
        """
        if self.failure:
            raise self.failure
        try:
            if self._length > self._committed:
                os.ftruncate(self._descriptor, self._length)
            os.fsync(self._descriptor)
        except OSError as error:
            raise _with_path(error, self._path) from error

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)

    def _write_all(self, content: memoryview, offset: int) -> None:
        try:
            while content:
                count = os.pwrite(self._descriptor, content, offset)
                content, offset = content[count:], offset + count
        except OSError as error:
            raise _with_path(error, self._path) from error

    @property
    def _boundary(self) -> int:
        """Where the pages end that hold a committed byte; after a failure all stay in memory."""
        if self.failure:
            return sys.maxsize
        return -(-self._committed // PAGE_BYTES) * PAGE_BYTES

    def _read_stored(self, offset: int, size: int) -> bytearray:
        """What the file holds, filled up with zeros."""
        content = bytearray(size)
        view, done = memoryview(content), 0
        while count := os.preadv(self._descriptor, [view[done:]], offset + done):
            done += count
        return content


def _pages_of(start: int, end: int) -> range:
    """The pages that hold any of the bytes from `start` up to `end`."""
    return range(start // PAGE_BYTES, -(-end // PAGE_BYTES))


def _overlap(number: int, offset: int, size: int) -> tuple[slice, slice]:
    """Where page `number` and `size` bytes at `offset` meet: within the bytes, within the page."""
    begin = number * PAGE_BYTES
    start, end = max(offset, begin), min(offset + size, begin + PAGE_BYTES)
    return slice(start - offset, end - offset), slice(start - begin, end - begin)


def _with_path(error: OSError, path: str) -> OSError:
    """The same error with the file that it is about, which calls by descriptor leave out."""
    return OSError(error.errno, error.strerror, path)
