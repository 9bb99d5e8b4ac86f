"""HDF5 files as flat dictionaries of arrays, with errors a user can act on."""

import contextlib
import os
from collections.abc import Iterator, Mapping

import h5py
import numpy as np

from elmo_tf.errors import InputError, printable
from elmo_tf.storage import files
from elmo_tf.storage.stored_array import StoredArray

_DEEPEST_GROUP = 8


@contextlib.contextmanager
def open_datasets(
    path: str | os.PathLike, source: str | None = None
) -> Iterator[dict[str, StoredArray]]:
    """Opens an HDF5 file and yields its datasets by their full names, "group/name".

    Args:
      path: the file.
      source: what to call the file in errors, if not by its path.

    Raises:
      InputError: the file can't be read, is no HDF5 file (the message shows how it begins), or
        is one but damaged.
    """
    source = str(path) if source is None else source
    path = os.path.expanduser(path)
    _require_hdf5(path, source)
    with contextlib.ExitStack() as stack:
        with _damage_named(source):
            file = stack.enter_context(h5py.File(path, "r"))
            datasets = {name: _stored(item, source) for name, item in _walk(file, source)}
        yield datasets


def _stored(dataset: h5py.Dataset, source: str) -> StoredArray:
    def read(rows: slice | None) -> np.ndarray:
        with _damage_named(source):
            return dataset[... if rows is None else rows]

    return StoredArray(dataset.shape, dataset.dtype, read)


@contextlib.contextmanager
def _damage_named(source: str) -> Iterator[None]:
    """Whatever h5py raises inside is an `InputError` about `source`."""
    try:
        yield
    except InputError:
        raise
    # h5py has no exception of its own: which of these comes depends on what is broken where.
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{source}: damaged or truncated HDF5 file: {reason}") from error


def _require_hdf5(path: str, source: str) -> None:
    try:
        with open(path, "rb") as file:
            beginning = file.read(16)
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror or error}") from error
    if not beginning:
        raise InputError(f"{source}: is not an HDF5 file: it is empty")
    if not h5py.is_hdf5(path):
        raise InputError(f"{source}: is not an HDF5 file: it begins with {beginning!r}")


def _walk(
    group: h5py.Group, source: str, prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, h5py.Dataset]]:
    # Not `visititems`: that passes over the second name of an array stored once under two names.
    for key in group:
        name = prefix + key
        shown = printable(name)
        # What lies in other files is not part of the model; following it could read anything.
        if isinstance(group.get(key, getlink=True), h5py.ExternalLink):
            raise InputError(f"{source}: {shown} is a link to another file, which is not followed")
        item = group[key]
        if isinstance(item, h5py.Dataset):
            if item.external:
                raise InputError(f"{source}: {shown} keeps its values in another file")
            yield name, item
        elif isinstance(item, h5py.Group):
            if depth == _DEEPEST_GROUP:
                raise InputError(f"{source}: {shown}: groups within groups without end")
            yield from _walk(item, source, f"{name}/", depth + 1)


def write_arrays(path: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes `arrays` by their names, whole or not at all.

    Equal arrays give equal files, byte for byte: no time of writing is stored, and names are
    written in sorted order.
    """
    with files.write_atomically(path) as temporary, h5py.File(temporary, "x") as file:
        for name in sorted(arrays):
            file.create_dataset(name, data=arrays[name], track_times=False)
