"""Where a model's files are: in a directory, in an archive, or each named by the user.

A place gives the files names, the same for all kinds of places, so that a reader of a format asks
for "options.json" and not for where it is.
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
      path: what the user named.
      names: the names of the files, sorted; of a directory those at its top.
      originals: paths of what the user named, one or more.
      is_local: whether files are read where they are, without a copy.
      chosen: the checkpoint that the user named, without an ending; None if none was.
    """

    path: str
    names: list[str]
    originals: list[str]
    is_local: bool
    chosen: str | None

    def has(self, name: str) -> bool:
        """Whether there is such a file, be it in a directory of the place."""

    def shown(self, name: str) -> str:
        """What to call a file in errors."""

    def size(self, name: str) -> int:
        """The bytes of a file."""

    def local(self, name: str, largest: int) -> contextlib.AbstractContextManager[str]:
        """A path where the file can be read, a copy of it if need be, while the context lasts.

        A copy is only made of a file of at most `largest` bytes.
        """

    def local_folder(
        self, names: Mapping[str, str], largest: int
    ) -> contextlib.AbstractContextManager[str]:
        """A directory in which several files can be read together, while the context lasts.

        Args:
          names: for each file its path in the directory, by its name in the place. A place whose
            files are in a directory gives that: there both have to be equal.
          largest: bytes of all of them; copies are only made of as many.
        """


class NamedFiles:
    """Files that the user named one by one, under the names that a directory would give them.

    Args:
      files: paths by name.
      beside: paths of files that belong to them if they exist, by name.
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
        # A pair and its vocabulary are all that can be named, and each is read by itself.
        raise NotImplementedError("files named one by one are in no common directory")


class Directory:
    """The files of a directory. Hidden ones are not listed.

    Args:
      path: of the directory.
      chosen: the checkpoint in it that the user named, without an ending, if one was.
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
    """The files of a zip or a tar, in whatever folder of it; a copy is made of each that is read.

    What a Mac adds to archives ("__MACOSX/") is not listed.
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
    """The JSON object of a file, which may be up to 1 MiB.

    Raises:
      InputError: the file is larger, or no JSON object.
    """
    source = place.shown(name)
    if place.size(name) > _LARGEST_JSON:
        raise InputError(f"{source}: is too large for a description of a model, over 1 MiB")
    with place.local(name, _LARGEST_JSON) as path, open(path, "rb") as file:
        return files.parse_json(file.read(), source)


def read_options(place: Place, name: str) -> ElmoConfig:
    """The configuration in a file of options; errors as of `ElmoConfig.from_file`."""
    return ElmoConfig.from_options(read_small_json(place, name), place.shown(name))


def visible_names(place: Place) -> list[str]:
    """The names of files that are not hidden, as those are that a Mac puts beside each file."""
    return [name for name in place.names if not base_name(name).startswith(".")]


def root_of(place: Place, name: str) -> str | None:
    """The folder in which a file of this name is, "" or ending in "/"; None without such a file.

    An archive may hold a model in a folder. Where several folders have the file, none is chosen.
    """
    if place.has(name):
        return ""
    found = [each for each in visible_names(place) if base_name(each) == name]
    return found[0].removesuffix(name) if len(found) == 1 else None


def base_name(name: str) -> str:
    """A file's name without the folder of an archive in which it is."""
    return name.rsplit("/", 1)[-1]


def enumerate_names(names: Sequence[str]) -> str:
    """Names for an error, the first ones of very many."""
    shown = ", ".join(map(printable, names[:_MOST_SHOWN]))
    if len(names) > _MOST_SHOWN:
        shown += f" and {len(names) - _MOST_SHOWN:,} more"
    return shown or "no files"
