"""The demo of the included model: its words, its command, and (slow) all of it."""

import os
import subprocess
import sys

import h5py
import matplotlib.image
import numpy as np
import pytest

from elmo_tf.errors import InputError
from examples import demo, senses, shell
from examples.occurrences import Occurrence, Sentence


def test_vectors_are_those_of_the_words_positions(tmp_path, monkeypatch, capsys):
    found = [
        Occurrence(Sentence(("a", "light", "b"), "1801 Jay", False), 1),
        Occurrence(Sentence(("the", "rest"), "1802 Jay", False), 1),
    ]
    commands = []

    def run_python(arguments):
        commands.append(arguments)
        with h5py.File(tmp_path / "vectors.hdf5", "w") as file:
            for row, each in enumerate(found):
                tokens = len(each.sentence.tokens)
                file[str(row)] = 10 * row + np.arange(tokens * 2.0).reshape(tokens, 2)

    monkeypatch.setattr(shell, "run_python", run_python)
    vectors = demo.embed(str(tmp_path), "some-model", found)
    np.testing.assert_array_equal(vectors, [[2, 3], [12, 13]])
    assert (tmp_path / "sentences.txt").read_text() == "a light b\nthe rest\n"
    assert commands[0][:3] == ["-m", "elmo_tf.embed", "--model=some-model"]
    assert "--layers=top" in commands[0]


def test_mistakes_are_one_line(capsys, monkeypatch):
    def fail(output, model):
        raise InputError("so it is")

    monkeypatch.setattr(demo, "run", fail)
    monkeypatch.setattr(os, "chdir", lambda path: None)
    assert demo.main(["--output_dir=/tmp/none"]) == 1
    assert capsys.readouterr().err == "demo: so it is\n"


@pytest.mark.slow  # 20 s: it embeds 850 sentences
def test_whole_demo(project_dir, tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    finished = subprocess.run(
        [sys.executable, "examples/demo.py", f"--output_dir={tmp_path / 'demo output'}"],
        cwd=project_dir, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    for word in demo.WORDS:
        shown = 3 * (1 + senses.NUM_NEIGHBOURS)
        assert finished.stdout.count(f"[{word.text}]") == shown
    assert matplotlib.image.imread(tmp_path / "demo output/close.png").shape == (960, 1320, 4)
    for noise in ("Traceback", "WARNING", "oneDNN", "cuda", "warn"):
        assert noise not in finished.stdout + finished.stderr
