"""The one reader of archives of models, with errors a user can act on.

Nothing in an archive decides where a file is written: copies have names of their own. Members that
are no regular files (links, devices) are not listed, so that no one can ask for them.
"""

import contextlib
import gzip
import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Protocol

from elmo_tf.errors import InputError, printable, shortened

_PIECE = 1 << 20
# Far beyond any model. A tar has no directory of its members: to list it, all of it is unpacked.
_MOST_MEMBERS = 10_000
_MOST_BYTES = 1 << 34
_TAR_ENDINGS = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz")


class Archive(Protocol):
    """An open archive.

    Attributes:
      path: of its file.
      sizes: bytes of each regular file, by the names that the archive gives them.
    """

    @property
    def path(self) -> str: ...

    @property
    def sizes(self) -> Mapping[str, int]: ...

    def open_member(self, name: str) -> IO[bytes]:
        """A file of `sizes`, to be read once from its beginning."""


class _Zip:
    def __init__(self, path: str, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self.sizes: dict[str, int] = {}
        for member in archive.infolist():
            if not member.is_dir():
                _add(path, self.sizes, member.filename, member.file_size)

    def open_member(self, name: str) -> IO[bytes]:
        return self._archive.open(name)  # gives no more bytes than its size, whatever it holds


class _Tar:
    def __init__(self, path: str, archive: tarfile.TarFile) -> None:
        self.path = path
        self._archive = archive
        self._members: dict[str, tarfile.TarInfo] = {}
        self.sizes: dict[str, int] = {}
        num_bytes = 0
        for number, member in enumerate(archive):
            num_bytes += member.size
            if number >= _MOST_MEMBERS or num_bytes > _MOST_BYTES:
                raise InputError(
                    f"{path}: has more than {_MOST_MEMBERS:,} files or "
                    f"{_MOST_BYTES >> 30} GiB, so it is no archive of a model"
                )
            if member.isreg():
                name = member.name.removeprefix("./")
                _add(path, self.sizes, name, member.size)
                self._members[name] = member

    def open_member(self, name: str) -> IO[bytes]:
        file = self._archive.extractfile(self._members[name])
        assert file is not None, "a regular file"
        return file


def _add(path: str, sizes: dict[str, int], name: str, size: int) -> None:
    if name in sizes:
        raise InputError(f"{path}: has two files named {printable(name)}")
    sizes[name] = size


def is_archive(path: str) -> bool:
    """Whether a file is a zip or a tar, by its name or its first bytes."""
    if path.lower().endswith((".zip", *_TAR_ENDINGS)) or zipfile.is_zipfile(path):
        return True
    try:
        return tarfile.is_tarfile(path)
    except (zlib.error, lzma.LZMAError, EOFError, OSError):
        return False


@contextlib.contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """Opens a zip or a tar, packed or not.

    Raises:
      InputError: it is damaged, then or while a member is read, or has too many members.
    """
    is_tar = path.lower().endswith(_TAR_ENDINGS) or not zipfile.is_zipfile(path)
    kind = "tar" if is_tar and not path.lower().endswith(".zip") else "zip"
    opener: Callable[[str], contextlib.AbstractContextManager[Archive]]
    opener = _open_tar if kind == "tar" else _open_zip
    try:
        with opener(path) as archive:
            yield archive
    except InputError:
        raise
    # Each way of compression has errors of its own, and a damaged directory of names gives more.
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        ValueError,
        LookupError,
    ) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: damaged or truncated {kind}: {shortened(reason)}") from error
    except (RuntimeError, OSError) as error:  # encryption; unknown compression; bzip2
        raise InputError(f"{path}: {kind} that can't be read: {shortened(str(error))}") from error


@contextlib.contextmanager
def _open_zip(path: str) -> Iterator[Archive]:
    with zipfile.ZipFile(path) as archive:
        yield _Zip(path, archive)


@contextlib.contextmanager
def _open_tar(path: str) -> Iterator[Archive]:
    with tarfile.open(path, "r:*") as archive:
        yield _Tar(path, archive)


@contextlib.contextmanager
def extracted(archive: Archive, name: str, largest: int | None = None) -> Iterator[str]:
    """The path of a copy of a file of an archive.

    Args:
      archive: see `open_archive`.
      name: of the file, a key of `archive.sizes`.
      largest: bytes that it may have, as the model's options imply; a larger one is not unpacked.

    Raises:
      InputError: the file is larger, or there is no room for it.
    """
    _check_size(archive, name, largest)
    with contextlib.ExitStack() as stack:
        with _room_named(archive, name):
            temporary = stack.enter_context(tempfile.NamedTemporaryFile())
        _copy(archive, name, temporary)
        yield temporary.name


@contextlib.contextmanager
def extracted_folder(
    archive: Archive, names: Mapping[str, str], largest: int | None = None
) -> Iterator[str]:
    """The path of a directory with copies of some files of an archive.

    Args:
      archive: see `open_archive`.
      names: for each file its path in the directory, by its name in the archive. These paths are
        ours, not the archive's.
      largest: bytes that all of them may have together.

    Raises:
      InputError: they are larger, or there is no room for them.
    """
    for name in names:
        _check_size(archive, name, largest)
    if largest is not None and sum(archive.sizes[name] for name in names) > largest:
        raise InputError(f"{archive.path}: its files are larger than {largest:,} bytes together")
    with contextlib.ExitStack() as stack:
        with _room_named(archive, next(iter(names), "")):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        for name, path in names.items():
            with _room_named(archive, name):
                target = os.path.join(folder, path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                file = stack.enter_context(open(target, "xb"))
            with file:
                _copy(archive, name, file)
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


def _check_size(archive: Archive, name: str, largest: int | None) -> None:
    size = archive.sizes[name]
    if largest is not None and size > largest:
        raise InputError(
            f"{archive.path}/{printable(name)}: has {size:,} bytes, and a file that fits the "
            f"options at most {largest:,}; not unpacked"
        )


def _copy(archive: Archive, name: str, target: IO[bytes]) -> None:
    with archive.open_member(name) as member:
        while piece := member.read(_PIECE):
            with _room_named(archive, name):
                target.write(piece)
    with _room_named(archive, name):
        target.flush()


@contextlib.contextmanager
def _room_named(archive: Archive, name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{archive.path}/{printable(name)}: its {archive.sizes.get(name, 0):,} bytes can't be "
            f"unpacked in {tempfile.gettempdir()}: {error.strerror}; the environment variable "
            "TMPDIR names another directory"
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
