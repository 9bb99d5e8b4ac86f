"""The command `python -m export.export_elmo`, its messages and its mistakes."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest
import tensorflow as tf

from elmo_tf.export import export_elmo
from elmo_tf.model import loading
from tests import models
from tests.export.small import VOCABULARY, difference

TEXT = tf.constant(["the cat sat", "one"])


@pytest.fixture(scope="module")
def pair(encoder, tmp_path_factory):
    """A directory with the encoder's weights in bilm-tf format, which has no scalar mix."""
    return models.write_pair(tmp_path_factory.mktemp("published"), encoder)


def run(capsys, **flags):
    """Exit status, stdout and stderr of the command in this process."""
    status = export_elmo.main([f"--{name}={value}" for name, value in flags.items()])
    return status, *capsys.readouterr()


def test_the_printed_lines_load_what_was_written(pair, tmp_path, capsys):
    path = tmp_path / "exported"
    status, out, err = run(capsys, model=pair, output_dir=path, archive=True)
    assert (status, err) == (0, "")
    head, code = out.split("\n\n")
    assert [line.split(": ")[0] for line in head.splitlines()] == [
        f"wrote {path}",
        f"wrote {path}.tar.gz",
    ]
    assert all(line.endswith(" MB") for line in head.splitlines())
    names = {}
    exec(code, names)
    assert names["outputs"]["elmo"].shape == (1, 7, 12)
    assert "[1, 7, 12]" in code and "[1, 12]" in code


def test_an_export_can_be_exported_again(exported, encoder, tmp_path, capsys):
    status, _, err = run(capsys, model=exported, output_dir=tmp_path / "again", trainable="all")
    assert (status, err) == (0, "")
    again = tf.saved_model.load(str(tmp_path / "again"))
    assert difference(again(TEXT), encoder(TEXT)) <= 1e-6
    assert len(again.trainable_variables) == len(again.variables)
    assert (tmp_path / "again/assets.extra/vocab.txt").read_bytes() == VOCABULARY
    assert "earlier export" in (tmp_path / "again/assets.extra/README.md").read_text()


def test_what_the_user_has_to_mend(pair, exported, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("years of work")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/saved_model.pb").write_bytes(b"")
    new = tmp_path / "new"
    for flags, status, message in (
        ({"model": tmp_path / "gone", "output_dir": new}, 1, "gone: there is no such file"),
        ({"model": pair, "output_dir": exported}, 1, "exported: already exists; --overwrite"),
        ({"model": pair, "output_dir": tmp_path / "mine/thesis.tex/a"}, 1, "is not a directory"),
        ({"model": pair, "output_dir": tmp_path / "mine", "overwrite": True}, 1, "thesis.tex"),
        ({"model": tmp_path / "foreign", "output_dir": new}, 1, "not an export of elmo_tf"),
        ({"model": pair, "output_dir": new, "trainable": "some"}, 2, "trainable"),
        ({"model": pair}, 2, "--output_dir: required"),
    ):
        actual, out, err = run(capsys, **flags)
        assert (actual, out) == (status, "")
        assert err.startswith("elmo-export: ") and err.count("\n") == 1
        assert message in err
    assert not new.exists()


def test_the_model_is_not_deleted_with_what_is_replaced(exported, pair, tmp_path, capsys):
    former = tmp_path / "former"
    (former / "source").mkdir(parents=True)
    (former / "saved_model.pb").write_bytes(b"")
    for path in pair.iterdir():
        (former / "source" / path.name).write_bytes(path.read_bytes())
    status, _, err = run(capsys, model=former / "source", output_dir=former, overwrite=True)
    assert status == 2
    assert "former holds the model itself" in err
    assert (former / "source/weights.hdf5").exists()


def test_an_export_can_replace_itself(exported, encoder, tmp_path, capsys):
    path = tmp_path / "exported"
    assert run(capsys, model=exported, output_dir=path)[0] == 0
    assert run(capsys, model=path, output_dir=path, overwrite=True)[0] == 0
    again = loading.load_encoder(path)
    assert difference(again(TEXT), encoder(TEXT)) == 0.0


def test_as_a_shell_sees_it(pair, tmp_path, project_dir):
    """Results are on stdout, stderr is empty, and the files contain no path of this machine."""
    model = pair.relative_to(tmp_path.parent)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TF_CPP")}
    finished = subprocess.run(
        [sys.executable, "-m", "export.export_elmo", f"--model={model}", "--output_dir=exported"],
        cwd=tmp_path.parent,
        env={**environment, "PYTHONPATH": str(project_dir)},
        capture_output=True,
        text=True,
    )
    path = tmp_path.parent / "exported"
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.startswith("wrote exported: ")
    private = [str(tmp_path.parent), str(project_dir), str(pathlib.Path.home()), pair.name]
    private += [socket.gethostname(), sys.prefix, ".py"]
    for file in path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert [t for t in private if len(t) > 2 and t.encode() in content] == [], file
