"""Directories that are either whole or absent, and archives of them."""

import contextlib
import gzip
import os
import secrets
import shutil
import tarfile
from collections.abc import Callable, Iterator

from elmo_tf.errors import InputError
from elmo_tf.storage import files

ARCHIVE_ENDING = ".tar.gz"


@contextlib.contextmanager
def write_directory_atomically(
    path: str | os.PathLike, overwrite: bool, is_ours: Callable[[str], bool]
) -> Iterator[str]:
    """Yields a new directory to fill; it moves to `path` when the block ends without an error.

    Until then it lies beside `path` under a hidden name that ends in ".tmp". It is on the disk
    before it is moved. When the block fails, it is removed and what `path` held before stays.

    Args:
      path: where the directory shall be.
      overwrite: whether a directory that is already there is replaced, by the whole new one.
      is_ours: given the path of a directory that is there, whether it may be replaced. An empty
        one always may.

    Raises:
      InputError: see `check_directory_target`.
    """
    target = check_directory_target(path, overwrite, is_ours)
    temporary = _hidden_sibling(target)
    try:
        os.mkdir(temporary)
        yield temporary
        _flush_to_disk(temporary)
        _move(temporary, target, overwrite)
    except BaseException:  # an interrupt too must not leave the temporary directory behind
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def check_directory_target(
    path: str | os.PathLike, overwrite: bool, is_ours: Callable[[str], bool]
) -> str:
    """Where `write_directory_atomically` will write; called early, it saves the work before it.

    Raises:
      InputError: `path` exists and `overwrite` is False, or it is nothing that may be replaced; or
        the directory it should lie in does not exist.
    """
    # A link is written through, as an ordinary mkdir or open would do.
    target = os.path.realpath(os.path.expanduser(path))
    parent = os.path.dirname(target)
    if not os.path.isdir(parent):
        raise InputError(f"{path}: the directory {parent} does not exist")
    if not os.path.exists(target):
        return target
    if not os.path.isdir(target):
        raise InputError(f"{path}: is a file, not a directory to write to")
    if not overwrite:
        raise InputError(f"{path}: already exists; overwrite=True replaces it", "overwrite=True")
    if os.listdir(target) and not is_ours(target):
        raise InputError(f"{path}: holds something else than an earlier export; not replaced")
    return target


def is_saved_model(path: str) -> bool:
    """Whether a directory holds a SavedModel: what a new export may replace."""
    return os.path.isfile(os.path.join(path, "saved_model.pb"))


def size_in_words(path: str | os.PathLike) -> str:
    """The size of a file, or of a directory with what is in it: "12.3 MB"."""
    path = os.path.expanduser(path)
    size = os.path.getsize(path)
    if os.path.isdir(path):
        size = sum(
            os.path.getsize(os.path.join(folder, name))
            for folder, _, names in os.walk(path)
            for name in names
        )
    return f"{size / 1e6:,.1f} MB"


def _hidden_sibling(target: str) -> str:
    directory, name = os.path.split(target)
    return os.path.join(directory, f".{name[:100]}.{secrets.token_hex(6)}.tmp")


def _move(temporary: str, target: str, overwrite: bool) -> None:
    """Moves a whole directory to its place; one that is there is removed only afterwards."""
    if not (overwrite and os.path.exists(target)):
        os.rename(temporary, target)  # fails if another process was quicker and filled it
        return
    former = _hidden_sibling(target)
    os.rename(target, former)
    try:
        os.rename(temporary, target)
    except BaseException:
        os.rename(former, target)
        raise
    shutil.rmtree(former, ignore_errors=True)


def _flush_to_disk(directory: str) -> None:
    for folder, _, names in os.walk(directory):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def archive_path(directory: str | os.PathLike) -> str:
    """The archive beside a directory: its path with ".tar.gz"."""
    return os.path.realpath(os.path.expanduser(directory)) + ARCHIVE_ENDING


def check_archive_target(path: str, overwrite: bool) -> None:
    """Raises an `InputError` if an archive can't, or must not, be written to `path`."""
    files.check_target(path)
    if os.path.exists(path) and not overwrite:
        raise InputError(f"{path}: already exists; overwrite=True replaces it", "overwrite=True")


def write_archive(path: str, directory: str) -> None:
    """Packs what is in `directory` as a `.tar.gz`, whole or not at all.

    The content of the directory is at the archive's root, which is where `hub.load` looks for a
    SavedModel. Neither times nor owners are stored, so equal files give equal archives.
    """
    with (
        files.write_atomically(path) as temporary,
        open(temporary, "xb") as raw,
        # Weights hardly shrink, so the quickest level: it packs the graph well enough.
        gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name in _names_below(directory):
            archive.add(os.path.join(directory, name), name, recursive=False, filter=_anonymous)


def _names_below(directory: str) -> list[str]:
    """All files and directories, each directory before what is in it."""
    paths = (
        os.path.join(folder, name)
        for folder, folders, names in os.walk(directory)
        for name in (*folders, *names)
    )
    return sorted(os.path.relpath(path, directory) for path in paths)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() else 0o644
    return member
