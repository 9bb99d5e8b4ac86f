"""Archives: bounded extraction, no links or unsafe paths, and clear errors."""

import bz2
import errno
import gzip
import io
import os
import stat
import tarfile
import tempfile
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage import archives

CONTENT = b"abc" * 1_000_000


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """An empty directory for temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def write_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return str(path)


def write_tar(path, files, mode="w:gz"):
    """Writes a tar of contents by name; a `tarfile.TarInfo` is written unchanged."""
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if info is not content:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if info is not content else None)
    return str(path)


KINDS = {
    "zip": write_zip,
    "tar": lambda path, files: write_tar(path, files, "w"),
    "tar.gz": write_tar,
    "tar.bz2": lambda path, files: write_tar(path, files, "w:bz2"),
}


@pytest.fixture(params=KINDS)
def write(request, tmp_path):
    """Writes an archive of each kind with files by name; returns its path."""
    return lambda files: KINDS[request.param](tmp_path / f"elmo.{request.param}", files)


@pytest.fixture
def path(write, temporary):
    """An archive with a small file followed by a file of 3 MB."""
    return write({"first": b"1" * 1000, "a/w.hdf5": CONTENT})


def extract(path, largest=3_000_000, name="a/w.hdf5"):
    archive = archives.open_archive(path)
    with archives.unpacked(archive, name, largest) as copy, open(copy, "rb") as file:
        return file.read()


def error_of(path, *args):
    with pytest.raises(InputError) as caught:
        extract(path, *args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_are_listed_and_a_copy_is_made_and_removed(path, temporary):
    archive = archives.open_archive(path)
    assert archive.sizes == {"first": 1000, "a/w.hdf5": 3_000_000}
    assert extract(path) == CONTENT
    assert extract(path, 1000, "first") == b"1" * 1000
    assert os.listdir(temporary) == []


def test_an_archive_is_known_by_its_content(path, tmp_path):
    os.rename(path, tmp_path / "193")
    assert extract(str(tmp_path / "193")) == CONTENT
    (tmp_path / "options.json").write_text("{}")
    assert archives.open_archive(str(tmp_path / "options.json")) is None


def test_what_is_too_large_is_not_unpacked(path, temporary):
    assert error_of(path, 2_999_999) == (
        f"{path}/a/w.hdf5: has 3,000,000 bytes, and a file that fits the options at most "
        "2,999,999; not unpacked"
    )
    assert os.listdir(temporary) == []


def test_a_size_that_is_not_true_gives_no_more_than_it_says(tmp_path, temporary):
    """The archive's directory declares 1,000 bytes for a file of 3 MB."""
    path = write_zip(tmp_path / "elmo.zip", {"a/w.hdf5": CONTENT})
    with open(path, "rb") as file:
        content = file.read()
    size = (3_000_000).to_bytes(4, "little")
    assert content.count(size) == 2
    with open(path, "wb") as file:
        file.write(content.replace(size, (1000).to_bytes(4, "little")))
    assert "damaged or truncated zip: Bad CRC-32" in error_of(path, 1000)


def test_a_full_temporary_directory_is_not_blamed_on_the_archive(path, temporary, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "/gone")

    class Full(io.BytesIO):
        def write(self, content):
            raise full

    def raise_missing():
        raise missing

    ending = "; the environment variable TMPDIR names another directory"
    with monkeypatch.context() as patched:
        patched.setattr(archives, "_create", lambda path: Full())
        assert error_of(path) == (
            f"{path}/a/w.hdf5: its 3,000,000 bytes can't be unpacked in {temporary}: "
            f"No space left on device{ending}"
        )
    monkeypatch.setattr(tempfile, "TemporaryDirectory", raise_missing)
    assert error_of(path) == (
        f"{path}/a/w.hdf5: it can't be unpacked in {temporary}: No such file or directory{ending}"
    )


UNSAFE = ["../w", "a/../../w", "/etc/w", "C:w", "c:\\w", "a\\..\\w", "..", "\\w"]


@pytest.mark.parametrize("name", UNSAFE)
def test_names_that_lead_out_of_the_archive(write, temporary, name):
    path = write({"options.json": b"{}", name: b"x"})
    with pytest.raises(InputError) as caught:
        archives.open_archive(path)
    shown = str(caught.value).removeprefix(path)
    assert shown.startswith(": holds ")
    assert shown.endswith("a name that leads out of the archive; not read")
    assert os.listdir(temporary) == []


