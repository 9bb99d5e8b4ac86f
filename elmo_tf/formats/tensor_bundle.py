"""Opens TensorFlow checkpoints in places; their files must be in one directory on disk."""

import contextlib
import glob
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from elmo_tf.errors import listed
from elmo_tf.formats.checkpoint import CheckpointFile, DamagedCheckpointError
from elmo_tf.formats.mapping import StoredArrays
from elmo_tf.formats.places import Place

Result = TypeVar("Result")

INDEX_ENDING = ".index"
_SHARD = re.compile(r"\.data-[0-9]{5}-of-[0-9]{5}")
_LARGEST_INDEX = 1 << 24  # bytes; about 60 per variable
_STRINGS = 1 << 20  # bytes of strings, whose size is not in the index


@contextlib.contextmanager
def open_arrays(
    place: Place, prefix: str, select: Callable[[StoredArrays], Result]
) -> Iterator[Result]:
    """Opens a checkpoint and yields the result of `select` for its arrays.

    From an archive, the index is unpacked first, and the rest after its shapes were accepted.

    Args:
      place: the place of the checkpoint.
      prefix: its name without ".index".
      select: called with all arrays by name. It may use shapes and dtypes, and return arrays,
        which can be read within the context. For an archive it is called twice.

    Raises:
      InputError: a file is missing, damaged or too large; or `select` raised it.
    """
    source = place.shown(prefix)
    index = f"{prefix}{INDEX_ENDING}"
    if place.is_local:
        arrays = CheckpointFile(source).stored_arrays()
        found = glob.glob(f"{glob.escape(source)}.data-*")
        _require_data(
            source, prefix, arrays, {path[len(source) :]: os.path.getsize(path) for path in found}
        )
        yield select(arrays)
        return
    with place.local_folder({index: f"model{INDEX_ENDING}"}, _LARGEST_INDEX) as folder:
        arrays = CheckpointFile(os.path.join(folder, "model"), source).stored_arrays()
    endings = [name[len(prefix) :] for name in place.names if name.startswith(prefix)]
    _require_data(source, prefix, arrays, {e: place.size(f"{prefix}{e}") for e in endings})
    select(arrays)
    largest = _num_bytes(arrays) + _STRINGS + place.size(index)
    shards = [ending for ending in endings if _SHARD.fullmatch(ending)]
    copies = {f"{prefix}{ending}": f"model{ending}" for ending in (INDEX_ENDING, *shards)}
    with place.local_folder(copies, largest) as folder:
        yield select(CheckpointFile(os.path.join(folder, "model"), source).stored_arrays())


def _num_bytes(arrays: StoredArrays) -> int:
    """Total size of all numeric arrays in bytes."""
    return sum(
        math.prod(each.shape or ()) * each.dtype.itemsize
        for each in arrays.values()
        if each.dtype.kind != "O"  # strings
    )


def _require_data(source: str, prefix: str, arrays: StoredArrays, sizes: Mapping[str, int]) -> None:
    """Raises an error if data files are missing or too small for the arrays in the index.

    Check this before allocating memory, because a damaged index may declare arrays of any size.
    """
    shards = {ending: size for ending, size in sizes.items() if _SHARD.fullmatch(ending)}
    counts = {int(ending[-5:]) for ending in shards} or {1}
    wanted = [f".data-{i:05}-of-{max(counts):05}" for i in range(max(counts))]
    missing = [f"{prefix}{ending}" for ending in wanted if ending not in shards]
    if missing and arrays:
        raise DamagedCheckpointError(f"{source}{INDEX_ENDING}: there is no {listed(missing, ', ')}")
    declared = _num_bytes(arrays)
    if declared > sum(shards.values()):
        raise DamagedCheckpointError(
            f"{source}: damaged or truncated checkpoint: its index declares {declared:,} bytes of "
            f"arrays, and its data files have {sum(shards.values()):,}"
        )
