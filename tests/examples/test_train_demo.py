"""The demo that trains: settings, steps that are skipped, and (slow) all of it, interrupted."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from elmo_tf.errors import InputError
from examples import senses, shell, train_demo
from examples.occurrences import Occurrence, Sentence


def occurrence(text, is_heldout):
    tokens = tuple(text.split())
    return Occurrence(Sentence(tokens, "1801 Jay", is_heldout), tokens.index(senses.CLOSE.text))


@pytest.fixture
def found():
    """Three held-out sentences to ask about, and one like each in the text trained on."""
    heldout = [
        occurrence(f"xy {senses.CLOSE.text} {follows} z", True)
        for _, follows in senses.CLOSE.queries
    ]
    others = ["the close of day", "close the door", "in close touch", "so close together"]
    return [*heldout, *(occurrence(text, False) for text in others)]


@pytest.fixture
def vectors():
    """Each query has one neighbour; the last occurrence is far from all."""
    near = np.array([[9.0, 1, 0], [0, 9, 1], [1, 0, 9]])
    return np.concatenate([near, near + 0.1, [[-20.0, -20, -20]]])


def test_shows_neighbours_from_the_text_trained_on(found, vectors, capsys):
    senses.show_neighbours(senses.CLOSE, found, vectors)
    shown = capsys.readouterr().out
    assert "4 occurrences in the training text" in shown
    parts = [part.splitlines() for part in shown.split("\n\n")[1:]]
    for (sense, follows), part, nearest in zip(
        senses.CLOSE.queries, parts, ("of day", "the door", "in"), strict=True
    ):
        assert part[0].strip() == sense
        assert part[1].split()[0] == "?" and f"[close] {follows}" in part[1]
        assert nearest in part[2] and part[2].startswith("1.00 ")
        assert len(part) == 2 + 4
        assert max(map(len, part)) <= 100


def test_draws_all_occurrences(found, vectors, tmp_path, capsys):
    senses.draw_picture(str(tmp_path / "close.png"), senses.CLOSE, found, vectors)
    assert matplotlib.image.imread(tmp_path / "close.png").shape == (960, 1320, 4)
    assert "all 7 occurrences" in capsys.readouterr().out


def test_settings_are_kept_and_compared(tmp_path):
    path = str(tmp_path / "new" / "demo.json")
    train_demo.keep_settings(path, {"steps": [1, 2]})
    train_demo.keep_settings(path, {"steps": [1, 2]})
    with pytest.raises(InputError, match=r"new was made with other settings or from other text; "):
        train_demo.keep_settings(path, {"steps": [1, 3]})
    assert json.loads(Path(path).read_text(encoding="ascii")) == {"steps": [1, 2]}


def test_a_step_is_done_once(tmp_path, capsys, monkeypatch):
    ran = []
    monkeypatch.setattr(shell, "run_python", ran.append)
    result = tmp_path / "result"
    step = train_demo.Step("Some work", str(result), ["-m", "some.module"])
    train_demo.make(step)
    result.touch()
    train_demo.make(step)
    assert ran == [["-m", "some.module"]]
    assert (
        capsys.readouterr().out
        == f"\n== Some work\n\n== Some work\nDone before: {result} is there.\n"
    )


def test_commands_keep_odd_paths_whole():
    steps = train_demo.model_steps(train_demo.output_paths("a b/c"), 7)
    arguments = [argument for step in steps for argument in step.arguments]
    assert "--vocab_file=a b/c/vocab.txt" in arguments
    assert "--model=a b/c/run/best" in arguments
    assert "--max_steps=7" in arguments and "--steps_per_evaluation=1" in arguments


def test_mistakes_are_one_line(capsys, monkeypatch):
    monkeypatch.setattr(
        train_demo, "run", lambda paths, steps: exec("raise InputError('so it is')")
    )
    monkeypatch.setattr(os, "chdir", lambda path: None)
    assert train_demo.main(["--output_dir=/tmp/none"]) == 1
    assert capsys.readouterr().err == "train_demo: so it is\n"


STEPS = 40


def start(project_dir, output):
    # Who sets this wants to see the log; a user of the demo does not.
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.Popen(
        [sys.executable, "examples/train_demo.py", f"--steps={STEPS}", f"--output_dir={output}"],
        cwd=project_dir,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a process group to interrupt, as a terminal does
    )


def finish(process):
    output = process.communicate(timeout=600)[0]
    assert process.returncode == 0, output
    return output


def modification_times(output):
    names = ["train.txt", "vocab.txt", "run/training.json", "exported/saved_model.pb"]
    return [(output / name).stat().st_mtime_ns for name in names]


@pytest.mark.slow
@pytest.mark.usefixtures("terminal_signals")
def test_whole_demo_interrupted_resumed_and_repeated(project_dir, tmp_path):
    output = tmp_path / "demo output"
    process = start(project_dir, output)
    for line in process.stdout:
        if line.startswith(f"step {STEPS // 5}: held-out"):
            break
    os.killpg(process.pid, signal.SIGINT)
    rest = process.communicate(timeout=120)[0]
    assert process.returncode == 130, rest
    stopped = re.search(rf"stopped by SIGINT at step (\d+) of {STEPS}, saved in", rest)
    assert stopped, rest
    assert "train_demo: interrupted; the same command goes on from here" in rest
    assert "Traceback" not in rest and not (output / "exported").exists()

    shown = finish(start(project_dir, output))
    assert f"starting from step {stopped[1]}\n" in shown, shown
    perplexities = [float(p.replace(",", "")) for p in re.findall(r"perplexity ([\d,.]+) ", shown)]
    assert len(perplexities) == 5 - int(stopped[1]) // (STEPS // 5)
    assert perplexities[-1] < 13_776 / 5  # the size of the vocabulary; before 20 steps it is above
    assert "modules of elmo_tf in this process: none" in shown
    assert shown.count("[close]") == 3 * (1 + senses.NUM_NEIGHBOURS)
    assert matplotlib.image.imread(output / "close.png").shape == (960, 1320, 4)
    for noise in ("Traceback", "WARNING", "oneDNN", "cuda", "warn"):
        assert noise not in shown

    before, begin = modification_times(output), time.monotonic()
    again = finish(start(project_dir, output))
    assert time.monotonic() - begin < 120  # about 15 s alone; a machine may be busy
    assert modification_times(output) == before
    neighbours = shown[shown.index("== Nearest") :].rsplit("\n", 2)[0]
    assert neighbours in again
