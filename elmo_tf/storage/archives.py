"""The one reader of archives of models, zip or tar, with errors a user can act on.

An archive comes from anywhere, so nothing in it is trusted: names that lead out of a directory and
links are refused, no file is larger than its reader allows, and no tar is unpacked far beyond its
own size. Names inside an archive never become paths.
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
      sizes: bytes of each file, unpacked, by its path inside, which has "/" and no "./" first.
    """

    path: str
    sizes: dict[str, int]

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content of a file, never more than `sizes` says.

        Raises:
          InputError: it is damaged.
        """


def open_archive(path: str) -> Archive | None:
    """The archive at a path, known by its content or its name; None if it is none.

    Raises:
      InputError: it is damaged, or holds what no archive of a model needs to hold.
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
    """The path of a copy of a file of an archive, which lasts as long as the context.

    Args:
      archive: see `open_archive`.
      name: a key of its sizes.
      largest: bytes that it may have, as the model's options imply; a larger one is not unpacked.

    Raises:
      InputError: the file is larger or damaged, or there is no room for it.
    """
    with unpacked_folder(archive, {name: "file"}, largest) as folder:
        yield os.path.join(folder, "file")


@contextlib.contextmanager
def unpacked_folder(archive: Archive, names: Mapping[str, str], largest: int) -> Iterator[str]:
    """The path of a directory with copies of some files, which lasts as long as the context.

    Args:
      archive: see `open_archive`.
      names: for each file its path in the directory, by its name in the archive. These paths are
        ours, not the archive's.
      largest: bytes that all of them may have together.

    Raises:
      InputError: they are larger or damaged, or there is no room for them.
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
    """Whether a file begins as gzip's do."""
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


@contextlib.contextmanager
def gunzipped(path: str, source: str, largest: int) -> Iterator[str]:
    """The path of an unpacked copy of a file that gzip has packed.

    Args:
      path: the file.
      source: what to call it in errors.
      largest: bytes that the copy may have.

    Raises:
      InputError: the file is damaged, or the copy would be larger; or there is no room for it.
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
    """Yields the names in a `.tar.gz`, and whether each is a directory; nothing is unpacked.

    Raises:
      InputError: it is no such archive, or is damaged.
    """
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                yield member.name, member.isdir()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise InputError(f"{path}: is no .tar.gz that can be read: {error}") from error