def special(kind, name="weights.hdf5"):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = "/etc/passwd"
    return info


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "is a link, which no model needs"),
        (tarfile.LNKTYPE, "is a link or device, and no ordinary file, which no model needs"),
        (tarfile.CHRTYPE, "is a link or device, and no ordinary file, which no model needs"),
        (tarfile.FIFOTYPE, "is a link or device, and no ordinary file, which no model needs"),
    ],
)
def test_links_and_devices_in_a_tar(tmp_path, kind, what):
    path = write_tar(tmp_path / "a.tar.gz", {"options.json": b"{}", "weights.hdf5": special(kind)})
    with pytest.raises(InputError) as caught:
        archives.open_archive(path)
    assert str(caught.value) == f"{path}: weights.hdf5 {what}; not read"


def test_links_in_a_zip(tmp_path):
    info = zipfile.ZipInfo("options.json")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = write_zip(tmp_path / "a.zip", {info: b"/etc/passwd"})
    with pytest.raises(InputError, match=r"options.json is a link, which no model needs; not read"):
        archives.open_archive(path)


def bounded(path):
    """The error of an archive, raised within seconds and with little memory."""
    tracemalloc.start()
    begin = time.monotonic()
    try:
        with pytest.raises(InputError) as caught:
            archives.open_archive(str(path))
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
        assert time.monotonic() - begin < 10
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def header(name=b"weights.hdf5", size=0, kind=b"0"):
    """A tar header of 512 bytes with a size that tarfile would not write."""
    info = tarfile.TarInfo(name.decode())
    info.type = kind
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    negative = size < 0
    block[124:136] = (b"\xff" if negative else b"\x80") + size.to_bytes(11, "big", signed=negative)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


MANY_HEADERS = b"".join(header(b"%d" % i) for i in range(10_001))


@pytest.mark.parametrize("open_stream", [gzip.open, bz2.open])
def test_a_bomb_in_a_tar(tmp_path, open_stream):
    """200 MB of zeros, in an archive whose size allows at most 100 MB."""
    path = tmp_path / "bomb.tar.gz"
    with open_stream(path, "wb") as file:
        file.write(header(size=200 << 20))
        for _ in range(200):
            file.write(bytes(1 << 20))
        file.write(bytes(1024))
    assert " bytes, 100 times its size and more, which no model does; not unpacked" in bounded(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(size=1 << 62), "100 times its size and more"),
        (header(size=-512), "damaged or truncated tar: "),
        (header(kind=b"L", size=1 << 40), "damaged or truncated tar: a header of 1,099,511,627,"),
        (header(kind=b"x", size=1 << 40), "damaged or truncated tar: a header of 1,099,511,627,"),
        (header(kind=b"L", size=-512), "damaged or truncated tar: "),
        (header(kind=b"g", size=512) * 5000, "damaged or truncated tar: "),
        (header(kind=b"S", size=0), "is a link or device, and no ordinary file"),
        (
            MANY_HEADERS,
            "holds more than 10,000 files, which no model has",
        ),
        (b"no tar at all", "damaged or truncated tar: "),
    ],
    ids=range(9),
)
def test_tars_that_are_not_what_they_say(tmp_path, content, message):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(content + bytes(1024)))
    assert message in bounded(path)


def test_many_names_in_a_zip(tmp_path):
    path = write_zip(tmp_path / "a.zip", {f"{i}": b"" for i in range(10_001)})
    assert "holds more than 10,000 files, which no model has" in bounded(path)


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_and_changed_archives(tmp_path, temporary, kind):
    """Each is refused in one line, or its content is still correct; no file stays behind."""
    path = tmp_path / f"elmo.{kind}"
    rng = np.random.default_rng(3)
    KINDS[kind](path, {"first": rng.bytes(2000), "a/w.hdf5": rng.bytes(3000)})
    content, whole = path.read_bytes(), extract(str(path))
    damaged = [content[: len(content) * part // 10] for part in range(10)]
    for _ in range(40):
        start = int(rng.integers(len(content) - 4))
        damaged.append(content[:start] + rng.bytes(4) + content[start + 4 :])
    messages = []
    for each in damaged:
        path.write_bytes(each)
        try:
            archive = archives.open_archive(str(path))
            if "a/w.hdf5" in archive.sizes:
                came = extract(str(path), 5000)
                assert kind == "tar" or came == whole  # a plain tar has no checksum of its files
        except InputError as error:
            messages.append(str(error))
    assert len(messages) >= (4 if kind == "tar" else 25)
    assert not any("\n" in message for message in messages)
    assert os.listdir(temporary) == []


def test_names_in_a_tar(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("x")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "folder", "folder")
    assert list(archives.entries_of_tar(str(tmp_path / "a.tar.gz"))) == [
        ("folder", True),
        ("folder/file", False),
    ]
