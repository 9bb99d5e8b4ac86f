"""Repeated calls neither trace nor use more memory, and threads do not affect each other."""

import importlib
import json
import subprocess
import sys

import pytest
import tensorflow as tf

from elmo_tf.export import saved_model

pytestmark = pytest.mark.traced

NAMES = (
    "export(list)",
    "export(tensor)",
    "export(list, training=True)",
    "export(tensor, training=True)",
    "export.tokens(lists)",
    "export.tokens(tensors)",
    "export.char_ids(lists)",
    "export.char_ids(array)",
    "signature default",
    "signature tokens",
    "signature elmo",
    "signature char_ids",
    "signature serving_default",
    "signature serve",
    "ElmoEncoder(text)",
    "ElmoEncoder(tokens)",
    "ElmoEncoder(ids)",
    "ElmoEmbedding(text)",
    "keras.Model(tokens)",
    "embed_sentences",
)


@pytest.fixture(scope="module")
def long_running(project_dir):
    """The benchmark as a module."""
    folder = str(project_dir / "benchmarks")
    sys.path.insert(0, folder)
    yield importlib.import_module("long_running")
    sys.path.remove(folder)


@pytest.fixture(scope="module")
def entry_points(long_running, exported):
    return long_running.EntryPoints(str(exported), max_batch=4, max_tokens=6)


def test_every_entry_point_is_known(entry_points):
    assert sorted(entry_points.calls) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_call_after_the_second_traces(long_running, entry_points, name):
    assert long_running.count_traces(entry_points, name, num_calls=8) == 0
    assert set(entry_points.wrapper_traces().values()) <= {0, 1}


def test_traces_of_a_function_without_signature_are_seen(long_running, tmp_path):
    """The counters detect a loaded function that is traced for each new list."""

    class Module(tf.Module):
        @tf.function(autograph=False)
        def __call__(self, text):
            return {"length": tf.strings.length(text)}

    module = Module()
    module.__call__.get_concrete_function(tf.TensorSpec([None], tf.string))
    tf.saved_model.save(module, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    with long_running.counted_graphs() as built:
        for text in (["a"], ["b"], ["a", "b"]):
            loaded(text)
    assert len(built) == loaded.__call__.experimental_get_tracing_count() == 3


def test_threads_get_the_same_bits(long_running, entry_points):
    figures = long_running.measure_threads(entry_points, num_calls=8, num_threads=8)
    assert figures == {"threads": 8, "calls": 16, "difference": 0.0}


@pytest.mark.slow
def test_memory_of_a_fresh_process(project_dir, encoder, tmp_path):
    saved_model.export(encoder, tmp_path / "exported", trainable="all")
    program = project_dir / "benchmarks/long_running.py"
    finished = subprocess.run(
        [sys.executable, program, f"--model={tmp_path / 'exported'}", "--json", "--calls=1000"],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    figures = json.loads(finished.stdout)
    assert sorted(figures["entry points"]) == sorted(NAMES)
    for name, measured in figures["entry points"].items():
        assert measured["traces"] == 0, name
        assert measured["growth MB"] < 10, name
    assert set(figures["wrapper traces"].values()) == {1}
