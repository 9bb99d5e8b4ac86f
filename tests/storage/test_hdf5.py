import os
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
    bits = rng.integers(0, 2**32, size=(5, 7), dtype=np.uint32)  # NaNs of all kinds among them
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
    assert error_of(tmp_path / "raw.hdf5").endswith("a keeps its values in another file")


def test_groups_in_a_circle_and_dangling_links_end(tmp_path):
    with h5py.File(tmp_path / "circle.hdf5", "w") as file:
        group = file.create_group("g")
        group["back"] = group
    with h5py.File(tmp_path / "dangling.hdf5", "w") as file:
        file["a"] = h5py.SoftLink("/nowhere")
    assert error_of(tmp_path / "circle.hdf5").endswith("groups within groups without end")
    assert "damaged or truncated HDF5 file: " in error_of(tmp_path / "dangling.hdf5")
