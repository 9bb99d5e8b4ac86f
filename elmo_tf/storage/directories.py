"""Atomically written directories, and archives of them."""

import contextlib
import fnmatch
import gzip
import os
import tarfile
from collections.abc import Iterator
from typing import NamedTuple

from elmo_tf.errors import InputError, printable
from elmo_tf.storage import archives, files, scratch

ARCHIVE_ENDING = ".tar.gz"
_MOST_SHOWN = 5


class Contents(NamedTuple):
    """The contents of a directory that may be replaced.

    Attributes:
      files: allowed files, as paths or `fnmatch` patterns within the directory.
      required: files without which the directory is not an export.
      folders: allowed subdirectories, even if empty.
    """

    files: tuple[str, ...]
    required: tuple[str, ...]
    folders: tuple[str, ...] = ()

    def allows(self, path: str, is_directory: bool) -> bool:
        """Whether a file or subdirectory at `path`, relative to the directory, is allowed."""
        patterns = self.folders if is_directory else self.files
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


# The files of this and all earlier versions. TensorFlow 2.11 and older write no fingerprint, and
# graphs made by Keras have its metadata. None of our models has files in `assets`.
SAVED_MODEL = Contents(
    files=(
        "saved_model.pb",
        "fingerprint.pb",
        "keras_metadata.pb",
        "variables/variables.index",
        "variables/variables.data-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]",
        "assets.extra/options.json",
        "assets.extra/README.md",
        "assets.extra/text.json",
        "assets.extra/vocab.txt",
        "assets.extra/word.dic",
        "assets.extra/char.dic",
        "assets.extra/tf_serving_warmup_requests",
    ),
    required=("saved_model.pb",),
    folders=("variables", "assets", "assets.extra"),
)


@contextlib.contextmanager
def write_directory_atomically(
    path: str | os.PathLike, overwrite: bool, contents: Contents
) -> Iterator[str]:
    """Yields a new directory to fill; it moves to `path` when the block ends without an error.

    The content is flushed to disk before the move. If the block fails, `path` is unchanged; see
    `scratch.replacement`. Missing parents of `path` are created.

    Args:
      path: the final path.
      overwrite: whether to replace an existing directory. Nothing of it remains.
      contents: what the replaced directory may hold.

    Raises:
      InputError: as for `check_directory_target`, or the disk is full.
    """
    target = check_directory_target(path, overwrite, contents)
    with (
        files.failures_named(path, target),
        scratch.replacement(target, overwrite) as new,
    ):
        os.mkdir(new)
        try:
            yield new
        except InputError as error:  # the user knows the final path, not the temporary one
            message = str(error).replace(new, str(path))
            raise type(error)(message, *error.arguments) from error
        if overwrite:  # the old directory may have changed meanwhile
            check_directory_target(path, overwrite, contents)


def check_directory_target(path: str | os.PathLike, overwrite: bool, contents: Contents) -> str:
    """The absolute path that `write_directory_atomically` will write.

    Call it before long work, so that a bad path fails early.

    Raises:
      InputError: `path` exists and `overwrite` is False, it holds anything but `contents`, or it
        can't be created.
    """
    # Follow a link and write to its target, as `open` does.
    target = os.path.realpath(os.path.expanduser(path))
    files.check_parents(path, target)
    if not os.path.exists(target):
        return target
    if not os.path.isdir(target):
        raise InputError(f"{path}: is a file, not a directory to write to")
    if not overwrite:
        raise InputError(f"{path}: already exists; overwrite=True replaces it", "overwrite=True")
    _require_only(path, _entries_below(target, contents), contents)
    return target


def _require_only(
    path: str | os.PathLike, entries: Iterator[tuple[str, bool]], contents: Contents
) -> None:
    """Raises an `InputError` if the directory or archive to replace holds more than `contents`.

    Args:
      path: the directory or archive to replace.
      entries: yields each path within it and whether that is a directory. Reading stops early.
      contents: what it may hold.
    """
    names: set[str] = set()
    others: list[str] = []
    for name, is_directory in entries:
        names.add(name)
        is_named = any(name.startswith(f"{folder}/") for folder in others)
        if not is_named and not contents.allows(name, is_directory):
            others.append(name)
        if len(others) > _MOST_SHOWN:
            break
    if others:
        shown = ", ".join(map(printable, others[:_MOST_SHOWN]))
        more = " and more" if len(others) > _MOST_SHOWN else ""
        raise InputError(
            f"{path}: not replaced: it holds {shown}{more}, which is no part of an export"
        )
    missing = [name for name in contents.required if name not in names]
    if names and missing:
        raise InputError(f"{path}: not replaced: it is no export, as it has no {missing[0]}")


def _entries_below(
    directory: str, contents: Contents, prefix: str = ""
) -> Iterator[tuple[str, bool]]:
    """Yields each path below a directory and whether it is a directory.

    Does not descend into folders that `contents` does not allow. Links count as files.
    """
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        name, is_directory = prefix + entry.name, entry.is_dir(follow_symlinks=False)
        yield name, is_directory
        if is_directory and contents.allows(name, True):
            yield from _entries_below(entry.path, contents, f"{name}/")


def size_in_words(path: str | os.PathLike) -> str:
    """The size of a file, or of a directory and all files in it, such as "12.3 MB"."""
    path = os.path.expanduser(path)
    size = os.path.getsize(path)
    if os.path.isdir(path):
        size = sum(
            os.path.getsize(os.path.join(folder, name))
            for folder, _, names in os.walk(path)
            for name in names
        )
    return f"{size / 1e6:,.1f} MB"


def archive_path(directory: str | os.PathLike) -> str:
    """The path of a directory's archive: the directory's path and ".tar.gz"."""
    return os.path.realpath(os.path.expanduser(directory)) + ARCHIVE_ENDING


def check_archive_target(path: str, overwrite: bool, contents: Contents) -> None:
    """Raises an `InputError` if an archive can't, or must not, be written to `path`.

    Args:
      path: of the archive.
      overwrite: whether to replace an existing archive.
      contents: what the replaced archive may hold.
    """
    files.check_target(path)
    if not os.path.exists(path):
        return
    if not overwrite:
        raise InputError(f"{path}: already exists; overwrite=True replaces it", "overwrite=True")
    _require_only(path, archives.entries_of_tar(path), contents)


def write_archive(path: str, directory: str) -> None:
    """Writes the content of `directory` to a `.tar.gz`, atomically.

    The content is at the archive's root, where `hub.load` looks for a SavedModel. Times and owners
    are not stored, so equal files give equal archives.
    """
    with (
        files.write_atomically(path) as temporary,
        open(temporary, "xb") as raw,
        # The fastest level: weights barely compress, and it compresses the graph well enough.
        gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name in _names_below(directory):
            archive.add(os.path.join(directory, name), name, recursive=False, filter=_anonymous)


def _names_below(directory: str) -> list[str]:
    """Relative paths of all files and directories, each directory before its content."""
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
