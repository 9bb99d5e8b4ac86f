"""HDF5 files as flat dictionaries of arrays, with errors that a user can act on."""

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping

import h5py
import numpy as np

from elmo_tf.errors import InputError, printable, shortened
from elmo_tf.storage import files
from elmo_tf.storage.stored_array import StoredArray
from elmo_tf.storage.unfailing_file import UnfailingFile

_DEEPEST_GROUP = 8
_MOST_NAMES = 10_000


@contextlib.contextmanager
def open_datasets(
    path: str | os.PathLike, source: str | None = None
) -> Iterator[dict[str, StoredArray]]:
    """Opens an HDF5 file and yields its datasets by their full names, "group/name".

    Args:
      path: the file.
      source: name of the file in errors; its path by default.

    Raises:
      InputError: the file can't be read, is not HDF5 (the message shows its first bytes), is
        damaged or locked, or refers to other files.
    """
    source = str(path) if source is None else source
    path = os.path.expanduser(path)
    _require_hdf5(path, source)
    with contextlib.ExitStack() as stack:
        with _damage_named(source):
            file = stack.enter_context(_open(path, source))
            datasets = {name: _stored(item, source) for name, item in _datasets(file, source)}
        yield datasets


def _stored(dataset: h5py.Dataset, source: str) -> StoredArray:
    def read(rows: slice | None) -> np.ndarray:
        with _damage_named(source):
            return dataset[... if rows is None else rows]

    return StoredArray(dataset.shape, dataset.dtype, read)


def _open(path: str, source: str) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        # HDF5 both locks a file and marks it in its header while it is open for writing.
        if "unable to lock file" in str(error) or "already open for" in str(error):
            raise InputError(
                f"{source}: is locked: another process has it open for writing, or did when it "
                "ended; if none does, the environment variable HDF5_USE_FILE_LOCKING=FALSE turns "
                "HDF5's locks off"
            ) from error
        raise


@contextlib.contextmanager
def _damage_named(source: str) -> Iterator[None]:
    """Turns every error of h5py into an `InputError` about `source`."""
    try:
        yield
    except InputError:
        raise
    # h5py has no exception class of its own; the kind of damage decides which of these it raises.
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{source}: damaged or truncated HDF5 file: {shortened(reason)}"
        ) from error


def _require_hdf5(path: str, source: str) -> None:
    try:
        with open(path, "rb") as file:
            beginning = file.read(16)
    except (OSError, ValueError) as error:  # ValueError: an impossible file name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{source}: cannot be read: {reason}") from error
    if not beginning:
        raise InputError(f"{source}: is not an HDF5 file: it is empty")
    if not h5py.is_hdf5(path):
        raise InputError(f"{source}: is not an HDF5 file: it begins with {beginning!r}")


def _datasets(file: h5py.File, source: str) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yields all datasets with their full names, in the order of names.

    Raises:
      InputError: groups contain each other, there are too many names, or a dataset's values are in
        another file.
    """
    number = itertools.count(1)
    own_file = h5py.h5o.get_info(file.id).fileno

    def walk(group: h5py.Group, prefix: str, depth: int) -> Iterator[tuple[str, h5py.Dataset]]:
        # Not `visititems`: it skips the second name of an array that has two.
        for key in _names_in(group, source):
            name = prefix + key
            shown = printable(name)
            # Groups with several names each form a graph with exponentially many paths.
            if next(number) > _MOST_NAMES:
                raise _too_many(source)
            # Following links to other files would let a model read any file of the user's.
            if isinstance(group.get(key, getlink=True), h5py.ExternalLink):
                raise InputError(
                    f"{source}: {shown} is a link to another file, which is not followed"
                )
            item = group[key]
            if h5py.h5o.get_info(item.id).fileno != own_file:  # a soft link through an external one
                raise InputError(f"{source}: {shown} is in another file, which is not read")
            if isinstance(item, h5py.Dataset):
                _require_own_values(item, shown, source)
                yield name, item
            elif isinstance(item, h5py.Group):
                if depth == _DEEPEST_GROUP:
                    raise InputError(f"{source}: {shown}: groups within groups without end")
                yield from walk(item, f"{name}/", depth + 1)

    yield from walk(file, "", 0)


def _names_in(group: h5py.Group, source: str) -> h5py.Group:
    """Returns the group after checking its size, since iteration lists all names at once."""
    if len(group) > _MOST_NAMES:
        raise _too_many(source)
    return group


def _too_many(source: str) -> InputError:
    return InputError(
        f"{source}: more than {_MOST_NAMES:,} names of arrays and groups, which no model has"
    )


def _require_own_values(item: h5py.Dataset, shown: str, source: str) -> None:
    """Raises an `InputError` unless a dataset's values are in the file and can be decompressed."""
    if item.external or item.is_virtual:
        # A virtual dataset whose source file is missing silently reads as its fill value.
        raise InputError(f"{source}: {shown} has its values in another file, which is not read")
    if item.size and not item.id.get_storage_size():
        # A dataset that was never written silently reads as its fill value.
        raise InputError(f"{source}: {shown} has no values: none were ever written")
    settings = item.id.get_create_plist()
    for index in range(settings.get_nfilters()):
        code, _, _, name = settings.get_filter(index)
        if not h5py.h5z.filter_avail(code):
            known_as = printable(name.decode("utf-8", "replace"))
            raise InputError(
                f"{source}: {shown} is compressed with filter {code} ({known_as}), which h5py "
                "lacks here; `h5repack -f GZIP=1 OLD NEW` makes a file that it reads"
            )


def write_arrays(path: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes `arrays` by their names, atomically.

    Equal arrays give byte-equal files: names are sorted and no times are stored.

    Raises:
      InputError: as for `files.check_target`, or the disk is full.
    """
    with files.write_atomically(path) as temporary:
        output = UnfailingFile(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        with contextlib.closing(output):
            with h5py.File(output, "w") as file:
                for name in sorted(arrays):
                    file.create_dataset(name, data=arrays[name], track_times=False)
                    if output.failure:  # all further writes would go to memory
                        break
            output.require_whole()
