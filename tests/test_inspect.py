"""The command elmo-inspect: lines or JSON about a model, and the table of models with names."""

import json
import shutil

import pytest

from elmo_tf import inspect


def run(capsys, *arguments):
    status = inspect.main(list(arguments))
    return status, *capsys.readouterr()


def test_a_model(small_pair, capsys):
    status, out, err = run(capsys, f"--model={small_pair}")
    assert (status, err) == (0, "")
    assert out.splitlines()[1] == "format        bilm-tf pair"
    status, out, _ = run(capsys, f"--model={small_pair}", "--json")
    assert status == 0
    assert json.loads(out)["format"] == "bilm-tf pair"


def test_a_model_that_can_not_be_read(small_pair, tmp_path, capsys):
    pair = shutil.copytree(small_pair, tmp_path / "pair")
    (pair / "weights.hdf5").write_bytes(b"no HDF5")
    status, out, err = run(capsys, f"--model={pair}")
    assert status == 1
    assert "files         " in out
    message = f"{pair}/weights.hdf5: is not an HDF5 file: it begins with b'no HDF5'"
    assert out.splitlines()[-1] == f"problem       {message}"
    assert err == f"elmo-inspect: {message}\n"


@pytest.mark.parametrize("arguments", [[], ["--model=a", "--list"]])
def test_one_of_two_flags(arguments, capsys):
    status, _, err = run(capsys, *arguments)
    assert (status, err) == (2, "elmo-inspect: --model and --list: give one of them\n")


def test_published_models(capsys):
    status, out, _ = run(capsys, "--list")
    assert status == 0
    assert out.splitlines()[0].split() == ["name", "language", "size", "licence", "source"]
    assert any(line.startswith("manylangs/basque ") for line in out.splitlines())
    status, out, _ = run(capsys, "--list", "--json")
    assert {"name", "urls", "licence"} <= json.loads(out)[0].keys()
