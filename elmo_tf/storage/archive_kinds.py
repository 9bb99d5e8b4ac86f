"""Zips and tars as flat lists of files. Every fault in one is a one-line `InputError`.

Archives are untrusted input: names that lead out of the target directory, links and devices are
rejected, and a tar may expand only up to a multiple of its own size.
"""

import bz2
import contextlib
import gzip
import lzma
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from elmo_tf.errors import InputError, printable, shortened

_PIECE = 1 << 20
_MOST_ENTRIES = 10_000
# A file in a tar can only be found by decompressing everything before it. Weights barely compress,
# text to a third; the zeros of a decompression bomb compress to a thousandth.
_MOST_EXPANSION, _ALWAYS_ALLOWED = 100, 64 << 20
# Longer than any name. A header can declare a name of gigabytes, which `tarfile` reads at once.
_LONGEST_HEADER = 1 << 20
_GZIP, _BZIP2, _TAR = b"\x1f\x8b", b"BZh", b"ustar"


def is_zip(path: str) -> bool:
    """Whether a file is a zip, by its content."""
    return zipfile.is_zipfile(path)


def may_be_tar(path: str) -> bool:
    """Whether a file has the first bytes of a tar, or of a gzip or bzip2 file that may hold one."""
    with open(path, "rb") as file:
        beginning = file.read(512)
    return beginning.startswith((_GZIP, _BZIP2)) or beginning[257:262] == _TAR


class Zip:
    """See `elmo_tf.storage.archives.Archive`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.sizes: dict[str, int] = {}
        with _zip_errors(path), zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                mode = info.external_attr >> 16
                if info.is_dir():
                    _require_safe(path, info.filename)
                    continue
                _require_file(path, info.filename, stat.S_IFMT(mode) in (0, stat.S_IFREG), mode)
                name = _require_safe(path, info.filename)
                _add(path, self.sizes, name, info.file_size)

    def pieces(self, name: str) -> Iterator[bytes]:
        with _zip_errors(self.path), zipfile.ZipFile(self.path) as archive:
            # `zipfile` returns at most the size that the central directory declares.
            by_name = {_plain(info.filename): info for info in archive.infolist()}
            with archive.open(by_name[name]) as member:
                while piece := member.read(_PIECE):
                    yield piece


class Tar:
    """See `elmo_tf.storage.archives.Archive`.

    Uncompressed, or compressed by gzip or bzip2. The constructor reads all of it to list its files.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.sizes: dict[str, int] = {}
        self._offsets: dict[str, int] = {}
        with _tar_errors(path), self._open() as stream:
            # Not "r|": the streaming mode reads a file's content in order to skip it.
            fileobj: Any = stream
            archive = tarfile.open(fileobj=fileobj, mode="r:")  # noqa: SIM115, holds nothing open
            for member in archive:
                if member.size < 0:
                    raise tarfile.ReadError("a file of less than no bytes")
                name = _require_safe(path, member.name)
                if member.isdir():
                    continue
                is_file = member.isreg() and not member.issparse()
                _require_file(path, member.name, is_file, stat.S_IFLNK * member.issym())
                _add(path, self.sizes, name, member.size)
                self._offsets[name] = member.offset_data
            stream.read_to_the_end()  # the checksum is there

    def pieces(self, name: str) -> Iterator[bytes]:
        left = self.sizes[name]
        with _tar_errors(self.path), self._open() as stream:
            stream.seek(self._offsets[name])
            while left:
                piece = stream.read(min(left, _PIECE))
                if not piece:
                    raise tarfile.ReadError("unexpected end of data")
                left -= len(piece)
                yield piece

    @contextlib.contextmanager
    def _open(self) -> Iterator["_BoundedStream"]:
        with open(self.path, "rb") as file:
            beginning = file.read(len(_BZIP2))
            file.seek(0)
            stream: Any = file
            if beginning.startswith(_GZIP):
                stream = gzip.GzipFile(fileobj=file)
            elif beginning == _BZIP2:
                stream = bz2.BZ2File(file)
            size = os.fstat(file.fileno()).st_size
            yield _BoundedStream(stream, self.path, _MOST_EXPANSION * size + _ALWAYS_ALLOWED)


class _BoundedStream:
    """A stream for `tarfile` with a limit on its position and on the size of one read."""

    def __init__(self, stream: Any, path: str, most_bytes: int) -> None:
        self._stream = stream
        self._path = path
        self._most_bytes = most_bytes

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        if position > self._most_bytes:
            raise InputError(
                f"{self._path}: unpacks to over {self._most_bytes:,} bytes, {_MOST_EXPANSION} "
                "times its size and more, which no model does; not unpacked"
            )
        return self._stream.seek(position)

    def tell(self) -> int:
        return self._stream.tell()

    def read_to_the_end(self) -> None:
        while self._stream.read(_LONGEST_HEADER):
            self.seek(self.tell())


def _plain(name: str) -> str:
    """A name without leading "./"."""
    return re.sub(r"^(\./+)+", "", name)


def _require_safe(path: str, name: str) -> str:
    """The plain name. Raises an `InputError` if the name leads out of the target directory."""
    parts = re.split(r"[/\\]", name)
    if not parts[0] or ".." in parts or "\0" in name or re.match("[A-Za-z]:", name):
        raise InputError(
            f"{path}: holds {printable(name)}, a name that leads out of the archive; not read"
        )
    return _plain(name)


def _require_file(path: str, name: str, is_file: bool, mode: int) -> None:
    if not is_file:
        what = "a link" if stat.S_ISLNK(mode) else "a link or device, and no ordinary file"
        raise InputError(f"{path}: {printable(name)} is {what}, which no model needs; not read")


def _add(path: str, entries: dict[str, int], name: str, size: int) -> None:
    if name in entries:
        raise InputError(f"{path}: has two files named {printable(name)}")
    entries[name] = size
    if len(entries) > _MOST_ENTRIES:
        raise InputError(f"{path}: holds more than {_MOST_ENTRIES:,} files, which no model has")


@contextlib.contextmanager
def _zip_errors(path: str) -> Iterator[None]:
    """Turns every error of reading a zip into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    # Each compression method raises its own errors, and a damaged central directory others.
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        ValueError,
        LookupError,
    ) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: damaged or truncated zip: {shortened(reason)}") from error
    except (RuntimeError, OSError) as error:  # encryption; unknown compression; bzip2
        raise InputError(f"{path}: zip that can't be read: {shortened(str(error))}") from error


@contextlib.contextmanager
def _tar_errors(path: str) -> Iterator[None]:
    """Turns every error of reading a tar into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except (
        tarfile.TarError,
        zlib.error,
        EOFError,
        OSError,
        ValueError,
        LookupError,
        OverflowError,
        RecursionError,  # deeply nested extension headers
    ) as error:
        reason = shortened(" ".join(str(error).split()))
        raise InputError(f"{path}: damaged or truncated tar: {reason}") from error
