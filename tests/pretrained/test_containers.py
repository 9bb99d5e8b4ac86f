"""Each container format is written here byte by byte and read back."""

import gzip
import struct
import zlib

import pytest

from elmo_tf.errors import InputError
from pretrained import containers


def r_strings(values, kind=16):
    flags = 0x40009  # a string in UTF-8
    body = b"".join(struct.pack(">ii", flags, len(v.encode())) + v.encode() for v in values)
    return struct.pack(">ii", kind, len(values)) + body


def r_symbol(name):
    return struct.pack(">i", 1) + r_strings([name])[8:]


def r_named_list(items, names_symbol):
    body = struct.pack(">ii", 19 | 0x200, len(items)) + b"".join(items.values())
    attributes = struct.pack(">i", 0x402) + names_symbol + r_strings(items)
    return body + attributes + struct.pack(">i", 254)


def r_file(value, version=3):
    encoding = struct.pack(">i", 5) + b"UTF-8" if version == 3 else b""
    return b"X\n" + struct.pack(">iii", version, 0x40201, 0x30500) + encoding + value


def write_r_data(directory, vectors, version=3):
    content, places = b"", {}
    for name, values in vectors.items():
        plain = r_file(r_strings(values), version)
        block = struct.pack(">i", len(plain)) + zlib.compress(plain)
        places[name] = struct.pack(">iiii", 13, 2, len(content), len(block))
        content += block
    variables = r_named_list(places, r_symbol("names"))
    # The second list refers to the symbol that the first one named.
    reference = struct.pack(">i", 255 | 1 << 8)
    index = r_named_list({"variables": variables, "compressed": r_strings([])}, reference)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "Rdata.rdb"
    path.write_bytes(content)
    path.with_suffix(".rdx").write_bytes(gzip.compress(r_file(index, version)))
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_reads_r_data(tmp_path, version):
    vectors = {"emma": ["EMMA", "", "naïve heroine"], "persuasion": ["Sir Walter"]}
    assert containers.read_r_data(write_r_data(tmp_path, vectors, version)) == vectors


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"A\n" + bytes(100), "R data must be in the binary format of version 2 or 3"),
        (r_file(struct.pack(">iid", 14, 1, 0.5)), "R data holds a value of type 14"),
    ],
)
def test_says_which_r_data_is_not_read(tmp_path, content, message):
    path = tmp_path / "Rdata.rdb"
    path.with_suffix(".rdx").write_bytes(gzip.compress(content))
    path.write_bytes(b"")
    with pytest.raises(InputError, match=message):
        containers.read_r_data(path)


def write_ztext(directory, testaments):
    directory.mkdir(parents=True)
    for name, blocks in testaments.items():
        content, index = b"", b""
        for block in blocks:
            compressed = zlib.compress(block.encode())
            index += struct.pack("<III", len(content), len(compressed), len(block.encode()))
            content += compressed
        (directory / f"{name}.bzz").write_bytes(content)
        (directory / f"{name}.bzs").write_bytes(index)


def test_reads_ztext(tmp_path):
    write_ztext(tmp_path / "module", {"ot": ["Genesis “one”", "Exodus"], "nt": ["Matthew"]})
    read = list(containers.read_ztext(tmp_path / "module"))
    assert read == ["Genesis “one”", "Exodus", "Matthew"]


def lzw_literals(text):
    """Bytes as literal codes of nine bits, lowest bit first, which compress(1) reads."""
    assert len(text) < 250  # longer texts have wider codes
    bits = "".join(f"{byte:09b}"[::-1] for byte in text)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8))


def write_bible_data(path, windows):
    path.parent.mkdir(parents=True, exist_ok=True)
    compressed = [lzw_literals(window) for window in windows]
    start = 0x40 + 28 + 4 * len(windows) + 3
    offsets = [start + sum(map(len, compressed[:i])) for i in range(len(windows))]
    numbers = struct.pack(f">7I{len(windows)}I", 0, 0, 0, 0, 0, 65536, len(windows), *offsets)
    header = b"EC02Compressed Data File".ljust(0x40, b"\0")
    path.write_bytes(header + numbers + b"\x1f\x9d\x90" + b"".join(compressed))


def test_reads_bible_data_across_windows(tmp_path):
    write_bible_data(
        tmp_path / "bible.data",
        [b"Holy Bible.\nGe1:1 In the beg", b"inning: 2 days.\n1Sa2:10 And Hannah\n"],
    )
    assert containers.read_bible_data(tmp_path / "bible.data") == [
        ("Ge1", "In the beginning: 2 days."),
        ("1Sa2", "And Hannah"),
    ]


def write_dictd(directory, entries, headwords):
    directory.mkdir(parents=True, exist_ok=True)
    digits = containers._BASE64
    content, places = b"", []
    for entry in entries:
        places.append((len(content), len(entry.encode())))
        content += entry.encode()
    lines = [
        f"{word}\t{digits[offset // 64]}{digits[offset % 64]}\t{digits[size]}\n"
        for word, (offset, size) in ((word, places[i]) for word, i in headwords)
    ]
    (directory / "jargon.index").write_text("".join(lines), encoding="utf-8")
    path = directory / "jargon.dict.dz"
    path.write_bytes(gzip.compress(content))
    return path


def test_reads_each_entry_of_dictd_once_and_in_order(tmp_path):
    entries = ["about the base", "x" * 60, "hack\n    A quick jobé.\n"]
    headwords = [("00databaseinfo", 0), ("hack", 2), ("hacked", 2), ("xs", 1)]
    path = write_dictd(tmp_path, entries, headwords)
    assert list(containers.read_dictd(path)) == entries[1:]
