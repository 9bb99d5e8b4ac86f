"""Hidden directories in which files and directories are written before they move into place."""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator

from elmo_tf.storage.lock import is_still_at, take_lock

_FORMER = "former"
_NEW = "new"
# In characters of up to four bytes; file systems allow names of 255 bytes.
_LONGEST_NAME = 50
_HAS_DIRECTORY_LOCKS = hasattr(os, "O_DIRECTORY")  # POSIX; Windows can't open directories


@contextlib.contextmanager
def replacement(target: str, replaces_directory: bool = True) -> Iterator[str]:
    """Yields a path for a new file or directory; it moves to `target` if the block succeeds.

    The path is in a hidden directory beside the target, since a move is atomic only within one
    file system. That directory is removed at the end, whether the block succeeds, fails or is
    interrupted by a signal. After SIGKILL or a power cut it remains, and the next call with the
    same target removes it. A lock, which ends with its process, marks a hidden directory in use.

    One directory can't replace another atomically: the old one first moves into the hidden
    directory. If the process ends between the two moves, it moves back, either in this process or
    in the next call.

    Args:
      target: an absolute path. Missing parents are created, and removed again if the block fails.
      replaces_directory: whether a directory replaces an existing one. A file always replaces
        a file.

    Raises:
      OSError: the block created nothing at the path, or the move failed.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_parents(target))
        remove_leftovers(target)
        is_held = False
        try:
            while not is_held:
                folder = _unused_path(target)
                os.mkdir(folder)
                is_held = _hold(folder, stack)
            new = os.path.join(folder, _NEW)
            yield new
            _flush_to_disk(new)
            if replaces_directory and os.path.isdir(new) and os.path.lexists(target):
                os.rename(target, os.path.join(folder, _FORMER))
            os.replace(new, target)
            sync_directory(target)
        finally:
            _remove(folder, target)


def remove_leftovers(target: str) -> None:
    """Removes hidden directories beside `target` that killed processes of this machine left."""
    if not _HAS_DIRECTORY_LOCKS:
        return
    directory, name = os.path.split(target)
    pattern = re.compile(re.escape(_prefix(name)) + r"[0-9a-f]{12}\.tmp")
    with contextlib.suppress(OSError):
        for entry in sorted(os.listdir(directory)):
            if pattern.fullmatch(entry):
                _remove_if_unused(os.path.join(directory, entry), target)


def _remove_if_unused(folder: str, target: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            is_ours = os.fstat(descriptor).st_uid == os.geteuid()
            if is_ours and take_lock(descriptor) and is_still_at(folder, descriptor):
                _remove(folder, target)
        finally:
            os.close(descriptor)


def _remove(folder: str, target: str) -> None:
    """Removes a hidden directory. If nothing replaced the old directory, moves that back first."""
    former = os.path.join(folder, _FORMER)
    if os.path.lexists(former) and not os.path.lexists(target):
        os.rename(former, target)
    shutil.rmtree(folder, ignore_errors=True)


def _hold(folder: str, stack: contextlib.ExitStack) -> bool:
    """Locks a new hidden directory until `stack` exits.

    Returns False if another process took the directory for a leftover and removed it.
    """
    if not _HAS_DIRECTORY_LOCKS:
        return True
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        take_lock(descriptor)
    except (FileNotFoundError, BlockingIOError):
        return False
    return is_still_at(folder, descriptor)


def _unused_path(target: str) -> str:
    directory, name = os.path.split(target)
    return os.path.join(directory, f"{_prefix(name)}{secrets.token_hex(6)}.tmp")


def _prefix(name: str) -> str:
    """The prefix of hidden names for one target on this machine.

    It includes the host: on a network file system, locks may be invisible to other machines, so a
    machine removes only its own leftovers.
    """
    owner = f"{socket.gethostname()}/{name}"
    digest = hashlib.blake2b(os.fsencode(owner), digest_size=4).hexdigest()
    return f".{name[:_LONGEST_NAME]}.{digest}."


@contextlib.contextmanager
def _parents(target: str) -> Iterator[None]:
    """Creates missing parents of `target`, and removes them again if the block fails."""
    missing, made = [], []
    parent = os.path.dirname(target)
    while not os.path.isdir(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    try:
        for path in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another process created it
                os.mkdir(path)
                made.append(path)
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # another process has put something there
            for path in reversed(made):
                os.rmdir(path)
        raise


def belongs_to(path: str, target: str) -> bool:
    """Whether `path` is in a hidden directory for `target`, or is `target` or a parent of it."""
    directory, name = os.path.split(target)
    is_hidden = path.startswith(os.path.join(directory, _prefix(name)))
    return is_hidden or f"{target}/".startswith(f"{path}/")


def _flush_to_disk(path: str) -> None:
    """Flushes a file, or a directory and all files in it, to disk."""
    if not os.path.isdir(path):
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
        return
    for folder, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                os.fsync(file.fileno())
        _sync(folder)


def sync_directory(path: str) -> None:
    """Flushes the directory of `path`, so that a move to `path` survives a power cut."""
    _sync(os.path.dirname(os.path.abspath(path)))


def _sync(directory: str) -> None:
    if not _HAS_DIRECTORY_LOCKS:
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
