"""Readers of the container formats in the packages, without R, SWORD or dictd."""

import gzip
import re
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmo_tf.errors import InputError

# Types of R's serialization format that data sets of character vectors consist of.
_R_SYMBOL, _R_PAIRS, _R_STRING = 1, 2, 9
_R_INTEGERS, _R_LOGICALS, _R_STRINGS, _R_LIST = 13, 10, 16, 19
_R_REFERENCE, _R_NULL = 255, 254
_R_HAS_ATTRIBUTES, _R_HAS_TAG = 0x200, 0x400
_R_MISSING = -1

# bible.data: a header of 64 bytes, numbers, the offsets of the windows, and the windows.
_BIBLE_NUMBERS = 0x40
_COMPRESS_HEADER = b"\x1f\x9d\x90"  # of compress(1), with codes of up to 16 bits

_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def read_r_data(path: Path) -> dict[str, list[str]]:
    """Reads the character vectors of an R package's data, `Rdata.rdb`, by name.

    Args:
      path: path of `Rdata.rdb`; its index `Rdata.rdx` must be in the same directory.
    """
    index = _RReader(gzip.decompress(path.with_suffix(".rdx").read_bytes())).read()
    content = path.read_bytes()
    vectors = {}
    for name, (offset, size) in index["variables"].items():
        # Each block begins with four bytes for its decompressed size.
        vectors[name] = _RReader(zlib.decompress(content[offset + 4 : offset + size])).read()
    return vectors


class _RReader:
    """Reads one value in R's serialization format, binary ("X"), version 2 or 3."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 2  # "X\n"
        self._symbols: list[str] = []
        version = self._integers(3)[0]
        if content[:2] != b"X\n" or version not in (2, 3):
            raise InputError("R data must be in the binary format of version 2 or 3")
        if version == 3:
            self._bytes(self._integers(1)[0])  # the encoding's name

    def read(self) -> Any:
        flags = self._integers(1)[0]
        kind = flags & 0xFF
        if kind == _R_NULL:
            return None
        if kind == _R_SYMBOL:
            self._symbols.append(self.read())
            return self._symbols[-1]
        if kind == _R_REFERENCE:
            return self._symbols[(flags >> 8) - 1]
        if kind == _R_STRING:
            size = self._integers(1)[0]
            return "" if size == _R_MISSING else self._bytes(size).decode("utf-8")
        if kind == _R_PAIRS:
            return self._pairs(flags)
        return self._vector(kind, bool(flags & _R_HAS_ATTRIBUTES))

    def _vector(self, kind: int, has_attributes: bool) -> Any:
        count = self._integers(1)[0]
        if kind in (_R_INTEGERS, _R_LOGICALS):
            values = list(self._integers(count))
        elif kind in (_R_STRINGS, _R_LIST):
            values = [self.read() for _ in range(count)]
        else:
            raise InputError(f"R data holds a value of type {kind}, which is not read")
        attributes = self.read() if has_attributes else {}
        if kind == _R_LIST and "names" in attributes:
            return dict(zip(attributes["names"], values, strict=True))
        return values

    def _pairs(self, flags: int) -> dict[str, Any]:
        """A list of pairs with tags, as attributes are."""
        pairs = {}
        while flags & 0xFF == _R_PAIRS:
            if not flags & _R_HAS_TAG:
                raise InputError("R data holds a list of pairs without names, which is not read")
            name = self.read()
            pairs[name] = self.read()
            flags = self._integers(1)[0]
        return pairs

    def _integers(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f">{count}i", self._bytes(4 * count))

    def _bytes(self, count: int) -> bytes:
        self._position += count
        return self._content[self._position - count : self._position]


def read_ztext(directory: Path) -> Iterator[str]:
    """Yields the books of a SWORD module in zText form with `BlockType=BOOK`.

    Args:
      directory: directory with `ot.bzs`, `ot.bzz`, `nt.bzs` and `nt.bzz`.
    """
    for testament in ("ot", "nt"):
        content = (directory / f"{testament}.bzz").read_bytes()
        index = (directory / f"{testament}.bzs").read_bytes()
        for offset, size, _ in struct.iter_unpack("<III", index):
            yield zlib.decompress(content[offset : offset + size]).decode("utf-8")


def read_bible_data(path: Path) -> list[tuple[str, str]]:
    """Reads `bible.data` of Debian's bible-kjv-text: (book and chapter, verse) for each verse."""
    content = path.read_bytes()
    count = struct.unpack_from(">I", content, _BIBLE_NUMBERS + 24)[0]
    offsets = struct.unpack_from(f">{count}I", content, _BIBLE_NUMBERS + 28)
    ends = (*offsets[1:], len(content))
    text = b"".join(map(_uncompress, [content[i:j] for i, j in zip(offsets, ends, strict=True)]))
    # "Ge1:1 In the beginning ..."; the first line is a title.
    return re.findall(r"^(\d?[A-Za-z]+\d+):\d+ (.*)$", text.decode("latin-1"), re.MULTILINE)


def _uncompress(window: bytes) -> bytes:
    """Expands LZW codes as compress(1) writes them; gzip reads those too."""
    command = ["gzip", "-dc"]
    return subprocess.run(
        command, input=_COMPRESS_HEADER + window, stdout=subprocess.PIPE, check=True
    ).stdout


def read_dictd(path: Path) -> Iterator[str]:
    """Yields the distinct entries of a dictd dictionary in order, without its metadata.

    Args:
      path: path of the `.dict.dz`; the `.index` must be in the same directory.
    """
    content = gzip.decompress(path.read_bytes())
    index = path.with_name(path.name.removesuffix(".dict.dz") + ".index")
    places = set()
    for line in index.read_text(encoding="utf-8").splitlines():
        headword, offset, size = line.split("\t")
        if not headword.startswith("00database"):
            places.add((_base64_number(offset), _base64_number(size)))
    for offset, size in sorted(places):
        yield content[offset : offset + size].decode("utf-8", "replace")


def _base64_number(digits: str) -> int:
    number = 0
    for digit in digits:
        number = number * len(_BASE64) + _BASE64.index(digit)
    return number
