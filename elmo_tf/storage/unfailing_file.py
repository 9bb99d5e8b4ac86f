"""A file object whose writes never raise, for libraries that don't survive a failed write."""

import os
import sys

PAGE_BYTES = 512

Buffer = bytes | bytearray | memoryview


class UnfailingFile:
    """A binary file object that records a failed write and reports it on request.

    After a failed write HDF5 can't even close its file: h5py raises a SystemError, or the process
    ends with a segmentation fault. Here, a write that fails, for instance on a full disk, goes to
    memory, and so do all later writes; reads find them there. The caller checks `failure` now and
    then, to keep the memory small, and must call `require_whole` at the end.

    Args:
      path: the file.
      flags: of `os.open`.

    Attributes:
      failure: the first error of a write, with the path as its `filename`, or None.
    """

    def __init__(self, path: str, flags: int) -> None:
        self.failure: OSError | None = None
        self._path = path
        self._pages: dict[int, bytearray] = {}
        # Below this offset, changed pages stay in memory; see `JournaledFile`.
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
        """Reads `size` bytes. Bytes that were never written are zeros, even past the end."""
        start = self._position
        self._position += size
        content = self._read_stored(start, size)
        for number in _pages_of(start, min(start + size, self._boundary)):
            if number in self._pages:
                here, there = _overlap(number, start, size)
                content[here] = self._pages[number][there]
        return bytes(content)

    def write(self, content: Buffer) -> int:
        """Writes at the current offset; never raises."""
        try:
            self.write_at(self._position, content)
        except OSError as error:
            self.failure = _with_path(error, self._path)
            self.write_at(self._position, content)
        self._position += len(content)
        return len(content)

    def write_at(self, offset: int, content: Buffer) -> None:
        """Writes bytes, or a memoryview of bytes, at an offset; may raise an `OSError`."""
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
        self._length = size  # `require_whole` truncates the file
        return size

    def flush(self) -> None:
        """Does nothing; see `require_whole`."""

    def require_whole(self) -> None:
        """Sets the file's length and flushes it to disk.

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
        """End of the pages with committed bytes, in bytes; after a failure, every page is below."""
        if self.failure:
            return sys.maxsize
        return -(-self._committed // PAGE_BYTES) * PAGE_BYTES

    def _read_stored(self, offset: int, size: int) -> bytearray:
        """The file's content, padded with zeros to `size`."""
        content = bytearray(size)
        view, done = memoryview(content), 0
        while count := os.preadv(self._descriptor, [view[done:]], offset + done):
            done += count
        return content


def _pages_of(start: int, end: int) -> range:
    """Numbers of the pages that overlap the bytes [start, end)."""
    return range(start // PAGE_BYTES, -(-end // PAGE_BYTES))


def _overlap(number: int, offset: int, size: int) -> tuple[slice, slice]:
    """The overlap of page `number` and `size` bytes at `offset`: within the bytes, in the page."""
    begin = number * PAGE_BYTES
    start, end = max(offset, begin), min(offset + size, begin + PAGE_BYTES)
    return slice(start - offset, end - offset), slice(start - begin, end - begin)


def _with_path(error: OSError, path: str) -> OSError:
    """The same error with the path, which is missing from errors of calls by descriptor."""
    return OSError(error.errno, error.strerror, path)
