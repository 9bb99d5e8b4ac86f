"""Files of Keras are read by Keras's names, for any model that contains an encoder."""

import json
import shutil
import zipfile

import h5py
import keras
import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.formats import locate
from elmo_tf.model.embedding import ElmoEmbedding
from elmo_tf.model.variables import named_variables
from tests import models

# Keras 3.15 saves variables through an `__array__` that NumPy 2 wants to have a `copy` argument.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A tagger that contains an encoder, saved in both formats, and its weights."""
    folder = tmp_path_factory.mktemp("keras")
    encoder = models.small_encoder(seed=5, tokenizer="unicode_script")
    layer = ElmoEmbedding(encoder, name="elmo")
    text = keras.Input((), dtype="string")
    model = keras.Model(text, keras.layers.Dense(2)(layer(text)))
    layer.mix.mixes[0].gamma.assign(2.5)
    model.save(folder / "tagger.keras")
    (folder / "m").mkdir()
    model.save_weights(folder / "m/tagger.weights.h5")
    encoder.config.write(folder / "m/options.json")
    weights = {name: value.numpy() for name, value in named_variables(encoder).items()}
    return folder, {**weights, "scalar_mix.gamma": np.float32(2.5)}, encoder.config


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved[0], tmp_path / "copy")


@pytest.mark.parametrize(
    "named", ["tagger.keras", "m", "m/options.json,{}/m/tagger.weights.h5", "m.zip"]
)
def test_every_way_to_name_one(saved, tmp_path, named):
    """The scalar mix is the one that the task trained."""
    folder, weights, config = saved
    path = f"{folder}/{named.format(folder)}"
    if named == "m.zip":
        path = shutil.make_archive(tmp_path / "m", "zip", folder / "m")
    found = {}
    with locate.open_model(path) as model:
        assert model.config == config
        assert model.tokenizer == ("unicode_script" if named == "tagger.keras" else None)
        model.read(model.names(), found.__setitem__)
    assert found.keys() == weights.keys()
    for name, value in weights.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_of_several_mixes_none_is_that_of_the_model(copy):
    with h5py.File(copy / "m/tagger.weights.h5", "r+") as file:
        mixes = file["layers/elmo_embedding/mix"]
        file.copy(mixes["mix_0"], mixes, "mix_1")
        own = file["layers/elmo_embedding/encoder/parts/scalar_mix/vars"]
        own["1"][...] = 0.75
    with locate.open_model(copy / "m") as model:
        assert model.arrays["scalar_mix.gamma"].read() == 0.75


def error_of(path):
    with pytest.raises(InputError) as caught, locate.open_model(path) as model:
        model.read(model.names(), lambda name, array: None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_weights_that_do_not_fit(copy):
    path = copy / "m/tagger.weights.h5"
    with h5py.File(path, "r+") as file:
        cell = file["layers/elmo_embedding/encoder/bilm/forward_1/vars"]
        del cell["2"]
        cell["7"] = np.zeros(3, np.int32)
    cell = "layers/elmo_embedding/encoder/bilm/forward_1/vars"
    assert error_of(copy / "m") == (
        f"{path}: does not fit its options: missing: {cell}/2 [36]; not floating point: {cell}/7 "
        f"is int32; unexpected: {cell}/7 [3]"
    )
    with h5py.File(path, "r+") as file:
        file.copy("layers/elmo_embedding", "layers/another")
    assert f"{path}: holds 2 encoders: layers/another/encoder/bilm/forw" in error_of(copy / "m")
    with h5py.File(path, "r+") as file:
        del file["layers/another"]
        del file["layers/elmo_embedding"]
    assert error_of(copy / "m") == (
        f"{path}: holds no encoder: looked for bilm/forward_0/vars/0, it has "
        "layers/dense/vars/0, layers/dense/vars/1"
    )


def test_a_configuration_without_an_encoder_or_with_two(copy):
    path = copy / "tagger.keras"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members["config.json"].decode()
    other = text.replace('"n_layers": 2', '"n_layers": 1')
    for changed, message in (
        ("{}", "is the configuration of a Keras model with no encoder of elmo_tf"),
        (f'{{"a": {text}, "b": {other}}}', "with 2 different encoders of elmo_tf"),
        (text.replace('"projection_dim": 5', '"projection_dim": "5"'), "lstm.projection_dim must"),
        ("[]", "must hold a JSON object"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in {**members, "config.json": changed.encode()}.items():
                archive.writestr(name, content)
        message_found = error_of(path)
        assert message_found.startswith(f"{path}/config.json: ")
        assert message in message_found


def test_words_come_with_a_saved_model(tmp_path):
    """A file with only the parts of a `.keras` file that we read: configuration and weights."""
    words = ["<S>", "</S>", "<UNK>", "a"]
    options = {"lstm": {"dim": 3, "projection_dim": 2, "n_layers": 1}, "n_tokens_vocab": 4}
    encoder = {"registered_name": "elmo_tf>ElmoEncoder"}
    encoder["config"] = {"config": options, "vocabulary": words}
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["word_embedding/vars/0"] = np.arange(8, dtype="f").reshape(4, 2)
        for direction in ("forward", "backward"):
            for number, shape in enumerate([(12, 2), (12, 2), (12,), (2, 3)]):
                file[f"bilm/{direction}_0/vars/{number}"] = np.full(shape, number, "f")
    with zipfile.ZipFile(tmp_path / "e.keras", "w") as archive:
        archive.writestr("config.json", json.dumps(encoder))
        archive.write(tmp_path / "w.h5", "model.weights.h5")
    with locate.open_model(tmp_path / "e.keras") as model:
        assert model.vocabulary.words == [word.encode() for word in words]
        assert model.arrays["word_embedding.embedding"].read()[3].tolist() == [6, 7]
        assert model.arrays["bilm.backward_0.bias"].read().tolist() == [2] * 12
        assert "scalar_mix.gamma" not in model.arrays
