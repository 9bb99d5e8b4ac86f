"""Parses and checks the index of a TensorFlow checkpoint (`.index`) without TensorFlow.

TensorFlow aborts the process if an index declares an impossible shape, such as one with a negative
dimension. Therefore every index is checked here first.

The file is a LevelDB table: blocks of sorted, prefix-compressed keys, an index block with the
offsets of all blocks, and a footer with the offset of the index block:

    block    = entries, offsets of restarts (uint32 each), their number (uint32)
    entry    = bytes shared, bytes of the key that follow, bytes of the value (varints), key, value
    on disk  = block, compression type (1 byte), checksum (uint32)

The value of a name is a protocol buffer, `BundleEntryProto`: field 1 is the type, 2 the shape.
"""

import math
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_FOOTER = 48  # bytes
_TRAILER = 5
_LARGEST = 1 << 26  # bytes; about 60 per variable
_MOST_NAMES = 1_000_000
_MOST_DIMENSIONS = 254
_LARGEST_SIZE = 1 << 62
# Values of `tensorflow.DataType`; those above 100 are references, which no file contains.
_TYPES = frozenset(range(1, 32))


class TensorEntry(NamedTuple):
    """The entry of one array in an index.

    Attributes:
      type: a value of `tensorflow.DataType`.
      shape: its dimensions.
    """

    type: int
    shape: tuple[int, ...]


def read_index(path: str | os.PathLike) -> dict[str, TensorEntry]:
    """The entries of an index by name.

    Raises:
      ValueError: the file is not an index, or declares an impossible array; one line.
      OSError: the file cannot be read.
    """
    if os.path.getsize(path) > _LARGEST:
        raise ValueError(f"an index of over {_LARGEST:,} bytes, which no model has")
    with open(path, "rb") as file:
        content = memoryview(file.read(_LARGEST))
    try:
        return _entries(content)
    except (IndexError, struct.error) as error:
        raise ValueError("its index is truncated or changed") from error


def _entries(content: memoryview) -> dict[str, TensorEntry]:
    if len(content) < _FOOTER or content[-8:] != _MAGIC:
        raise ValueError("its index is not a table, or is truncated")
    _, _, start = _place(content[-_FOOTER:], 0)
    offset, size, _ = _place(content[-_FOOTER:], start)
    found: dict[str, TensorEntry] = {}
    num_bytes = 0
    for _, value in _block(content, offset, size):
        offset, size, _ = _place(value, 0)
        num_bytes += size
        if num_bytes > len(content):
            raise ValueError("the blocks of its index overlap")
        for key, entry in _block(content, offset, size):
            if key:  # the header has the empty key
                name = key.decode("utf-8", "backslashreplace")  # keys of slices are binary
                found[name] = _entry(name, entry)
            if len(found) > _MOST_NAMES:
                raise ValueError(f"over {_MOST_NAMES:,} names, which no model has")
    return found


def _place(content: memoryview, start: int) -> tuple[int, int, int]:
    """Offset and size of a block, and the position after them."""
    offset, start = _varint(content, start)
    size, start = _varint(content, start)
    return offset, size, start


def _block(content: memoryview, offset: int, size: int) -> Iterator[tuple[bytes, memoryview]]:
    if offset + size + _TRAILER > len(content):
        raise ValueError("its index is truncated")
    if content[offset + size]:
        raise ValueError("its index is compressed, unlike TensorFlow's")
    block = content[offset : offset + size]
    (num_restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * (num_restarts + 1)
    if end < 0:
        raise ValueError("its index is truncated or changed")
    start, key = 0, b""
    while start < end:
        shared, start = _varint(block, start)
        rest, start = _varint(block, start)
        length, start = _varint(block, start)
        if shared > len(key) or start + rest + length > end:
            raise ValueError("its index is truncated or changed")
        key = key[:shared] + bytes(block[start : start + rest])
        yield key, block[start + rest : start + rest + length]
        start += rest + length


def _entry(name: str, message: memoryview) -> TensorEntry:
    kind = 0
    shape: tuple[int, ...] = ()
    for number, value in _fields(message):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 2 and isinstance(value, memoryview):
            shape = _shape(value)
    if kind not in _TYPES:
        raise ValueError(f"{name[:100]!r} has the type {kind}, which is not a TensorFlow type")
    if len(shape) > _MOST_DIMENSIONS or any(each < 0 for each in shape):
        raise ValueError(f"{name[:100]!r} has the impossible shape {str(list(shape))[:100]}")
    if math.prod(each or 1 for each in shape) > _LARGEST_SIZE:
        raise ValueError(f"{name[:100]!r} has the impossible shape {list(shape)}")
    return TensorEntry(kind, shape)


def _shape(message: memoryview) -> tuple[int, ...]:
    dimensions = []
    for number, value in _fields(message):
        if number == 2 and isinstance(value, memoryview):
            sizes = [size for field, size in _fields(value) if field == 1]
            size = sizes[-1] if sizes else 0
            if not isinstance(size, int):
                raise ValueError("its index is truncated or changed")
            dimensions.append(size - (1 << 64) if size >> 63 else size)
        elif number == 3 and value:
            raise ValueError("an array of its index has an unknown shape")
    return tuple(dimensions)


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a protocol buffer: number, and integer or bytes."""
    start = 0
    while start < len(message):
        key, start = _varint(message, start)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, start = _varint(message, start)
            yield number, value
            continue
        if wire == 2:
            length, start = _varint(message, start)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError("its index is truncated or changed")
        if start + length > len(message):
            raise ValueError("its index is truncated or changed")
        yield number, message[start : start + length]
        start += length


def _varint(content: memoryview, start: int) -> tuple[int, int]:
    """A varint of up to 64 bits, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[start]
        start += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & ((1 << 64) - 1), start
    raise ValueError("its index is truncated or changed")
