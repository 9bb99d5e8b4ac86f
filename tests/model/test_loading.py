"""Models in all formats become equal encoders; other files give a clear error."""

import json
import shutil
import zipfile

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.config.model import ElmoConfig, LstmConfig
from elmo_tf.config.training import TrainingConfig
from elmo_tf.errors import InputError
from elmo_tf.export import saved_model
from elmo_tf.formats import locate
from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.model import loading
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.variables import model_variables, named_variables
from tests import models

CONFIG = models.small_config()
TEXT = tf.constant(["the cat sat", "one"])


@pytest.fixture(scope="module")
def encoder(small_encoder):
    return small_encoder


@pytest.fixture(scope="module")
def pair(small_pair):
    return small_pair


@pytest.fixture(scope="module")
def exported(encoder, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "exported"
    (path.parent / "words.txt").write_text("<S>\n</S>\n<UNK>\n")
    saved_model.export(encoder, path, vocabulary_file=path.parent / "words.txt")
    return path


@pytest.fixture
def run(encoder, tmp_path):
    """A training directory with two checkpoints; the newer one has the weights."""
    path = tmp_path / "run"
    path.mkdir()
    CONFIG.write(path / "options.json")
    (path / "training.json").write_text("{}")
    (path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    softmax = SampledSoftmax(6)
    softmax.build((None, CONFIG.lstm.projection_dim))
    for step, model in ((2, ElmoEncoder(CONFIG, seed=6)), (10, encoder)):
        variables = model_variables(model, softmax)
        saved = tf.train.Checkpoint(model=variables, progress={"step": tf.Variable(step)})
        manager = tf.train.CheckpointManager(saved, path, 2, checkpoint_name="ckpt")
        manager.save(checkpoint_number=step)
    return path


def weights_of(encoder):
    return {name: value.numpy() for name, value in named_variables(encoder).items()}


def assert_same(loaded, encoder, with_mix):
    assert loaded.config == CONFIG
    expected, actual = weights_of(encoder), weights_of(loaded)
    if not with_mix:
        expected.update({"scalar_mix.layer_weights": np.zeros(3), "scalar_mix.gamma": np.ones([])})
    assert set(actual) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


def test_pair(pair, encoder):
    for path in (pair, f"{pair}/options.json,{pair}/weights.hdf5", str(pair)):
        assert_same(loading.load_encoder(path), encoder, with_mix=False)


def test_zip(pair, encoder, tmp_path):
    with zipfile.ZipFile(tmp_path / "elmo.zip", "w") as archive:
        for path in pair.iterdir():
            archive.write(path, path.name)
    assert_same(loading.load_encoder(tmp_path / "elmo.zip"), encoder, with_mix=False)


def test_export(exported, encoder):
    loaded = loading.load_encoder(exported)
    assert_same(loaded, encoder, with_mix=True)
    for name, value in loaded(TEXT).items():
        np.testing.assert_array_equal(value, encoder(TEXT)[name], err_msg=name)


def test_training_directory(run, encoder):
    assert_same(loading.load_encoder(run), encoder, with_mix=True)


def test_resolved_model_and_constructor_arguments(exported, encoder):
    loaded = loading.load_encoder(locate.find_model(exported), dropout=0.25, name="mine")
    assert_same(loaded, encoder, with_mix=True)
    assert (loaded.dropout, loaded.name) == (0.25, "mine")


@pytest.mark.parametrize("kind", ["pair", "exported", "run"])
def test_no_weight_is_drawn(kind, request, monkeypatch):
    path = request.getfixturevalue(kind)

    def refuse(*args, **kwargs):
        raise AssertionError("a weight was drawn")

    for name in ("RandomUniform", "RandomNormal"):
        monkeypatch.setattr(getattr(keras.initializers, name), "__call__", refuse)
    loading.load_encoder(path)
    with pytest.raises(AssertionError, match="a weight was drawn"):
        ElmoEncoder(CONFIG)


@pytest.mark.parametrize("kind", ["pair", "zip"])
def test_what_the_caller_got_wrong_is_not_blamed_on_the_files(kind, pair, tmp_path):
    path = pair if kind == "pair" else shutil.make_archive(tmp_path / "elmo", "zip", pair)
    with pytest.raises(ValueError, match="dropout must be at least 0 and below 1, got 2"):
        loading.load_encoder(path, dropout=2)


@pytest.mark.parametrize("kind", ["pair", "zip"])
def test_values_that_cannot_be_read(kind, pair, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(pair, damaged)
    with h5py.File(damaged / "weights.hdf5", "r+") as file:
        values = file["char_embed"][...]
        del file["char_embed"]
        stored = file.create_dataset("char_embed", data=values, fletcher32=True, chunks=True)
        place = stored.id.get_chunk_info(0).byte_offset
    with open(damaged / "weights.hdf5", "r+b") as file:  # keeps names and shapes
        file.seek(place)
        file.write(b"\xff" * 16)
    path = damaged
    if kind == "zip":
        path = shutil.make_archive(tmp_path / "elmo", "zip", damaged)
    with pytest.raises(InputError, match="weights.hdf5: damaged or truncated HDF5 file: ") as error:
        loading.load_encoder(path)
    assert "\n" not in str(error.value)


def test_home_is_expanded(pair, encoder, monkeypatch):
    monkeypatch.setenv("HOME", str(pair.parent))
    assert_same(loading.load_encoder("~/pair"), encoder, with_mix=False)


def damage(prefix):
    data = prefix.with_name(f"{prefix.name}.data-00000-of-00001")
    content = bytearray(data.read_bytes())
    for position in range(0, len(content), 16):
        content[position] ^= 1
    data.write_bytes(content)


def test_damaged_checkpoint_gives_way_to_the_one_before(run, caplog):
    damage(run / "ckpt-10")
    loaded = loading.load_encoder(run)
    assert_same(loaded, ElmoEncoder(CONFIG, seed=6), with_mix=True)
    assert "ckpt-10" in caplog.text
    assert "going back to ckpt-2" in caplog.text


def test_only_damaged_checkpoints(run):
    for name in ("ckpt-2", "ckpt-10"):
        damage(run / name)
    with pytest.raises(InputError, match="no checkpoint can be read: .*ckpt-10.*ckpt-2"):
        loading.load_encoder(run)


def test_run_without_a_checkpoint(run):
    for path in run.glob("ckpt-*"):
        path.unlink()
    with pytest.raises(InputError, match="run: is a training directory without a checkpoint"):
        loading.load_encoder(run)


def test_checkpoint_of_other_options(run):
    other = ElmoConfig(CONFIG.input, LstmConfig(dim=6, projection_dim=5, num_layers=1))
    other.write(run / "options.json")
    with pytest.raises(InputError) as failure:
        loading.load_encoder(run)
    message = str(failure.value)
    assert "wrong shape: bilm.forward_0.bias is [36], must be [24]" in message
    assert "unexpected: bilm.forward_1.bias [36]" in message
    assert "softmax" not in message
    assert "\n" not in message


def test_missing_path(tmp_path):
    with pytest.raises(InputError, match="gone: there is no such file or directory"):
        loading.load_encoder(tmp_path / "gone")


def test_foreign_saved_model(tmp_path):
    module = tf.Module()
    module.weight = tf.Variable(1.0)
    tf.saved_model.save(module, str(tmp_path / "foreign"))
    with pytest.raises(InputError, match="foreign: is a SavedModel, but not an export of elmo_tf"):
        loading.load_encoder(tmp_path / "foreign")
    extras = tmp_path / "foreign/assets.extra"
    extras.mkdir()
    CONFIG.write(extras / "options.json")
    with pytest.raises(InputError, match="variables: is not a checkpoint of elmo_tf: no model"):
        loading.load_encoder(tmp_path / "foreign")


def test_export_without_its_variables(exported, tmp_path):
    path = tmp_path / "exported"
    shutil.copytree(exported, path)
    shutil.rmtree(path / "variables")
    with pytest.raises(InputError, match="variables/variables: there is no such checkpoint"):
        loading.load_encoder(path)


def test_vocabulary(exported, run, pair):
    for path, expected in (
        (run, f"{run}/vocab.txt"),
        (exported, f"{exported}/assets.extra/vocab.txt"),
    ):
        with locate.open_model(path) as model:
            assert model.vocabulary_file == expected
            assert model.vocabulary.words == [b"<S>", b"</S>", b"<UNK>"]
            assert model.input_vocabulary is None  # it has character input
    (run / "vocab.txt").unlink()
    for path in (pair, run):
        with locate.open_model(path) as model:
            assert model.vocabulary_file is None
            assert model.vocabulary is None


@pytest.mark.parametrize("initial_weights", [None, "/home/me/elmo.zip"])
def test_provenance_and_settings_of_a_run(run, initial_weights):
    description = {
        "settings": TrainingConfig(
            tokenizer="unicode_script", normalize="nfc", unroll_steps=9
        ).to_dict(),
        "text": {"num_sentences": 1234, "num_tokens": 56789, "files": {"names": ["/home/me/a"]}},
        "initial_weights": initial_weights,
    }
    (run / "training.json").write_text(json.dumps(description))
    with locate.open_model(run) as model:
        (sentence,) = model.provenance
        assert (model.tokenizer, model.normalize) == ("unicode_script", "nfc")
        assert model.unroll_steps == 9
    assert "56,789 tokens in 1,234 sentences" in sentence
    assert "unicode_script, normalization nfc" in sentence
    assert ("weights of another model" in sentence) == (initial_weights is not None)
    assert "home" not in sentence


def test_provenance_of_other_formats(pair, exported):
    for path, said in ((pair, "format of bilm-tf"), (exported, "earlier export")):
        with locate.open_model(path) as model:
            (sentence,) = model.provenance
        assert said in sentence
        assert str(path) not in sentence


def test_text_settings_of_an_export(exported, tmp_path):
    path = tmp_path / "exported"
    shutil.copytree(exported, path)
    with locate.open_model(path) as model:
        assert (model.tokenizer, model.normalize) == (None, None)
    (path / "assets.extra/text.json").write_text('{"tokenizer": "unicode_script"}')
    with locate.open_model(path) as model:
        assert (model.tokenizer, model.normalize) == ("unicode_script", None)


def test_an_optimizer_is_read_by_name(run):
    saved = tf.train.Checkpoint(
        model=model_variables(ElmoEncoder(CONFIG)), optimizer={"a.b": tf.Variable([2.0, 3.0])}
    )
    saved.write(str(run / "ckpt-11"))
    with locate.open_model(run) as model:
        assert model.optimizer["a.b"].read().tolist() == [2.0, 3.0]


def test_language_model_needs_a_softmax(exported, run, encoder):
    with pytest.raises(InputError, match="exported: has no softmax to predict words with"):
        loading.load_language_model(exported)
    with pytest.raises(InputError, match=r"softmax.bias is \[6\], must be \[3\]"):
        loading.load_language_model(run)
    (run / "vocab.txt").write_text("<S>\n</S>\n<UNK>\na\nb\nc\n")
    loaded = loading.load_language_model(run)
    assert_same(loaded.model.encoder, encoder, with_mix=True)
    assert loaded.model.softmax.kernel.shape == (6, 5)
    (run / "vocab.txt").unlink()
    with pytest.raises(InputError, match="run: does not say which words its softmax predicts"):
        loading.load_language_model(run)


@pytest.mark.parametrize(("kind", "folder"), [("zip", "."), ("gztar", "."), ("tar", "exported")])
def test_an_export_in_an_archive(exported, tmp_path, kind, folder):
    root = exported if folder == "." else exported.parent
    path = shutil.make_archive(tmp_path / "archive", kind, root, folder)
    with locate.open_model(path) as packed, locate.open_model(exported) as plain:
        assert packed.config == plain.config
        assert packed.names() == plain.names()
        for name in plain.names():
            np.testing.assert_array_equal(packed.arrays[name].read(), plain.arrays[name].read())
        assert packed.vocabulary.words == plain.vocabulary.words
        assert packed.source.startswith(f"{path}/")
