"""Files of an earlier commit still load and give the same values.

`tests/data/made_at_6a344a9.tar.gz` holds files that commit 6a344a9 made from tiny random models:
two exports (characters, with cached words and an initial state; words, all trainable), a Keras
model with `ElmoEmbedding`, and a training run stopped at step 4. `expected.npz` holds the outputs
of that commit's code, and the weights at step 9 of the same run without interruption.
"""

import tarfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import ElmoEmbedding, train
from elmo_tf.model.loading import load_encoder

TEXTS = ["a0 b1 c2 \u00e9t\u00e9", "d3", "", "x a0 verylongwordindeed b1 <S> d3 e4"]
# Processors differ in rounding.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def earlier(tmp_path_factory, project_dir):
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(project_dir / "tests/data/made_at_6a344a9.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def expected(earlier):
    with np.load(earlier / "expected.npz") as arrays:
        return dict(arrays)


def assert_outputs(outputs, expected, prefix):
    names = {name.removeprefix(prefix) for name in expected if name.startswith(prefix)}
    assert set(outputs) == names
    for name in names:
        np.testing.assert_allclose(outputs[name], expected[prefix + name], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("export", ["export_characters", "export_words"])
def test_export_as_saved_model(earlier, expected, export):
    model = tf.saved_model.load(str(earlier / export))
    assert_outputs(model(tf.constant(TEXTS)), expected, f"{export}/")
    signature = model.signatures["default"]
    assert_outputs(signature(text=tf.constant(TEXTS)), expected, f"{export}/")


@pytest.mark.parametrize(
    ("export", "prefix"),
    # Read as a model, an export starts each sentence from zeros.
    [("export_characters", "encoder_characters/"), ("export_words", "export_words/")],
)
def test_export_as_model(earlier, expected, export, prefix):
    encoder = load_encoder(str(earlier / export))
    assert_outputs(encoder(TEXTS), expected, prefix)


def test_keras_file(earlier, expected):
    # Importing `ElmoEmbedding` registers it, independent of its module.
    model = keras.saving.load_model(earlier / "model.keras")
    assert any(isinstance(layer, ElmoEmbedding) for layer in model.layers)
    actual = model.predict(tf.constant(TEXTS), verbose=0)
    np.testing.assert_allclose(actual, expected["keras/model"], atol=TOLERANCE, rtol=0)


def test_run_resumes(earlier, expected, monkeypatch, capfd):
    monkeypatch.chdir(earlier)
    flags = ["--train_files=[ab].txt", "--vocab_file=vocab", "--model_dir=run"]
    flags += ["--options_file=run_options.json", "--heldout_files=heldout.txt"]
    flags += ["--batch_size=3", "--unroll_steps=4", "--num_negative_samples=5", "--seed=7"]
    # The old name of the flag, and of the setting in the run's training.json.
    flags += ["--dropout=0.1", "--restart_share=0.2"]
    flags += ["--steps_per_checkpoint=2", "--steps_per_evaluation=2", "--max_steps=9"]
    assert train.main(flags) == 0
    assert "step 9 of 9" in capfd.readouterr().out
    trained = tf.train.load_checkpoint(str(earlier / "run" / "ckpt-9"))
    names = [name.removeprefix("trained/") for name in expected if name.startswith("trained/")]
    assert len(names) == 23
    for name in names:
        np.testing.assert_allclose(
            trained.get_tensor(name), expected[f"trained/{name}"], atol=1e-5, rtol=0, err_msg=name
        )
