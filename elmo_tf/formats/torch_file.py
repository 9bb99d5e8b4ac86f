"""Reads tensors from files of `torch.save`, without PyTorch and without running code of theirs.

A file of `torch.save` is a pickle, and a pickle is a program: it may name any function and call
it. This reader looks up three names, of which none does anything but make a tensor, and refuses
all others before anything is called.

Two forms exist. Until PyTorch 1.6: five pickles one after the other, then the numbers of each
storage. Since then: a zip with one pickle and a file for each storage.
"""

import collections
import contextlib
import io
import math
import os
import pickle
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np

from elmo_tf.errors import InputError, printable, shortened
from elmo_tf.storage.stored_array import StoredArray

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
# Pickles hold names, shapes and offsets; that of a model with 1,000 arrays has some 200,000 bytes.
_LARGEST_PICKLE = 1 << 24
_MOST_STORAGES = 10_000

_DTYPES = {
    "DoubleStorage": np.dtype("<f8"),
    "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
}


class _Storage(NamedTuple):
    """Numbers in the file, of which tensors are views."""

    key: str
    dtype: np.dtype
    size: int


class _Tensor(NamedTuple):
    """A view of a storage; offset and strides count numbers, not bytes."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _StateDict(collections.OrderedDict):
    """What `torch.nn.Module.state_dict` returns: tensors by name, with an attribute of its own."""


@contextlib.contextmanager
def open_tensors(path: str, source: str | None = None) -> Iterator[dict[str, StoredArray]]:
    """Yields the tensors of a state dict by name, which are read when they are asked for.

    Args:
      path: a file that `torch.save` wrote.
      source: what to call it in errors, if not by its path.

    Raises:
      InputError: the file is damaged, holds anything but tensors by name, or would run code.
    """
    source = path if source is None else source
    try:
        with open(path, "rb") as file:
            opened = _open_zip if zipfile.is_zipfile(path) else _open_legacy
            with opened(file, source) as (tensors, storages):
                yield {name: storages.array(name, tensor) for name, tensor in tensors.items()}
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror or error}") from error


class _Storages:
    """The numbers of a file's storages.

    Args:
      file: open for as long as arrays are read.
      source: what to call it in errors.
      offsets: where each storage begins in the file, by key.
    """

    def __init__(self, file: IO[bytes], source: str, offsets: dict[str, int]) -> None:
        self._file = file
        self._source = source
        self._offsets = offsets
        self._size = os.fstat(file.fileno()).st_size

    def array(self, name: str, tensor: _Tensor) -> StoredArray:
        """A tensor as an array.

        Raises:
          InputError: it is not within its storage, or uses the same numbers again and again, so
            that it would need more memory than the file has bytes; or the file is cut off.
        """
        shape, strides = tensor.shape, tensor.strides
        steps = zip(shape, strides, strict=True)
        last = tensor.offset + sum((size - 1) * stride for size, stride in steps)
        count = tensor.storage.size
        is_within = min((tensor.offset, *shape, *strides)) >= 0 and last < count
        if math.prod(shape) and not (is_within and math.prod(shape) <= count):
            raise InputError(
                f"{self._source}: damaged: {printable(name)} is not within its storage"
            )
        end = self._offsets[tensor.storage.key] + count * tensor.storage.dtype.itemsize
        if end > self._size:
            raise InputError(f"{self._source}: damaged or truncated: {printable(name)} is cut off")

        def read(rows: slice | None) -> np.ndarray:
            values = self._read(name, tensor, last)
            return values if rows is None else values[rows]

        return StoredArray(shape, tensor.storage.dtype, read)

    def _read(self, name: str, tensor: _Tensor, last: int) -> np.ndarray:
        if not math.prod(tensor.shape):
            return np.zeros(tensor.shape, tensor.storage.dtype)
        itemsize = tensor.storage.dtype.itemsize
        count = last - tensor.offset + 1
        self._file.seek(self._offsets[tensor.storage.key] + tensor.offset * itemsize)
        content = self._file.read(count * itemsize)
        numbers = np.frombuffer(content, tensor.storage.dtype)
        strides = [stride * itemsize for stride in tensor.strides]
        view = np.lib.stride_tricks.as_strided(numbers, tensor.shape, strides, writeable=False)
        return np.array(view, order="C")


Opened = tuple[dict[str, _Tensor], _Storages]


@contextlib.contextmanager
def _open_legacy(file: IO[bytes], source: str) -> Iterator[Opened]:
    magic, protocol, _ = (_load(file, source) for _ in range(3))
    if magic != _MAGIC or protocol != _PROTOCOL:
        raise InputError(f"{source}: is no file of torch.save")
    tensors = _state_dict(_load(file, source), source)
    keys = _load(file, source)
    used = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    if not isinstance(keys, list) or len(keys) > _MOST_STORAGES or set(used) - set(map(str, keys)):
        raise InputError(f"{source}: damaged: its list of storages is not that of its tensors")
    offsets = {}
    for key in map(str, keys):
        if key not in used:
            raise InputError(f"{source}: damaged: a storage that no tensor is a view of")
        count = int.from_bytes(file.read(8), "little")
        if count != used[key].size:
            raise InputError(f"{source}: damaged or truncated: a storage has another size")
        offsets[key] = file.tell()
        file.seek(count * used[key].dtype.itemsize, os.SEEK_CUR)
    yield tensors, _Storages(file, source, offsets)


@contextlib.contextmanager
def _open_zip(file: IO[bytes], source: str) -> Iterator[Opened]:
    """Storages are stored unpacked in the zip, so they are read where they are."""
    try:
        with zipfile.ZipFile(file) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            if len(pickles) != 1 or archive.getinfo(pickles[0]).file_size > _LARGEST_PICKLE:
                raise InputError(f"{source}: is a zip, but no file of torch.save")
            tensors = _state_dict(_load(io.BytesIO(archive.read(pickles[0])), source), source)
            folder = f"{pickles[0].removesuffix('data.pkl')}data/"
            offsets = {}
            for storage in {tensor.storage for tensor in tensors.values()}:
                info = archive.getinfo(folder + storage.key)
                size = storage.size * storage.dtype.itemsize
                if info.compress_type != zipfile.ZIP_STORED or info.file_size != size:
                    raise InputError(f"{source}: damaged: a storage is packed or of another size")
                with archive.open(info) as member:
                    member.read(0)  # has read the header before the numbers
                    offsets[storage.key] = file.tell()
            yield tensors, _Storages(file, source, offsets)
    # The last one is zipfile's for a way of compression that it doesn't know.
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError) as error:
        reason = shortened(" ".join(str(error).split()))
        raise InputError(f"{source}: damaged or truncated file of torch.save: {reason}") from error


class _Unpickler(pickle.Unpickler):
    """Knows nothing but what a state dict consists of."""

    def __init__(self, file: IO[bytes], source: str) -> None:
        super().__init__(file, encoding="utf-8")
        self._source = source

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full == "collections.OrderedDict":
            return _StateDict
        if full == "torch._utils._rebuild_tensor_v2":
            return _rebuild_tensor
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        raise InputError(
            f"{self._source}: refused: would call {printable(full)}, which no tensor needs"
        )

    def persistent_load(self, reference: Any) -> _Storage:
        try:
            kind, dtype, key, _, count = reference[:5]
            is_right = kind == "storage" and isinstance(dtype, np.dtype)
            is_right = is_right and isinstance(key, str) and type(count) is int and count >= 0
        except (TypeError, ValueError):
            is_right = False
        # Views of storages (a sixth entry, in the older form) were given up before version 1.0.
        if not is_right or (len(reference) > 5 and reference[5] is not None):
            raise InputError(f"{self._source}: refused: refers to something that is no storage")
        return _Storage(key, dtype, count)


def _rebuild_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any = None, *_: Any
) -> _Tensor:
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, _Storage) or not all(type(number) is int for number in numbers):
        raise ValueError("a tensor of something else than a storage")
    if len(shape) != len(strides):
        raise ValueError("a tensor without a stride for each dimension")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _load(file: IO[bytes], source: str) -> Any:
    """One pickle, which must not need more bytes than such files have."""
    begin = file.tell()
    limited = io.BytesIO(file.read(_LARGEST_PICKLE))
    try:
        value = _Unpickler(limited, source).load()
    except InputError:
        raise
    # A damaged pickle may raise nearly anything.
    except Exception as error:
        raise InputError(
            f"{source}: damaged or truncated file of torch.save: {type(error).__name__}"
        ) from error
    file.seek(begin + limited.tell())
    return value


def _state_dict(value: Any, source: str) -> dict[str, _Tensor]:
    is_right = isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(tensor, _Tensor) for name, tensor in value.items()
    )
    if not is_right:
        raise InputError(f"{source}: holds something else than tensors by name")
    return dict(value)
