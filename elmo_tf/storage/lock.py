"""Locks of the operating system on open files and directories.

The system releases a lock when its process ends for any reason, so locks are never stale.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from types import ModuleType
from typing import TextIO

from elmo_tf.errors import InputError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not a POSIX system: no locking
    fcntl = None

LOCK = "lock"


def take_lock(descriptor: int) -> bool:
    """Locks an open file or directory for this process, without waiting.

    Returns:
      Whether it is locked; False if the operating system or the file system has no such locks.

    Raises:
      BlockingIOError: another process has the lock.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


@contextlib.contextmanager
def run_lock(directory: str) -> Iterator[None]:
    """Creates a run's directory if it is missing, and locks it against other processes.

    The file `lock` remains and names its last holder. If the block fails and has added nothing,
    the file is removed if it is new, and so is the directory.

    Raises:
      InputError: another process has the lock, or `directory` is not a directory.
    """
    is_new = not os.path.exists(directory)
    try:
        os.makedirs(directory, exist_ok=True)
    except FileExistsError as error:
        raise InputError(f"{directory}: is not a directory") from error
    path = os.path.join(directory, LOCK)
    names_before = set(os.listdir(directory))
    with _open_locked(path, directory) as file:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        is_done = False
        try:
            yield
            is_done = True
        finally:
            is_unused = set(os.listdir(directory)) == {*names_before, LOCK}
            if is_unused and LOCK not in names_before and (is_new or not is_done):
                os.unlink(path)
                if is_new:
                    os.rmdir(directory)


@contextlib.contextmanager
def _open_locked(path: str, directory: str) -> Iterator[TextIO]:
    while True:
        with open(path, "a+", encoding="utf-8", errors="replace") as file:
            try:
                take_lock(file.fileno())
            except BlockingIOError as error:
                file.seek(0)
                holder = file.readline(200).strip() or "another process"
                raise InputError(f"{directory}: is in use: {holder} trains in it") from error
            if is_still_at(path, file.fileno()):
                yield file
                return


def is_still_at(path: str, descriptor: int) -> bool:
    """Whether `path` is still the open file; another process may have removed it meanwhile."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
