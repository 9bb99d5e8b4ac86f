"""Programs that use an export, each in a process that cannot import elmo_tf.

The programs are in `consumers/`. They get the path of the export and a file of inputs and outputs.
"""

import base64
import functools
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import venv

import keras
import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf import train
from elmo_tf.export import export_elmo, export_weights, saved_model
from elmo_tf.model.loading import load_encoder
from tests.export.small import difference, make_encoder
from tests.training import tiny

pytestmark = pytest.mark.traced

CONSUMERS = pathlib.Path(__file__).parent / "consumers"
TEXT = ["The  cat\tsat ", "", "ein größeres Wort"]
TOKENS = [["The", "cat", "sat"], ["", "b", ""], ["größer", "", ""]]
LENGTHS = np.array([3, 2, 1], np.int32)


@pytest.fixture(scope="module")
def encoder():
    return make_encoder()


@pytest.fixture(scope="module", params=["plain", pytest.param("cached", marks=pytest.mark.slow)])
def exported(request, encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "exported"
    cached_words = [b"<S>", b"</S>", b"cat", b"The"] if request.param == "cached" else []
    saved_model.export(encoder, path, archive=True, cached_words=cached_words)
    return path


@pytest.fixture(scope="module")
def expected(encoder, exported):
    """The path of an .npz file for `consumers/expectation.py`."""
    ids = elmo_tf.batch_to_ids(TOKENS[:1], encoder.config.input.max_characters_per_token)
    outputs = {
        "text": encoder(tf.constant(TEXT)),
        "tokens": encoder(tf.constant(TOKENS), sequence_len=LENGTHS),
        "char_ids": encoder(ids),
    }
    path = exported.parent / "expected.npz"
    np.savez(
        path,
        text=np.array(TEXT, object),
        tokens=np.array(TOKENS, object),
        sequence_len=LENGTHS,
        char_ids=ids,
        **{f"{way}/{name}": v for way, named in outputs.items() for name, v in named.items()},
    )
    return path


def run(program, *arguments, folder, python=sys.executable, **environment):
    """Runs a program in `folder` without the checkout on its path; returns its stdout."""
    start = [CONSUMERS / program] if program.endswith(".py") else ["-m", program]
    finished = subprocess.run(
        [str(part) for part in (python, *start, *arguments)],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout


# Keras 3.15 saves variables through an `__array__` that NumPy 2 wants to have a `copy` argument.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_nothing_but_tensorflow(exported, expected, encoder, tmp_path):
    """Our export, and Keras's `export` of a classifier that contains our layer."""
    classifier = keras.Sequential(
        [
            keras.Input([], dtype="string"),
            elmo_tf.ElmoEmbedding(encoder),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(3),
        ]
    )
    classifier.export(tmp_path / "classifier", verbose=False)
    np.save(tmp_path / "scores.npy", classifier(tf.constant(TEXT[::2])))
    arguments = (exported, expected, tmp_path / "classifier", tmp_path / "scores.npy")
    assert run("bare.py", *arguments, folder=tmp_path) == "loaded and equal\n" * 2


@pytest.mark.slow
def test_environment_that_holds_only_tensorflow(exported, expected, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", f"tensorflow=={tf.__version__}"]
    subprocess.run(install, check=True)
    output = run("bare.py", exported, expected, folder=tmp_path, python=python)
    assert output == "loaded and equal\n"


def test_hub_load_by_path_and_by_url(exported, expected, tmp_path):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=exported.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/exported.tar.gz"
        cache = {"TFHUB_CACHE_DIR": str(tmp_path / "cache")}
        arguments = ("hub_load.py", expected, exported, url)
        output = run(*arguments, folder=tmp_path, **cache, no_proxy="127.0.0.1")
        server.shutdown()
    assert output == "loaded and equal\n" * 2


def test_hub_keras_layer(exported, expected, tmp_path):
    run("hub_keras_layer.py", exported, expected, "mix", folder=tmp_path)


@pytest.mark.slow
def test_hub_keras_layer_that_trains_everything(encoder, expected, tmp_path):
    saved_model.export(encoder, tmp_path / "exported", trainable="all")
    run("hub_keras_layer.py", tmp_path / "exported", expected, "all", folder=tmp_path)


def test_tfsm_layer_of_keras_3(exported, expected, tmp_path):
    run("tfsm_layer.py", exported, expected, folder=tmp_path)


def test_saved_model_cli(exported, encoder, tmp_path):
    cli = functools.partial(run, "tensorflow.python.tools.saved_model_cli", folder=tmp_path)
    shown = cli("show", "--dir", exported, "--tag_set", "serve", "--signature_def", "tokens")
    assert "inputs['sequence_len'] tensor_info" in shown
    assert "outputs['lstm_outputs2'] tensor_info" in shown
    inputs = "tokens=[['The','cat','sat'],['one','','']];sequence_len=[3,1]"
    model = ("--dir", exported, "--tag_set", "serve", "--signature_def", "tokens")
    cli("run", *model, "--input_exprs", inputs, "--outdir", "out")
    tokens = tf.constant([["The", "cat", "sat"], ["one", "", ""]])
    written = {path.stem: np.load(path) for path in (tmp_path / "out").glob("*.npy")}
    assert difference(written, encoder(tokens, sequence_len=[3, 1])) <= 1e-6


def test_requests_to_tensorflow_serving(exported, encoder, tmp_path):
    """Row and column formats of requests and answers, and errors of server and model."""
    text = encoder(tf.constant(TEXT))
    tokens = encoder(tf.constant(TOKENS), sequence_len=LENGTHS)
    ids = elmo_tf.batch_to_ids(TOKENS[:2], encoder.config.input.max_characters_per_token)
    lengths = LENGTHS.tolist()
    rows = [{"tokens": t, "sequence_len": n} for t, n in zip(TOKENS, lengths, strict=True)]
    raw = {"b64": base64.b64encode(b"\xff\0 cat").decode()}
    good = [
        ({"instances": TEXT}, text),
        ({"signature_name": "default", "inputs": TEXT}, text),
        ({"signature_name": "default", "inputs": {"text": TEXT}}, text),
        ({"signature_name": "elmo", "instances": TEXT}, text),
        ({"signature_name": "tokens", "instances": rows}, tokens),
        (
            {"signature_name": "tokens", "inputs": {"tokens": TOKENS, "sequence_len": lengths}},
            tokens,
        ),
        ({"signature_name": "char_ids", "instances": ids.tolist()}, encoder(ids)),
        ({"signature_name": "char_ids", "inputs": ids.tolist()}, encoder(ids)),
        ({"instances": [raw]}, encoder(tf.constant([b"\xff\0 cat"]))),
    ]
    ragged = [{"tokens": ["a", "b"], "sequence_len": 2}, {"tokens": ["c"], "sequence_len": 1}]
    bad = [
        ({"signature_name": "tokens", "instances": ragged}, "of one shape"),
        ({"signature_name": "tokens", "instances": TOKENS}, "several inputs"),
        (
            {"signature_name": "tokens", "inputs": {"tokens": [["a"]], "sequence_len": [2]}},
            "sequence_len",
        ),
    ]
    bodies = [json.dumps(body) for body, _ in good + bad]
    (tmp_path / "bodies").write_text("".join(f"{body}\n" for body in bodies), encoding="ascii")
    lines = run("serving_rest.py", exported, tmp_path / "bodies", folder=tmp_path).splitlines()
    answers = [json.loads(line) for line in lines]
    assert len(answers) == len(bodies)
    for (body, expected), found in zip(good, answers, strict=False):
        if body.get("signature_name") == "elmo":
            expected = {name: expected[name] for name in ("elmo", "sequence_len")}
        if "instances" in body:
            assert len(found["predictions"]) == len(body["instances"])
            names = found["predictions"][0]
            outputs = {name: [row[name] for row in found["predictions"]] for name in names}
        else:
            outputs = found["outputs"]
        assert difference(outputs, expected) <= 1e-6
    for (_, message), found in zip(bad, answers[len(good) :], strict=True):
        assert message in found["error"]


def test_from_training_to_both_exports(tmp_path, monkeypatch, capfd):
    """A trained model gives equal vectors in every form, also in an unrelated process."""
    monkeypatch.chdir(tmp_path)
    tiny.CONFIG.write(tmp_path / "options.json")
    tiny.write_files(tmp_path)
    flags = ["--train_files=[ab].txt", "--vocab_file=vocab", "--options_file=options.json"]
    flags += ["--batch_size=3", "--unroll_steps=4", "--max_steps=3", "--model_dir=run"]
    assert train.main(flags) == 0
    assert export_elmo.main(["--model=run", "--output_dir=exported"]) == 0
    assert export_weights.main(["--model=run", "--output_dir=from_run"]) == 0
    assert export_weights.main(["--model=exported", "--output_dir=from_export"]) == 0
    assert capfd.readouterr().err == ""

    text = tf.constant(["the cat", "", "one two three"])
    expected = load_encoder("run")(text)
    assert difference(tf.saved_model.load("exported")(text), expected) <= 1e-6
    assert difference(load_encoder("exported")(text), expected) == 0.0
    for folder in ("from_run", "from_export"):
        assert difference(load_encoder(folder)(text), expected) == 0.0
    card = (tmp_path / "exported/assets.extra/README.md").read_text()
    assert f"{tiny.NUM_TOKENS} tokens in {tiny.NUM_SENTENCES} sentences" in card
    vocabulary = (tmp_path / "exported/assets.extra/vocab.txt").read_bytes()
    assert vocabulary == (tmp_path / "run/vocab.txt").read_bytes()
