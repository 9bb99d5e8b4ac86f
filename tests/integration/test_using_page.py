"""Runs every example of docs/using.md, section by section, next to a user's files."""

import functools
import http.server
import json
import os
import re
import shutil
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_tf.export import saved_model
from elmo_tf.model.encoder import ElmoEncoder
from tests import models
from tests.integration.test_consumers import run
from tests.test_readme import CONFIG, EXAMPLE, PROJECTION, SENTENCES, run_python, run_shell

# Keras 3.15 saves variables through an `__array__` that NumPy 2 wants to have a `copy` argument.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
PAGE = (Path(__file__).parents[2] / "docs/using.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
SLOW = {"In Keras 2", "In Keras 3 without this package", "Fine-tuning"}
SERVER = "127.0.0.1:8000"  # as the page has it


def examples(language, text=PAGE):
    return [code for found, code in EXAMPLE.findall(text) if found == language]


WITH_PYTHON = [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name, text in SECTIONS.items()
    if examples("python", text)
]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A directory with a model in bilm-tf format, and vectors of three lines of text."""
    folder = models.write_pair(tmp_path_factory.mktemp("published"), models.small_encoder(CONFIG))
    with h5py.File(folder / "vectors.hdf5", "w") as file:
        for number, length in enumerate([4, 0, 2]):
            file[str(number)] = np.ones([3, length, 2 * PROJECTION], np.float32)
    return folder


@pytest.fixture(scope="module")
def files(published, tmp_path_factory):
    """The same directory with an export."""
    folder = tmp_path_factory.mktemp("files") / "files"
    shutil.copytree(published, folder)
    encoder = ElmoEncoder.from_weights(folder / "options.json", folder / "weights.hdf5")
    saved_model.export(encoder, folder / "exported", archive=True)
    return folder


@pytest.fixture
def port(files):
    """The port of a web server with the export."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=files)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.traced
@pytest.mark.parametrize("name", WITH_PYTHON)
def test_python(name, files, port, tmp_path, monkeypatch):
    shutil.copytree(files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    names, num_compared = {}, 0
    for code in examples("python", SECTIONS[name]):
        code = code.replace(SERVER, f"127.0.0.1:{port}")
        num_compared += run_python(code, names, {"P": PROJECTION})
    assert num_compared >= 1
    if name == "In Keras 3":
        assert names["tagger"].output_shape == (None, None, 5)
        assert names["mix"](names["batch"]).shape == (1, 2, 2 * PROJECTION)


def test_bodies_of_requests(files, tmp_path):
    bodies = [json.loads(code) for code in examples("json")]
    assert {"instances", "inputs"} <= set().union(*bodies)
    (tmp_path / "bodies").write_text("".join(f"{json.dumps(body)}\n" for body in bodies))
    lines = run("serving_rest.py", files / "exported", tmp_path / "bodies", folder=tmp_path)
    answers = [json.loads(line) for line in lines.splitlines()]
    assert len(answers) == len(bodies)
    for body, answer in zip(bodies, answers, strict=True):
        rows = answer.get("predictions") or [answer["outputs"]]
        assert len(rows) == len(body.get("instances", [0]))
        assert all(np.shape(row["elmo"])[-1] == 2 * PROJECTION for row in rows)


@pytest.mark.slow
def test_shell(published, project_dir, tmp_path, monkeypatch):
    folder = tmp_path / "here"
    shutil.copytree(published, folder)
    monkeypatch.chdir(folder)
    os.mkdir("train")
    Path("train/1.txt").write_text("".join(f"{line}\n" for line in SENTENCES))
    Path("vocab.txt").write_text("<S>\n</S>\n<UNK>\nThe\ncat\n")
    for code in examples("sh"):
        run_shell(code, project_dir)
    made = {"exported", "exported.tar.gz", "trainable", "cached", "warm", "vectors"}
    assert made <= set(os.listdir(folder))
    assert np.load("vectors/elmo.npy").shape == (2, 7, 2 * PROJECTION)
    np.testing.assert_array_equal(np.load("vectors/sequence_len.npy"), [7, 2])


def test_sections_are_found():
    assert set(SECTIONS) > SLOW | {"In Keras 3"}
    assert len(WITH_PYTHON) == 7
    found = [code for text in SECTIONS.values() for code in examples("python", text)]
    assert found == examples("python")


def test_fences_are_examples_of_a_known_kind():
    assert PAGE.count("```") == 2 * len(EXAMPLE.findall(PAGE))
    assert {language for language, _ in EXAMPLE.findall(PAGE)} == {"python", "sh", "json"}


def test_names_of_the_tables_exist(project_dir):
    """Commands, flags and functions in the right-hand columns exist."""
    import elmo_tf

    commands = re.findall(r"`(elmo-[a-z-]+)((?: --\w+)*)", PAGE)
    setup = (project_dir / "setup.py").read_text(encoding="utf-8")
    assert commands
    for command, flags in commands:
        module = re.search(rf'"{command}=([\w.]+):main"', setup)
        assert module, command
        path = module[1].removeprefix("elmo_tf.") if ".export." in module[1] else module[1]
        source = (project_dir / (path.replace(".", "/") + ".py")).read_text(encoding="utf-8")
        for flag in re.findall(r"--(\w+)", flags):
            assert f'"{flag}"' in source, (command, flag)
    folders = {path.name for path in (project_dir / "elmo_tf").iterdir() if path.is_dir()}
    for name in re.findall(r"`elmo_tf\.(\w+)", PAGE):
        assert name in elmo_tf.__all__ or name in folders, name
