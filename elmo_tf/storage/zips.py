"""Zips of models: opened and taken from with errors a user can act on."""

import contextlib
import lzma
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator

from elmo_tf.errors import InputError


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
        raise InputError(f"{path}: damaged or truncated zip: {reason}") from error
    except (RuntimeError, OSError) as error:  # encryption; unknown compression; bzip2
        raise InputError(f"{path}: zip that can't be read: {error}") from error


@contextlib.contextmanager
def extracted(archive: zipfile.ZipFile, name: str | None) -> Iterator[str | None]:
    """The path of a copy of a file of the zip; None for None."""
    if name is None:
        yield None
        return
    # The name inside the zip never becomes a path, so it can't lead out of anywhere.
    with tempfile.NamedTemporaryFile() as temporary:
        with archive.open(name) as member:
            shutil.copyfileobj(member, temporary, 1 << 20)
        temporary.flush()
        yield temporary.name
