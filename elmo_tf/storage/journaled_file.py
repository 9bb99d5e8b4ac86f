"""A file that can be killed at any moment and continues at its last commit."""

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
        self._journal = path + ".journal"
        if not os.path.exists(path):  # a journal without its file is left over from `move_to`
            self._forget_journal()
        super().__init__(path, os.O_RDWR | os.O_CREAT)
        try:
            self._lock()
            self._recover()
        except BaseException:
            self.close()
            raise

    def commit(self, record: Any) -> None:
        """Makes what was written so far last, together with `record`, any value of JSON.

        Raises:
          OSError: the disk is full, or was full in an earlier write.
        """
        self.require_whole()
        self._write_journal(record)
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
        """Brings the file itself to the state that the journal on the disk describes."""
        for number, page in pages.items():
            self._write_all(memoryview(page), number * PAGE_BYTES)
        os.ftruncate(self._descriptor, length)
        self._length = self._committed = length
        self._pages = {}

    def _forget_journal(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._journal)
