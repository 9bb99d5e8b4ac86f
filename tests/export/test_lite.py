"""`char_ids` of an export on LiteRT, as docs/small_devices.md converts and calls it."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.config.model import CharCnnConfig, ElmoConfig, LstmConfig
from elmo_tf.export import saved_model
from elmo_tf.layers.bilm import BiLmState
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.initial_state import InitialState
from tests.export.small import difference
from tests.test_readme import EXAMPLE, run_python

# LiteRT quantizes only kernels of 1024 numbers or more.
CONFIG = ElmoConfig(
    CharCnnConfig(
        embedding_dim=8,
        filters=((1, 16), (2, 24), (3, 40)),
        num_highway_layers=1,
        max_characters_per_token=13,
    ),
    LstmConfig(dim=48, projection_dim=24, num_layers=2),
)
WIDTH = CONFIG.input.max_characters_per_token
SENTENCES = [
    [["The", "größeres", "cat", "sat"], ["one"], ["a", "b", "abcdefghijklmnop"]],
    [["one", "two"]],
    [["<S>", "", "</S>", "of", "the", "people", ",", "by", "the", "people", "."], ["short"]],
    [[], ["a"]],
]
pytestmark = pytest.mark.filterwarnings(
    # TensorFlow's interpreter will move to a separate package.
    "ignore:.*tf.lite.Interpreter is deprecated:UserWarning"
)


def random_encoder():
    encoder = ElmoEncoder(CONFIG, seed=3)
    encoder.scalar_mix.layer_weights.assign([0.5, -1.0, 0.25])
    return encoder


def random_initial_state(encoder):
    generator = np.random.default_rng(4)
    state = tf.nest.map_structure(
        lambda zeros: tf.constant(generator.normal(0, 0.5, zeros.shape), zeros.dtype),
        encoder.zero_state(1),
    )
    return InitialState(BiLmState(*state), num_sentences=7)


@pytest.fixture(
    scope="module",
    params=[
        "plain",
        pytest.param("with cached words and an initial state", marks=pytest.mark.slow),
    ],
)
def path(request, tmp_path_factory):
    encoder = random_encoder()
    more = {}
    if request.param != "plain":
        more = {
            "cached_words": [b"<S>", b"</S>", b"the"],
            "initial_state": random_initial_state(encoder),
        }
    path = tmp_path_factory.mktemp("lite") / "exported"
    saved_model.export(encoder, path, **more)
    return str(path)


def convert(path, quantize):
    converter = tf.lite.TFLiteConverter.from_saved_model(path, signature_keys=["char_ids"])
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return converter.convert()


@pytest.fixture(scope="module")
def whole(path):
    """The float32 model."""
    return convert(path, quantize=False)


def inputs():
    for sentences in SENTENCES:
        yield elmo_tf.batch_to_ids(sentences, WIDTH)


def test_float(path, whole):
    """One model of LiteRT's own operations gives equal outputs for all batch sizes and lengths."""
    model = tf.saved_model.load(path)
    interpreter = tf.lite.Interpreter(model_content=whole)
    names = {operation["op_name"] for operation in interpreter._get_ops_details()}
    assert "WHILE" in names
    assert not {name for name in names if name.startswith("Flex")}
    run = interpreter.get_signature_runner("char_ids")
    for ids in inputs():
        assert difference(run(char_ids=ids), model.char_ids(tf.constant(ids))) <= 1e-5


def test_int8_weights(path, whole):
    """Close outputs of a smaller model."""
    model = tf.saved_model.load(path)
    small = convert(path, quantize=True)
    assert len(small) < 0.7 * len(whole)
    run = tf.lite.Interpreter(model_content=small).get_signature_runner("char_ids")
    cosines = []
    for ids in inputs():
        outputs, expected = run(char_ids=ids), model.char_ids(tf.constant(ids))
        np.testing.assert_array_equal(outputs["sequence_len"], expected["sequence_len"])
        for row, length in enumerate(expected["sequence_len"].numpy()):
            ours, theirs = expected["elmo"][row].numpy(), outputs["elmo"][row]
            assert not theirs[length:].any()
            norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
            cosines.extend(((ours * theirs).sum(axis=1) / np.maximum(norms, 1e-9))[:length])
    assert len(cosines) == 23
    assert 0.98 < min(cosines) < 0.999999  # quantized, but close


@pytest.mark.slow
def test_the_page_about_it(project_dir, tmp_path, monkeypatch):
    """Runs the page's examples on an export with the width that the page names."""
    wide = dataclasses.replace(CONFIG.input, max_characters_per_token=50)
    saved_model.export(ElmoEncoder(ElmoConfig(wide, CONFIG.lstm), seed=3), tmp_path / "exported")
    monkeypatch.chdir(tmp_path)
    text = (project_dir / "docs/small_devices.md").read_text(encoding="utf-8")
    names = {}
    shapes = {"P": CONFIG.lstm.projection_dim}
    assert sum(run_python(code, names, shapes) for _, code in EXAMPLE.findall(text)) == 3
    ids = elmo_tf.batch_to_ids([["The", "cat", "sat"], ["Rain"]])
    expected = names["head"](names["encoder"](ids)["elmo"])
    np.testing.assert_allclose(names["tags"], expected, rtol=0, atol=1e-6)
    sentences = [["The", "größeres", "x" * 60], [], ["", "\0"]]
    expected = elmo_tf.batch_to_ids(sentences)
    np.testing.assert_array_equal(names["character_ids"](sentences), expected)
