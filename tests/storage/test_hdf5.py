import errno
import itertools
import os
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage import hdf5


def read(path, source=None):
    with hdf5.open_datasets(path, source) as datasets:
        return {name: dataset.read() for name, dataset in datasets.items()}


def error_of(path, source=None):
    with pytest.raises(InputError) as caught:
        read(path, source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_arrays_come_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, size=(5, 7), dtype=np.uint32)  # includes various NaNs
    arrays = {
        "b/deep/x": bits.view(np.float32),
        "a": np.float16([[1.5]]),
        "empty": np.zeros((0, 3)),
    }
    hdf5.write_arrays(tmp_path / "w.hdf5", arrays)
    found = read(tmp_path / "w.hdf5")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_equal_arrays_give_equal_files(tmp_path):
    arrays = {"b/x": np.arange(6, dtype=np.float32), "a": np.ones((2, 3), np.float32)}
    hdf5.write_arrays(tmp_path / "1.hdf5", arrays)
    time.sleep(1.1)  # HDF5 stores times in whole seconds
    hdf5.write_arrays(tmp_path / "2.hdf5", dict(reversed(arrays.items())))
    assert (tmp_path / "1.hdf5").read_bytes() == (tmp_path / "2.hdf5").read_bytes()


def test_failure_while_writing_leaves_the_old_file(tmp_path):
    hdf5.write_arrays(tmp_path / "w.hdf5", {"a": np.ones(3)})
    with pytest.raises(TypeError):
        hdf5.write_arrays(tmp_path / "w.hdf5", {"a": np.zeros(3), "b": object()})
    np.testing.assert_array_equal(read(tmp_path / "w.hdf5")["a"], np.ones(3))
    assert os.listdir(tmp_path) == ["w.hdf5"]


def test_array_under_two_names_is_found_under_both(tmp_path):
    with h5py.File(tmp_path / "w.hdf5", "w") as file:
        file["x/one"] = np.arange(3.0)
        file["y/two"] = file["x/one"]
        file["soft"] = h5py.SoftLink("/x/one")
        file.create_group("nothing/in/here")
    assert read(tmp_path / "w.hdf5").keys() == {"x/one", "y/two", "soft"}


def test_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    hdf5.write_arrays("~/w.hdf5", {"a": np.ones(3)})
    assert read("~/w.hdf5").keys() == {"a"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an HDF5 file: it is empty"),
        (b"{}", "is not an HDF5 file: it begins with b'{}'"),
        (
            b"<!DOCTYPE html>\n<html><body>404",
            "is not an HDF5 file: it begins with b'<!DOCTYPE html>\\n'",
        ),
        (b"\x89HDF", "is not an HDF5 file: it begins with b'\\x89HDF'"),
        (b"PK\x03\x04" + bytes(50), "is not an HDF5 file: it begins with b'PK\\x03\\x04"),
    ],
)
def test_what_is_not_hdf5_is_shown(tmp_path, content, message):
    path = tmp_path / "w.hdf5"
    path.write_bytes(content)
    assert error_of(path).startswith(f"{path}: {message}")
    assert error_of(path, "elmo.zip/w.hdf5").startswith(f"elmo.zip/w.hdf5: {message}")


def test_what_cannot_be_read(tmp_path):
    assert error_of(tmp_path / "no").endswith("no: cannot be read: No such file or directory")
    assert error_of(tmp_path).endswith("cannot be read: Is a directory")


def test_a_user_block_before_the_data_is_allowed(tmp_path):
    with h5py.File(tmp_path / "w.hdf5", "w", userblock_size=512) as file:
        file["a"] = np.arange(3.0)
    assert read(tmp_path / "w.hdf5").keys() == {"a"}


def test_file_cut_anywhere_is_damaged(tmp_path):
    path = tmp_path / "w.hdf5"
    rng = np.random.default_rng(5)
    hdf5.write_arrays(path, {f"g{i}/a": rng.normal(size=(9, 11)) for i in range(5)})
    content = path.read_bytes()
    for length in range(8, len(content), len(content) // 37):
        path.write_bytes(content[:length])
        message = error_of(path)
        assert "damaged or truncated HDF5 file: " in message or "is not an HDF5 file" in message


def test_overwritten_bytes_never_give_another_kind_of_error(tmp_path):
    path = tmp_path / "w.hdf5"
    rng = np.random.default_rng(7)
    hdf5.write_arrays(path, {f"g{i}/a": rng.normal(size=(3, 5)) for i in range(3)})
    content = path.read_bytes()
    messages = []
    for _ in range(150):
        damaged = bytearray(content)
        start = int(rng.integers(8, len(content) - 16))
        damaged[start : start + 16] = rng.bytes(16)
        path.write_bytes(damaged)
        try:
            read(path)
        except InputError as error:
            messages.append(str(error))
        except MemoryError:  # a size of petabytes; `bilm_tf` compares shapes before it reads
            messages.append("memory")
    assert len(messages) > 20
    assert not any("\n" in message for message in messages)


def test_nothing_outside_the_file_is_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(24)))
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["a"] = np.arange(3.0)
    with h5py.File(tmp_path / "link.hdf5", "w") as file:
        file["g/a"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/a")
    with h5py.File(tmp_path / "raw.hdf5", "w") as file:
        file.create_dataset("a", (3,), np.float64, external=[(str(secret), 0, 24)])
    assert error_of(tmp_path / "link.hdf5").endswith(
        "g/a is a link to another file, which is not followed"
    )
    assert error_of(tmp_path / "raw.hdf5").endswith(
        "a has its values in another file, which is not read"
    )


def test_groups_in_a_circle_and_dangling_links_end(tmp_path):
    with h5py.File(tmp_path / "circle.hdf5", "w") as file:
        group = file.create_group("g")
        group["back"] = group
    with h5py.File(tmp_path / "dangling.hdf5", "w") as file:
        file["a"] = h5py.SoftLink("/nowhere")
    assert error_of(tmp_path / "circle.hdf5").endswith("groups within groups without end")
    assert "damaged or truncated HDF5 file: " in error_of(tmp_path / "dangling.hdf5")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_virtual_dataset_is_not_followed(tmp_path, is_there):
    """If its file is missing, HDF5 would return fill values as weights."""
    if is_there:
        hdf5.write_arrays(tmp_path / "other.hdf5", {"a": np.ones(3, np.float32)})
    layout = h5py.VirtualLayout((3,), np.float32)
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "a", (3,))
    with h5py.File(tmp_path / "w.hdf5", "w") as file:
        file.create_virtual_dataset("g/a", layout, fillvalue=0.5)
    assert error_of(tmp_path / "w.hdf5").endswith(
        "g/a has its values in another file, which is not read"
    )


