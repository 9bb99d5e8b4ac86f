"""A process that calls an export over and over neither grows nor traces, and threads don't mix."""

import json
import subprocess
import sys

import pytest

from elmo_tf.export import saved_model


def run(project_dir, folder, exported, *flags):
    """The figures of the benchmark, run in a process of its own."""
    program = project_dir / "benchmarks/long_running.py"
    finished = subprocess.run(
        [sys.executable, program, f"--model={exported}", "--json", *flags],
        cwd=folder,  # so that nothing but TensorFlow is at hand
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return json.loads(finished.stdout)


def check(figures, growth):
    assert figures["memory"]["growth MB"] < growth
    assert figures["traces"] == {"text": 2, "tokens": 1, "char_ids": 1}  # text: training or not
    assert figures["threads"]["threads"] == 8
    assert figures["threads"]["largest difference"] <= 1e-6


def test_some_calls(project_dir, exported, tmp_path):
    figures = run(project_dir, tmp_path, exported, "--calls=300", "--max-batch=4")
    assert figures["memory"]["calls"] == 300
    check(figures, growth=20)


@pytest.mark.slow
def test_many_calls(project_dir, encoder, tmp_path):
    words = [b"<S>", b"</S>", b"a", b"b"]
    saved_model.export(encoder, tmp_path / "exported", cached_words=words)
    figures = run(project_dir, tmp_path, tmp_path / "exported", "--calls=10000")
    assert figures["memory"]["calls"] == 10_000
    check(figures, growth=20)
