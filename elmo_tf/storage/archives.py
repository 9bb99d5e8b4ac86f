"""Reads models from zip and tar archives, with errors that a user can act on.

Archives are untrusted input: names that lead out of the target directory and links are rejected,
the caller limits the size of each file, and a tar may expand only up to a multiple of its own size.
Names inside an archive never become paths.
"""

import contextlib
import gzip
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Protocol

from elmo_tf.errors import InputError, printable
from elmo_tf.storage import archive_kinds

_PIECE = 1 << 20
_TAR_NAMES = (".tar", ".tar.gz", ".tgz", ".tar.bz2")


class Archive(Protocol):
    """A zip or tar.

    Attributes:
      path: of the archive.
      sizes: uncompressed size in bytes of each file, by its path inside the archive. Paths use "/"
        and have no leading "./".
    """

    path: str
    sizes: dict[str, int]

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yields the content of a file, at most the size in `sizes`.

        Raises:
          InputError: the archive is damaged.
        """


def open_archive(path: str) -> Archive | None:
    """Opens an archive, recognized by its content or its name; None for any other file.

    Raises:
      InputError: it is damaged, or has entries that no model needs, such as links.
    """
    lower_name = path.lower()
    try:
        if archive_kinds.is_zip(path) or lower_name.endswith(".zip"):
            return archive_kinds.Zip(path)
        if archive_kinds.may_be_tar(path) or lower_name.endswith(_TAR_NAMES):
            return archive_kinds.Tar(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return None


def _unpack(archive: Archive, name: str, path: str, largest: int) -> None:
    source = f"{archive.path}/{printable(name)}"
    size = archive.sizes[name]
    if size > largest:
        raise InputError(
            f"{source}: has {size:,} bytes, and a file that fits the options at most {largest:,}; "
            "not unpacked"
        )
    with _room_named(source, size):
        file = _create(path)
    with file:
        for piece in archive.pieces(name):
            with _room_named(source, size):
                file.write(piece)
        with _room_named(source, size):
            file.flush()


def _create(path: str) -> IO[bytes]:
    return open(path, "wb")


@contextlib.contextmanager
def unpacked(archive: Archive, name: str, largest: int) -> Iterator[str]:
    """Unpacks one file of an archive and yields its temporary path, valid within the context.

    Args:
      archive: see `open_archive`.
      name: a key of its `sizes`.
      largest: limit in bytes, which the model's options imply; a larger file is not unpacked.

    Raises:
      InputError: the file is larger or damaged, or the disk is full.
    """
    with unpacked_folder(archive, {name: "file"}, largest) as folder:
        yield os.path.join(folder, "file")


@contextlib.contextmanager
def unpacked_folder(archive: Archive, names: Mapping[str, str], largest: int) -> Iterator[str]:
    """Unpacks some files into a temporary directory and yields its path, valid in the context.

    Args:
      archive: see `open_archive`.
      names: maps names in the archive to paths in the directory. The caller chooses the paths, so
        they are safe.
      largest: limit in bytes of all files together.

    Raises:
      InputError: the files are larger or damaged, or the disk is full.
    """
    source = f"{archive.path}/{printable(next(iter(names), ''))}"
    with contextlib.ExitStack() as stack:
        with _room_named(source):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        for name, path in names.items():
            target = os.path.join(folder, path)
            with _room_named(source):
                os.makedirs(os.path.dirname(target), exist_ok=True)
            _unpack(archive, name, target, largest)
            largest -= archive.sizes[name]
        yield folder


def is_gzip(path: str) -> bool:
    """Whether a file has gzip's first bytes."""
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


@contextlib.contextmanager
def gunzipped(path: str, source: str, largest: int) -> Iterator[str]:
    """Decompresses a gzip file and yields the temporary path, valid within the context.

    Args:
      path: the file.
      source: its name in errors.
      largest: limit in bytes of the decompressed file.

    Raises:
      InputError: the file is damaged, its content exceeds the limit, or the disk is full.
    """
    with tempfile.NamedTemporaryFile() as target:
        try:
            with gzip.open(path) as file:
                while piece := file.read(_PIECE):
                    target.write(piece)
                    if target.tell() > largest:
                        raise InputError(f"{source}: is larger than {largest:,} bytes unpacked")
            target.flush()
        except (zlib.error, EOFError, gzip.BadGzipFile) as error:
            raise InputError(f"{source}: damaged or truncated gzip file: {error}") from error
        except OSError as error:
            raise InputError(
                f"{source}: can't be unpacked in {tempfile.gettempdir()}: {error.strerror}; the "
                "environment variable TMPDIR names another directory"
            ) from error
        yield target.name


@contextlib.contextmanager
def _room_named(source: str, size: int | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        its = "it" if size is None else f"its {size:,} bytes"
        raise InputError(
            f"{source}: {its} can't be unpacked in {tempfile.gettempdir()}: "
            f"{error.strerror}; the environment variable TMPDIR names another directory"
        ) from error


def entries_of_tar(path: str) -> Iterator[tuple[str, bool]]:
    """Yields each name in a `.tar.gz` and whether it is a directory, without unpacking anything.

    Raises:
      InputError: it is not a `.tar.gz`, or is damaged.
    """
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                yield member.name, member.isdir()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise InputError(f"{path}: is no .tar.gz that can be read: {error}") from error
