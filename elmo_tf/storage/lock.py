"""One process at a time trains in a directory."""

import contextlib
import os
import socket
from collections.abc import Iterator

from elmo_tf.errors import InputError

try:
    import fcntl
except ImportError:  # not a POSIX system: nobody is kept out
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"


@contextlib.contextmanager
def run_lock(directory: str) -> Iterator[None]:
    """Makes the directory of a run if there is none, and keeps other processes out of it.

    The lock is the operating system's and ends with the process, however that ends. The file
    `lock` stays; it says who had it last. A file system that knows no locks is taken as it is.

    Raises:
      InputError: another process has the lock, or `directory` is not a directory.
    """
    is_new = not os.path.exists(directory)
    try:
        os.makedirs(directory, exist_ok=True)
    except FileExistsError as error:
        raise InputError(f"{directory}: is not a directory") from error
    path = os.path.join(directory, LOCK)
    with open(path, "a+", encoding="utf-8") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise InputError(
                f"{directory}: is in use: {file.read().strip() or 'another process'} trains in it"
            ) from error
        except OSError:
            pass
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        try:
            yield
        finally:
            if is_new and os.listdir(directory) == [LOCK]:  # no run was begun
                os.unlink(path)
                os.rmdir(directory)
