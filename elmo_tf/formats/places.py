"""Access to a model's files in a directory, in an archive, or as paths from the user.

All kinds of places have the same interface, so that the reader of a format asks for "options.json"
independently of its location.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError, printable
from elmo_tf.storage import archives, files

_LARGEST_JSON = 1 << 20
_MOST_SHOWN = 10


class Place(Protocol):
    """Files by name.

    Attributes:
      path: the path that the user gave.
      names: the names of the files, sorted; for a directory, without subdirectories.
      originals: the paths that the user gave, one or more.
      is_local: whether files are read in place, without a copy.
      chosen: the checkpoint that the user named, without extension, or None.
    """

    path: str
    names: list[str]
    originals: list[str]
    is_local: bool
    chosen: str | None

    def has(self, name: str) -> bool:
        """Whether the file exists, possibly in a subdirectory."""

    def shown(self, name: str) -> str:
        """The name of a file in errors."""

    def size(self, name: str) -> int:
        """The size of a file in bytes."""

    def local(self, name: str, largest: int) -> contextlib.AbstractContextManager[str]:
        """A context with a path where the file can be read, possibly a temporary copy.

        Files of more than `largest` bytes are not copied.
        """

    def local_folder(
        self, names: Mapping[str, str], largest: int
    ) -> contextlib.AbstractContextManager[str]:
        """A context with a directory in which several files can be read together.

        Args:
          names: for each file, by its name in the place, its path in the directory. If the place
            is a directory, that directory is used, and the two must be equal.
          largest: maximum total size of copies in bytes.
        """


class NamedFiles:
    """Files that the user named individually, under the names that they have in a directory.

    Args:
      files: paths by name.
      beside: paths of optional additional files, by name.
    """

    is_local = True
    chosen: str | None = None

    def __init__(self, files: Mapping[str, str], beside: Mapping[str, str]) -> None:
        self.originals = list(files.values())
        self.path = ",".join(self.originals)
        there = {name: path for name, path in beside.items() if os.path.isfile(path)}
        self._files = {**files, **there}
        self.names = sorted(self._files)

    def has(self, name: str) -> bool:
        return name in self._files

    def shown(self, name: str) -> str:
        return self._files[name]

    def size(self, name: str) -> int:
        return _size(self._files[name])

    def local(self, name: str, largest: int) -> contextlib.AbstractContextManager[str]:
        return contextlib.nullcontext(self._files[name])

    def local_folder(
        self, names: Mapping[str, str], largest: int
    ) -> contextlib.AbstractContextManager[str]:
        # Only a pair and its vocabulary can be named, and they are read separately.
        raise NotImplementedError("files named one by one are in no common directory")


class Directory:
    """The files of a directory. Hidden files are not listed.

    Args:
      path: path of the directory.
      chosen: the checkpoint in it that the user named, without extension, or None.
    """

    is_local = True

    def __init__(self, path: str, chosen: str | None = None) -> None:
        self.path = path
        self.chosen = chosen
        self.originals = [path]
        try:
            with os.scandir(path) as entries:
                self.names = sorted(e.name for e in entries if e.is_file() and e.name[0] != ".")
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error

    def has(self, name: str) -> bool:
        return os.path.isfile(self.shown(name))

    def shown(self, name: str) -> str:
        return os.path.join(self.path, name)

    def size(self, name: str) -> int:
        return _size(self.shown(name))

    def local(self, name: str, largest: int) -> contextlib.AbstractContextManager[str]:
        return contextlib.nullcontext(self.shown(name))

    def local_folder(
        self, names: Mapping[str, str], largest: int
    ) -> contextlib.AbstractContextManager[str]:
        assert all(name == path for name, path in names.items())
        return contextlib.nullcontext(self.path)


class ArchivedFiles:
    """The files of a zip or tar, in any of its folders. Each file is copied when it is read.

    Files that macOS adds to archives ("__MACOSX/") are not listed.
    """

    is_local = False
    chosen: str | None = None

    def __init__(self, archive: archives.Archive) -> None:
        self.path = archive.path
        self.originals = [archive.path]
        self._archive = archive
        self.names = sorted(name for name in archive.sizes if not name.startswith("__MACOSX/"))

    def has(self, name: str) -> bool:
        return name in self._archive.sizes

    def shown(self, name: str) -> str:
        return f"{self.path}/{printable(name)}"

    def size(self, name: str) -> int:
        return self._archive.sizes[name]

    def local(self, name: str, largest: int) -> contextlib.AbstractContextManager[str]:
        return archives.unpacked(self._archive, name, largest)

    def local_folder(
        self, names: Mapping[str, str], largest: int
    ) -> contextlib.AbstractContextManager[str]:
        return archives.unpacked_folder(self._archive, names, largest)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_small_json(place: Place, name: str) -> dict[str, Any]:
    """The JSON object in a file of up to 1 MiB.

    Raises:
      InputError: the file is larger, or does not contain a JSON object.
    """
    source = place.shown(name)
    if place.size(name) > _LARGEST_JSON:
        raise InputError(f"{source}: is too large for a description of a model, over 1 MiB")
    with place.local(name, _LARGEST_JSON) as path, open(path, "rb") as file:
        return files.parse_json(file.read(), source)


def read_options(place: Place, name: str) -> ElmoConfig:
    """The configuration in an options file; for errors see `ElmoConfig.from_file`."""
    return ElmoConfig.from_options(read_small_json(place, name), place.shown(name))


def visible_names(place: Place) -> list[str]:
    """The names of files that are not hidden; macOS adds hidden files to archives."""
    return [name for name in place.names if not base_name(name).startswith(".")]


def root_of(place: Place, name: str) -> str | None:
    """The folder that contains a file of this name: "", or a path ending in "/".

    An archive may hold a model in a folder. The result is None if no folder or more than one has
    the file.
    """
    if place.has(name):
        return ""
    found = [each for each in visible_names(place) if base_name(each) == name]
    return found[0].removesuffix(name) if len(found) == 1 else None


def base_name(name: str) -> str:
    """A file's name without its folder in an archive."""
    return name.rsplit("/", 1)[-1]


def enumerate_names(names: Sequence[str]) -> str:
    """A list of names for an error message; a long list is shortened."""
    shown = ", ".join(map(printable, names[:_MOST_SHOWN]))
    if len(names) > _MOST_SHOWN:
        shown += f" and {len(names) - _MOST_SHOWN:,} more"
    return shown or "no files"
