"""The one reader of archives of models, with errors a user can act on."""

import contextlib
import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator

from elmo_tf.errors import InputError, printable, shortened

_PIECE = 1 << 20


@contextlib.contextmanager
def open_zip(path: str) -> Iterator[zipfile.ZipFile]:
    """Opens a zip; whatever is wrong with it, then or while reading, is an `InputError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except InputError:
        raise
    # Each way of compression has errors of its own, and a damaged directory of names gives more.
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
def extracted(archive: zipfile.ZipFile, name: str, largest: int | None = None) -> Iterator[str]:
    """The path of a copy of a file of the zip.

    Args:
      archive: see `open_zip`.
      name: of the file.
      largest: bytes that it may have, as the model's options imply; a larger one is not unpacked.

    Raises:
      InputError: the file is larger, or there is no room for it.
    """
    source = f"{archive.filename}/{printable(name)}"
    size = archive.getinfo(name).file_size
    if largest is not None and size > largest:
        raise InputError(
            f"{source}: has {size:,} bytes, and a file that fits the options at most {largest:,}; "
            "not unpacked"
        )
    # The name inside the zip never becomes a path, so it can't lead out of anywhere.
    with contextlib.ExitStack() as stack:
        with _room_named(source, size):
            temporary = stack.enter_context(tempfile.NamedTemporaryFile())
        with archive.open(name) as member:  # gives no more than `size` bytes, whatever it holds
            while piece := member.read(_PIECE):
                with _room_named(source, size):
                    temporary.write(piece)
        with _room_named(source, size):
            temporary.flush()
        yield temporary.name


@contextlib.contextmanager
def _room_named(source: str, size: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{source}: its {size:,} bytes can't be unpacked in {tempfile.gettempdir()}: "
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