def test_a_soft_link_does_not_lead_outside(tmp_path):
    hdf5.write_arrays(tmp_path / "other.hdf5", {"g/a": np.ones(3, np.float32)})
    with h5py.File(tmp_path / "w.hdf5", "w") as file:
        file["z"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/g")
        file["a"] = h5py.SoftLink("/z/a")  # met first
    assert error_of(tmp_path / "w.hdf5").endswith("w.hdf5: a is in another file, which is not read")


def test_groups_that_form_a_graph_end(tmp_path, monkeypatch):
    """Each of 6 groups has 30 links to the next one: 30 ** 6 paths to the array."""
    with h5py.File(tmp_path / "w.hdf5", "w") as file:
        groups = [file.create_group(f"g{number}") for number in range(6)]
        for outer, inner in itertools.pairwise(groups):
            for number in range(30):
                outer[str(number)] = inner
        groups[-1]["a"] = np.ones(3)
    monkeypatch.setattr(hdf5, "_MOST_NAMES", 1000)
    assert "more than 1,000 names of arrays and groups" in error_of(tmp_path / "w.hdf5")


def test_very_many_arrays_are_not_even_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "_MOST_NAMES", 10)
    hdf5.write_arrays(tmp_path / "w.hdf5", {str(number): np.ones(1) for number in range(10)})
    assert len(read(tmp_path / "w.hdf5")) == 10
    hdf5.write_arrays(tmp_path / "w.hdf5", {str(number): np.ones(1) for number in range(11)})
    assert "more than 10 names of arrays and groups" in error_of(tmp_path / "w.hdf5")


def test_a_missing_filter_is_named(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "w.hdf5", "w") as file:
        file.create_dataset("a", data=np.ones(100), compression="lzf")
    assert read(tmp_path / "w.hdf5").keys() == {"a"}
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: False)
    assert "a is compressed with filter 32000 (lzf), which h5py lacks here" in error_of(
        tmp_path / "w.hdf5"
    )


READER = """
import sys
from elmo_tf.storage import hdf5
try:
    hdf5.open_datasets(sys.argv[1]).__enter__()
except ValueError as error:
    print(error)
"""


def test_a_locked_file_is_not_called_damaged(tmp_path, project_dir):
    path = tmp_path / "w.hdf5"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HDF5_")}
    with h5py.File(path, "w", locking=True) as file:
        file["a"] = np.ones(3)
        file.flush()
        # Within one process HDF5 opens a file twice and needs no lock.
        result = subprocess.run(
            [sys.executable, "-c", READER, path],
            env={**environment, "PYTHONPATH": str(project_dir)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert result.stdout.startswith(f"{path}: is locked: another process has it open for writing")
    assert "HDF5_USE_FILE_LOCKING=FALSE" in result.stdout


@pytest.mark.parametrize("chunks", [None, (2,)])
def test_a_dataset_that_was_never_written_has_no_values(tmp_path, chunks):
    with h5py.File(tmp_path / "w.hdf5", "w") as file:
        file["empty"] = np.zeros((0, 2), np.float32)
        file["zeros"] = np.zeros(3, np.float32)
    assert read(tmp_path / "w.hdf5").keys() == {"empty", "zeros"}
    with h5py.File(tmp_path / "w.hdf5", "a") as file:
        file.create_dataset("a", (3,), np.float32, chunks=chunks, fillvalue=7.0)
    assert error_of(tmp_path / "w.hdf5").endswith("w.hdf5: a has no values: none were ever written")


@pytest.mark.parametrize("allowed", [0, 100, 2500, 3000, 10_000])
def test_a_full_disk_is_one_line_and_the_old_file_stays(tmp_path, monkeypatch, allowed):
    """A failed write makes HDF5 abort the process, so HDF5 must not get the error."""
    path = tmp_path / "w.hdf5"
    rng = np.random.default_rng(5)
    hdf5.write_arrays(path, {"a": np.ones(3)})
    pwrite = os.pwrite

    def full(descriptor, content, offset):
        if offset + len(content) > allowed:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(InputError) as caught:
        hdf5.write_arrays(path, {f"g{i}/a": rng.normal(size=(9, 50)) for i in range(5)})
    assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert os.listdir(tmp_path) == ["w.hdf5"]
    assert read(path).keys() == {"a"}


@pytest.mark.parametrize("name", ["\udcff.hdf5", "語.hdf5"])
def test_names_that_are_not_utf8(tmp_path, name):
    hdf5.write_arrays(tmp_path / name, {"a": np.ones(3)})
    assert read(tmp_path / name).keys() == {"a"}


def test_a_name_that_no_file_can_have():
    assert "cannot be read: embedded null byte" in error_of("a\0b")
