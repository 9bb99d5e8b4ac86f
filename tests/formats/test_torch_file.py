"""torch.save files: tensors equal PyTorch's, and no code in a file is ever run."""

import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.formats import torch_file

MODELS = ["char_only", "lstm_encoder", "three_layers", "word_char", "word_only"]
FILES = ["token_embedder", "encoder"]


@pytest.fixture(scope="module")
def folder(fixtures_dir):
    return fixtures_dir / "manylangs"


def read(path):
    with torch_file.open_tensors(str(path)) as tensors:
        return {name: tensor.read() for name, tensor in tensors.items()}


def error_of(path):
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) < 500
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("model", MODELS)
def test_tensors(folder, model, file):
    arrays = read(folder / model / f"{file}.pkl")
    expected = {
        name.removeprefix(f"{file}/"): array
        for name, array in np.load(folder / model / "weights.npz").items()
        if name.startswith(f"{file}/")
    }
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        assert arrays[name].dtype == array.dtype


def test_both_forms_and_shared_storages_are_among_them(folder):
    paths = [folder / model / f"{file}.pkl" for model in MODELS for file in FILES]
    assert {zipfile.is_zipfile(path) for path in paths} == {True, False}
    with torch_file.open_tensors(str(folder / "lstm_encoder/encoder.pkl")) as tensors:
        assert len(tensors) > 4
        part = tensors["encoder.weight_ih_l0"]
        np.testing.assert_array_equal(part.read(slice(1, 3)), part.read()[1:3])


@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.parametrize("model", ["word_char", "three_layers", "word_only"])
def test_cut_off_at_every_tenth(folder, tmp_path, model, tenth):
    for file in FILES:
        content = (folder / model / f"{file}.pkl").read_bytes()
        path = tmp_path / file
        path.write_bytes(content[: len(content) * tenth // 10])
        assert error_of(path).split(":")[0].startswith(("damaged", "is no file"))


class Reference:
    """An object outside of the pickle, like PyTorch's storages."""

    def __init__(self, value):
        self.value = value


class Call:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self._reduced = function, arguments

    def __reduce__(self):
        return self._reduced


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.value if isinstance(value, Reference) else None


def write(path, value, keys=(), is_zip=False, storages=b""):
    """Writes a file in one of the two forms, with any value as the state dict."""
    parts = [torch_file._MAGIC, torch_file._PROTOCOL, {}, value, list(keys)]
    if is_zip:
        with zipfile.ZipFile(path, "w") as archive, archive.open("m/data.pkl", "w") as file:
            Pickler(file, 2).dump(value)
        return path
    with open(path, "wb") as file:
        for part in parts:
            Pickler(file, 2).dump(part)
        file.write(storages)
    return path


@pytest.mark.parametrize("is_zip", [False, True])
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (os.system, "posix.system"),
        (eval, "__builtin__.eval"),
        (getattr, "__builtin__.getattr"),
        (np.ones, "numpy.ones"),
    ],
)
def test_code_is_refused_and_never_run(tmp_path, monkeypatch, is_zip, function, name):
    monkeypatch.chdir(tmp_path)
    call = Call(function, "touch ran")
    path = write(tmp_path / "file.pkl", {"a": call}, is_zip=is_zip)
    assert error_of(path) == f"refused: would call {name}, which no tensor needs"
    assert os.listdir(tmp_path) == ["file.pkl"]


@pytest.mark.parametrize(
    "reference",
    ["a", 5, ("module", 1), ("storage", "f4", "0", "cpu", 1), ("storage",) * 7],
)
def test_other_references_are_refused(tmp_path, reference):
    path = write(tmp_path / "file.pkl", {"a": Reference(reference)})
    assert error_of(path) == "refused: refers to an object that is not a storage"


@pytest.mark.parametrize("value", [[], 5, {"a": 1}, {1: 2}, "text"])
def test_what_is_no_state_dict(tmp_path, value):
    for is_zip in (False, True):
        path = write(tmp_path / "file.pkl", value, is_zip=is_zip)
        assert error_of(path) == "does not contain tensors by name"
        path.unlink()


def legacy(tmp_path, tensor, count=6, said=6, numbers=6):
    """A file with one tensor: (offset, shape, strides), of a storage of `count` numbers."""
    offset, shape, strides = tensor

    def integer(value):
        return pickle.dumps(value, 2)[2:-1]  # without protocol and end

    def integers(values):
        return b"(" + b"".join(map(integer, values)) + b"t"

    storage = b"(" + integer("storage") + b"ctorch\nFloatStorage\n" + integer("0")
    storage += integer("cpu") + integer(count) + b"NtQ"
    rebuilt = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integer(offset)
    rebuilt += integers(shape) + integers(strides) + b"\x89NtR"
    body = b"\x80\x02}" + integer("a") + rebuilt + b"s."
    with open(tmp_path / "file.pkl", "wb") as file:
        for part in (torch_file._MAGIC, torch_file._PROTOCOL, {}):
            pickle.dump(part, file, 2)
        file.write(body)
        pickle.dump(["0"], file, 2)
        file.write(struct.pack("<q", said))
        file.write(np.arange(numbers, dtype="<f4").tobytes())
    return tmp_path / "file.pkl"


def test_views(tmp_path):
    transposed = read(legacy(tmp_path, (0, (3, 2), (1, 3))))["a"]
    np.testing.assert_array_equal(transposed, np.arange(6).reshape(2, 3).T)
    np.testing.assert_array_equal(read(legacy(tmp_path, (4, (2,), (1,))))["a"], [4, 5])
    assert read(legacy(tmp_path, (5, (), ())))["a"] == 5
    assert read(legacy(tmp_path, (0, (0, 7), (7, 1))))["a"].shape == (0, 7)


@pytest.mark.parametrize(
    "tensor",
    [
        (5, (2,), (1,)),
        (0, (7,), (1,)),
        (-1, (2,), (1,)),
        (5, (2,), (-1,)),
        (0, (1 << 40, 1 << 20), (1 << 20, 1)),
        (0, (2, 2), (5, 3)),
    ],
)
def test_tensors_beyond_their_storage(tmp_path, tensor):
    assert error_of(legacy(tmp_path, tensor)) == "damaged: a is not within its storage"


def test_numbers_that_are_not_there(tmp_path):
    path = legacy(tmp_path, (0, (1 << 40,), (1,)), count=1 << 40, said=1 << 40)
    assert error_of(path) == "damaged or truncated: a is cut off"
    path = legacy(tmp_path, (0, (6,), (1,)), said=7)
    assert error_of(path) == "damaged or truncated: a storage has another size"


def test_a_view_repeated_without_end(tmp_path):
    """Strides of zero make a large array from a small file."""
    path = legacy(tmp_path, (0, (1 << 20, 1 << 20), (0, 0)))
    assert error_of(path) == "damaged: a is not within its storage"
