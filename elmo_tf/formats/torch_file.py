"""Reads tensors from `torch.save` files, without PyTorch and without executing code in them.

A `torch.save` file is a pickle, which can name and call any function. This reader accepts only
three names, all of which create tensors, and refuses any other before a call.

There are two forms. Until PyTorch 1.6: five pickles in sequence, then the numbers of each storage.
Since then: a zip with one pickle and a file for each storage.
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
# Pickles hold names, shapes and offsets: about 200,000 bytes for a model with 1,000 arrays.
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
    """The class of `torch.nn.Module.state_dict()`: tensors by name, with an extra attribute."""


@contextlib.contextmanager
def open_tensors(path: str, source: str | None = None) -> Iterator[dict[str, StoredArray]]:
    """Yields the tensors of a state dict by name; each is read when it is used.

    Args:
      path: a file written by `torch.save`.
      source: name of the file in errors; default: its path.

    Raises:
      InputError: the file is damaged, contains anything but tensors by name, or would run code.
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
      file: the file, which must stay open while arrays are read.
      source: name of the file in errors.
      offsets: offset of each storage in the file, by key.
    """

    def __init__(self, file: IO[bytes], source: str, offsets: dict[str, int]) -> None:
        self._file = file
        self._source = source
        self._offsets = offsets
        self._size = os.fstat(file.fileno()).st_size

    def array(self, name: str, tensor: _Tensor) -> StoredArray:
        """A tensor as an array.

        Raises:
          InputError: the tensor exceeds its storage; or it repeats numbers so that it would need
            more memory than the file's size; or the file is truncated.
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
        raise InputError(f"{source}: is not a torch.save file")
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
    """Storages are not compressed in the zip, so they are read in place."""
    try:
        with zipfile.ZipFile(file) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            if len(pickles) != 1 or archive.getinfo(pickles[0]).file_size > _LARGEST_PICKLE:
                raise InputError(f"{source}: is a zip but not a torch.save file")
            tensors = _state_dict(_load(io.BytesIO(archive.read(pickles[0])), source), source)
            folder = f"{pickles[0].removesuffix('data.pkl')}data/"
            offsets = {}
            for storage in {tensor.storage for tensor in tensors.values()}:
                info = archive.getinfo(folder + storage.key)
                size = storage.size * storage.dtype.itemsize
                if info.compress_type != zipfile.ZIP_STORED or info.file_size != size:
                    raise InputError(f"{source}: damaged: a storage is packed or of another size")
                with archive.open(info) as member:
                    member.read(0)  # moves past the header
                    offsets[storage.key] = file.tell()
            yield tensors, _Storages(file, source, offsets)
    # zipfile raises the last one for an unknown compression method.
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError) as error:
        reason = shortened(" ".join(str(error).split()))
        raise InputError(f"{source}: damaged or truncated file of torch.save: {reason}") from error


class _Unpickler(pickle.Unpickler):
    """An unpickler that accepts only the contents of a state dict."""

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
        # Views of storages (a sixth entry in the older form) were removed before PyTorch 1.0.
        if not is_right or (len(reference) > 5 and reference[5] is not None):
            raise InputError(f"{self._source}: refused: refers to an object that is not a storage")
        return _Storage(key, dtype, count)


def _rebuild_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any = None, *_: Any
) -> _Tensor:
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, _Storage) or not all(type(number) is int for number in numbers):
        raise ValueError("a tensor of an object that is not a storage")
    if len(shape) != len(strides):
        raise ValueError("a tensor without a stride for each dimension")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _load(file: IO[bytes], source: str) -> Any:
    """Loads one pickle, up to the maximum size of such pickles."""
    begin = file.tell()
    limited = io.BytesIO(file.read(_LARGEST_PICKLE))
    try:
        value = _Unpickler(limited, source).load()
    except InputError:
        raise
    # A damaged pickle may raise almost any exception.
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
        raise InputError(f"{source}: does not contain tensors by name")
    return dict(value)
