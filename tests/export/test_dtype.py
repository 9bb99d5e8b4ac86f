"""Exports whose weights are stored in half precision."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.export import export_elmo, saved_model
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.loading import load_encoder
from elmo_tf.model.variables import named_variables
from tests.export.small import difference, make_encoder

TEXTS = ["The cat sat", "", "one two"]
MIX = "scalar_mix."


@pytest.fixture(scope="module", params=["float16", "bfloat16"])
def half(request, encoder, tmp_path_factory):
    """The dtype, the path of an export with it, and an encoder with weights rounded to it."""
    path = tmp_path_factory.mktemp("half") / "exported"
    saved_model.export(encoder, path, dtype=request.param, cached_words=[b"one", b"cat"])
    rounded = make_encoder()
    for name, variable in named_variables(rounded).items():
        if not name.startswith(MIX):
            variable.assign(tf.cast(tf.cast(variable, request.param), "float32"))
    return request.param, path, rounded


def test_outputs_are_those_of_rounded_weights_in_float32(half):
    dtype, path, rounded = half
    model = tf.saved_model.load(str(path))
    outputs = model(TEXTS)
    assert {value.dtype for name, value in outputs.items() if name != "sequence_len"} == {
        tf.float32
    }
    # Cached embeddings are rounded a second time.
    tolerance = 1e-3 if dtype == "float16" else 1e-2
    assert 0 < difference(outputs, rounded(TEXTS)) < tolerance
    others = ["The dog", "x"]
    assert difference(model(others), rounded(others)) < 1e-6


def test_weights_are_half_as_large_but_for_the_mix(half):
    dtype, path, _ = half
    model = tf.saved_model.load(str(path))
    assert {value.dtype.name for value in model.variables} == {dtype, "float32"}
    for name, value in model.model.items():
        assert value.dtype.name == ("float32" if name.startswith(MIX) else dtype)
    assert f"stored in {dtype}" in (path / "assets.extra/README.md").read_text()


def test_read_as_a_model(half):
    _, path, rounded = half
    encoder = load_encoder(str(path))
    for name, variable in named_variables(rounded).items():
        np.testing.assert_array_equal(named_variables(encoder)[name], variable, err_msg=name)


def test_the_mix_can_be_trained(half):
    model = tf.saved_model.load(str(half[1]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(TEXTS, training=True)["elmo"])
    gradients = tape.gradient(loss, model.trainable_variables)
    assert len(gradients) == 2
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_wrong_dtype(encoder: ElmoEncoder, tmp_path, capsys):
    path = tmp_path / "exported"
    with pytest.raises(InputError, match="dtype must be one of float32, .* got 'float64'"):
        saved_model.export(encoder, path, dtype="float64")
    with pytest.raises(InputError, match="dtype float16 or bfloat16 needs trainable=mix"):
        saved_model.export(encoder, path, dtype="float16", trainable="all")
    flags = ["--model=m.zip", f"--output_dir={path}", "--dtype=float16", "--trainable=all"]
    assert export_elmo.main(flags) == 2
    assert "--dtype=float16: needs --trainable=mix" in capsys.readouterr().err
    assert not path.exists()
