"""A process that calls an export over and over neither grows nor traces, and threads don't mix."""

import json
import subprocess
import sys

import pytest

from export import saved_model
from tests.export.small import make_encoder


def run(project_dir, tmp_path, *flags):
    """The figures of the benchmark, run in a process of its own on a small model."""
    words = [b"<S>", b"</S>", b"a", b"b"]
    saved_model.export(make_encoder(), tmp_path / "exported", cached_words=words)
    program = project_dir / "benchmarks/long_running.py"
    finished = subprocess.run(
        [sys.executable, program, f"--model={tmp_path / 'exported'}", "--json", *flags],
        cwd=tmp_path,  # so that nothing but TensorFlow is at hand
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


def test_some_calls(project_dir, tmp_path):
    figures = run(project_dir, tmp_path, "--calls=300")
    assert figures["memory"]["calls"] == 300
    check(figures, growth=20)
    assert max(figures["seconds"].values()) < 20


@pytest.mark.slow
def test_many_calls(project_dir, tmp_path):
    figures = run(project_dir, tmp_path, "--calls=10000")
    assert figures["memory"]["calls"] == 10_000
    check(figures, growth=20)
