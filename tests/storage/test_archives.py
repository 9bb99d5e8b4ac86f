"""Files come out of archives bounded, and errors say whose fault it is."""

import errno
import os
import tarfile
import tempfile
import zipfile

import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage import archives


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A zip with a file of 3 MB; temporary files go to an empty folder."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with zipfile.ZipFile(tmp_path / "elmo.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/w.hdf5", b"abc" * 1_000_000)
    return str(tmp_path / "elmo.zip")


def extract(path, largest=None):
    with (
        archives.open_archive(path) as archive,
        archives.extracted(archive, "a/w.hdf5", largest) as copy,
        open(copy, "rb") as file,
    ):
        return file.read()


def error_of(path, largest=None):
    with pytest.raises(InputError) as caught:
        extract(path, largest)
    return str(caught.value)


@pytest.mark.parametrize("largest", [None, 3_000_000])
def test_a_copy_is_made_and_removed(path, tmp_path, largest):
    assert extract(path, largest) == b"abc" * 1_000_000
    assert os.listdir(tmp_path / "temporary") == []


def test_what_is_too_large_is_not_unpacked(path, monkeypatch):
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", lambda: pytest.fail("unpacked"))
    assert error_of(path, 2_999_999) == (
        f"{path}/a/w.hdf5: has 3,000,000 bytes, and a file that fits the options at most "
        "2,999,999; not unpacked"
    )


def test_a_size_that_is_not_true_gives_no_more_than_it_says(path):
    """The directory of names says 1,000 bytes, and 3 MB would come."""
    with open(path, "rb") as file:
        content = file.read()
    size = (3_000_000).to_bytes(4, "little")
    assert content.count(size) == 2
    with open(path, "wb") as file:
        file.write(content.replace(size, (1000).to_bytes(4, "little")))
    assert "damaged or truncated zip: Bad CRC-32" in error_of(path, 1000)


def test_a_full_temporary_directory_is_not_blamed_on_the_zip(path, tmp_path, monkeypatch):
    class Full(tempfile.SpooledTemporaryFile):
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    def missing():
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/gone")

    for make, reason in ((Full, "No space left on device"), (missing, "No such file or directory")):
        monkeypatch.setattr(tempfile, "NamedTemporaryFile", make)
        assert error_of(path) == (
            f"{path}/a/w.hdf5: its 3,000,000 bytes can't be unpacked in {tmp_path}/temporary: "
            f"{reason}; the environment variable TMPDIR names another directory"
        )


def test_names_in_a_tar(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("x")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "folder", "folder")
    assert list(archives.entries_of_tar(str(tmp_path / "a.tar.gz"))) == [
        ("folder", True),
        ("folder/file", False),
    ]
