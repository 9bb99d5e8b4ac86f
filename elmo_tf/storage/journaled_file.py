"""A file whose last commit survives a kill or a power cut at any moment."""

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

from elmo_tf.errors import InputError
from elmo_tf.storage.lock import take_lock
from elmo_tf.storage.scratch import sync_directory
from elmo_tf.storage.unfailing_file import PAGE_BYTES, UnfailingFile


class JournaledFile(UnfailingFile):
    """A file object with commits: after a kill, the file has the content of its last commit.

    Formats such as HDF5 change their tables in place, so a process killed at the wrong moment
    leaves a file that can't be opened. Here, writes past the end of the last commit go to the file
    at once, while changed pages (of `PAGE_BYTES` bytes) below that end stay in memory. `commit`
    writes these pages to a journal beside the file, moves the journal into place atomically, and
    then copies the pages to the file. Opening the file applies the journal again, which is
    idempotent, and truncates the file to the length in the journal. So a kill

        before the journal moves    leaves the previous commit,
        after the journal moves     leaves this commit.

    Journal and file are flushed to disk in that order, so a power cut has the same effect.
    Memory grows only with the pages that change between two commits.

    Args:
      path: the file, created if missing; its journal is `path + ".journal"`. Without a journal
        there was no commit, and the file starts empty.

    Attributes:
      record: the argument of the last commit, or None before the first one.

    Raises:
      InputError: another process has the file open, or the journal is damaged, which a kill can't
        cause.
    """

    def __init__(self, path: str) -> None:
        self.record: Any = None
        self._journal = path + ".journal"
        if not os.path.exists(path):  # a kill in `move_to` can leave a journal without its file
            self._forget_journal()
        super().__init__(path, os.O_RDWR | os.O_CREAT)
        try:
            self._lock()
            self._recover()
        except BaseException:
            self.close()
            raise

    def commit(self, record: Any) -> None:
        """Commits all writes so far and `record`, any JSON value.

        Raises:
          OSError: the disk is full, or was full in an earlier write.
        """
        self.require_whole()
        self._write_journal(record)
        self._apply(self._length, self._pages)
        self.record = record

    def reset(self) -> None:
        """Discards all content and the record."""
        self._forget_journal()
        self.record = None
        self._apply(0, {})

    def move_to(self, target: str) -> None:
        """Moves the file atomically to `target`, as of the last commit, and removes the journal."""
        os.fsync(self._descriptor)
        os.replace(self._path, target)
        sync_directory(target)
        self._forget_journal()

    def close(self) -> None:
        """Closes the file. Uncommitted writes are lost."""
        super().close()

    def _lock(self) -> None:
        try:
            take_lock(self._descriptor)
        except BlockingIOError:
            raise InputError(f"{self._path}: another process is writing it") from None

    def _write_journal(self, record: Any) -> None:
        numbers = sorted(self._pages)
        head = {"length": self._length, "pages": numbers, "record": record}
        new = self._journal + ".new"
        try:
            with open(new, "wb") as file:
                file.write(json.dumps(head).encode("ascii") + b"\n")
                file.writelines(self._pages[number] for number in numbers)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._journal)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise OSError(error.errno, error.strerror, self._journal) from error
        sync_directory(self._journal)

    def _recover(self) -> None:
        length, pages = 0, {}
        with contextlib.suppress(FileNotFoundError), open(self._journal, "rb") as file:
            try:
                head = json.loads(file.readline())
                length, self.record = int(head["length"]), head["record"]
                pages = {int(number): bytearray(file.read(PAGE_BYTES)) for number in head["pages"]}
                if any(number < 0 or len(page) < PAGE_BYTES for number, page in pages.items()):
                    raise ValueError("pages are missing")
            except (ValueError, TypeError, LookupError, OverflowError) as error:
                raise InputError(f"{self._journal}: is damaged: {error}") from error
            if os.fstat(self._descriptor).st_size < length:
                raise InputError(f"{self._path}: is shorter than its journal says ({length} bytes)")
        self._apply(length, pages)

    def _apply(self, length: int, pages: Mapping[int, bytearray]) -> None:
        """Writes the journal's pages to the file and sets its length."""
        for number, page in pages.items():
            self._write_all(memoryview(page), number * PAGE_BYTES)
        os.ftruncate(self._descriptor, length)
        self._length = self._committed = length
        self._pages = {}

    def _forget_journal(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._journal)
