"""Directories that are either whole or absent, and archives of them."""

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
    """What a directory that may be replaced consists of.

    Attributes:
      files: paths within the directory, or patterns of them as `fnmatch` has them.
      required: those of them without which it is something else.
      folders: directories that may be there, even if empty.
    """

    files: tuple[str, ...]
    required: tuple[str, ...]
    folders: tuple[str, ...] = ()

    def allows(self, path: str, is_directory: bool) -> bool:
        """Whether something at `path` within the directory belongs to it."""
        patterns = self.folders if is_directory else self.files
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


# Of this version and all before. TensorFlow 2.11 and older write no fingerprint; graphs that were
# made with Keras have its metadata. None of our models has a file among the `assets`.
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

    Its content is flushed to the disk before the move. If the block fails, `path` keeps what it
    held; see `scratch.replacement`. Missing parents of `path` are made.

    Args:
      path: where the directory shall be.
      overwrite: whether a directory that is already there is replaced, by the whole new one.
      contents: what the replaced directory may hold.

    Raises:
      InputError: see `check_directory_target`; or the disk is full.
    """
    target = check_directory_target(path, overwrite, contents)
    with (
        files.failures_named(path, target),
        scratch.replacement(target, overwrite) as new,
    ):
        os.mkdir(new)
        try:
            yield new
        except InputError as error:  # of a file within, which nobody knows by its hidden name
            message = str(error).replace(new, str(path))
            raise type(error)(message, *error.arguments) from error
        if overwrite:  # something may have been put there meanwhile
            check_directory_target(path, overwrite, contents)


def check_directory_target(path: str | os.PathLike, overwrite: bool, contents: Contents) -> str:
    """Where `write_directory_atomically` will write; called early, it saves the work before it.

    Raises:
      InputError: `path` exists and `overwrite` is False, or it holds anything but `contents`; or
        it can't be made.
    """
    # A link is written through, as an ordinary mkdir or open would do.
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
    """Raises an `InputError` if what is to be replaced holds anything but `contents`.

    Args:
      path: what is to be replaced.
      entries: paths within it, and whether each is a directory. Is not read further than needed.
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
    """What a directory holds, by paths in it; folders that are no part of `contents` unopened.

    Links count as files, whatever they name.
    """
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        name, is_directory = prefix + entry.name, entry.is_dir(follow_symlinks=False)
        yield name, is_directory
        if is_directory and contents.allows(name, True):
            yield from _entries_below(entry.path, contents, f"{name}/")


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


def archive_path(directory: str | os.PathLike) -> str:
    """The archive beside a directory: its path with ".tar.gz"."""
    return os.path.realpath(os.path.expanduser(directory)) + ARCHIVE_ENDING


def check_archive_target(path: str, overwrite: bool, contents: Contents) -> None:
    """Raises an `InputError` if an archive can't, or must not, be written to `path`.

    Args:
      path: of the archive.
      overwrite: whether an archive that is there is replaced.
      contents: what that one may hold.
    """
    files.check_target(path)
    if not os.path.exists(path):
        return
    if not overwrite:
        raise InputError(f"{path}: already exists; overwrite=True replaces it", "overwrite=True")
    _require_only(path, archives.entries_of_tar(path), contents)


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
