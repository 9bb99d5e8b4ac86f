"""Writes indexes of TensorFlow checkpoints with arbitrary entries and correct checksums."""

import struct


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _crc_table()


def masked_crc(data):
    """CRC-32C as TensorFlow stores it."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC[(value ^ byte) & 255] ^ (value >> 8)
    value ^= 0xFFFFFFFF
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(number):
    number &= (1 << 64) - 1
    encoded = bytearray()
    while True:
        number, low = number >> 7, number & 127
        encoded.append(low | (128 if number else 0))
        if not number:
            return bytes(encoded)


def _integer(field, number):
    return _varint(field << 3) + _varint(number)


def _message(field, content):
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def entry(kind=1, shape=(2,), offset=0, size=8, shard=0, crc=0, has_unknown_rank=False):
    """The entry of an array in an index: `BundleEntryProto`."""
    dimensions = b"".join(_message(2, _integer(1, size)) for size in shape)
    if has_unknown_rank:
        dimensions += _integer(3, 1)
    numbers = _integer(3, shard) + _integer(4, offset) + _integer(5, size)
    sum_of_values = _varint(6 << 3 | 5) + struct.pack("<I", crc)
    return _integer(1, kind) + _message(2, dimensions) + numbers + sum_of_values


def _block(items):
    entries = b"".join(
        _varint(0) + _varint(len(key)) + _varint(len(value)) + key + value for key, value in items
    )
    return entries + struct.pack("<II", 0, 1)


def index(entries, num_shards=1, compression=0):
    """The bytes of an index with these entries by name."""
    items = [(b"", _integer(1, num_shards)), *sorted((k.encode(), v) for k, v in entries.items())]
    content = bytearray()

    def add(block):
        offset = len(content)
        kind = bytes([compression])
        content.extend(block + kind + struct.pack("<I", masked_crc(block + kind)))
        return _varint(offset) + _varint(len(block))

    data, rest = add(_block(items)), add(_block([]))
    blocks = add(_block([(items[-1][0] + b"~", data)]))
    return bytes(content) + (rest + blocks).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
