"""Models that contain ElmoEmbedding: trained, saved, and loaded by another process."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.layers.elmo_mix import ElmoMix
from elmo_tf.model.embedding import ElmoEmbedding
from elmo_tf.model.encoder import ElmoEncoder
from tests import models

# Keras 3.15 saves variables through an `__array__` that NumPy 2 wants to have a `copy` argument.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

CONFIG = models.small_config(filters=((1, 4), (3, 7)), cell_clip=2.0, projection_clip=1.5)
WIDTH = CONFIG.input.max_characters_per_token
TEXT = ["The cat sat", "one", "a très-long-mat", "b c d e f", "last"]  # batches of 2: 2, 2, 1
LABELS = np.arange(5.0)[:, None]


@pytest.fixture
def encoder():
    return ElmoEncoder(CONFIG, seed=7)


@pytest.fixture
def files(encoder, tmp_path):
    """A directory with a pair in bilm-tf format."""
    return models.write_pair(tmp_path / "published", encoder)


def batches(features=TEXT):
    return tf.data.Dataset.from_tensor_slices((features, LABELS)).batch(2)


def fit(model):
    model.compile("adam", "mse")
    history = model.fit(batches(), shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert not model.jit_compile, "jit_compile='auto' must leave XLA, which has no strings, off"
    return model


def functional(elmo):
    text = keras.Input([], dtype="string")
    vectors = elmo(text)
    hidden = vectors if isinstance(vectors, list) else [vectors]
    hidden[0] = keras.layers.LSTM(3, return_sequences=True)(hidden[0])
    hidden = keras.layers.Concatenate()(hidden) if len(hidden) > 1 else hidden[0]
    hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    return keras.Model(text, keras.layers.Dense(1)(hidden))


def sequential(elmo):
    return keras.Sequential(
        [
            keras.Input([], dtype="string"),
            elmo,
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )


def sequential_without_input(elmo):
    return keras.Sequential([elmo, keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)])


@keras.saving.register_keras_serializable(package="elmo_tf_tests")
class Subclassed(keras.Model):
    def __init__(self, elmo, **kwargs):
        super().__init__(**kwargs)
        self.elmo = elmo
        self.join = keras.layers.Concatenate()
        self.lstm = keras.layers.LSTM(3)
        self.dense = keras.layers.Dense(1)

    def call(self, inputs, training=None):
        vectors = self.elmo(inputs, training=training)
        return self.dense(self.lstm(self.join(vectors)))

    def build_from_config(self, config):  # Keras would build with floats
        self(tf.constant(["any text"]))

    def get_config(self):
        return {"elmo": keras.saving.serialize_keras_object(self.elmo)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["elmo"]))


KINDS = [
    pytest.param(functional, marks=pytest.mark.traced),
    Subclassed,
    *(
        pytest.param(each, marks=pytest.mark.slow)
        for each in (sequential, sequential_without_input)
    ),
]


@pytest.mark.parametrize("kind", KINDS)
def test_fit_predict_save_and_load(encoder, kind, tmp_path):
    keras.utils.set_random_seed(1)  # the result of a few steps depends on the head's weights
    num_mixes = 1 if kind in (sequential, sequential_without_input) else 2
    elmo = ElmoEmbedding(encoder, num_mixes=num_mixes, dropout=0.5, l2_coefficient=0.01)
    model = fit(kind(elmo))
    assert np.abs(elmo.mix.mix_0.gamma.numpy() - 1) > 1e-5, "nothing was learnt"
    predicted = model.predict(tf.constant(TEXT), batch_size=2, verbose=0)
    assert predicted.shape == (5, 1)
    np.testing.assert_allclose(model(tf.constant(TEXT)), predicted, atol=1e-5)
    np.testing.assert_allclose(model(tf.constant(TEXT[1:2])), predicted[1:2], atol=1e-5)

    model.save(tmp_path / "m.keras")
    copy = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(copy(tf.constant(TEXT)), model(tf.constant(TEXT)), atol=1e-7)
    assert len(copy.trainable_variables) == len(model.trainable_variables)
    if kind is sequential:
        fit(copy)


def test_objects_of_numpy_in_fit_and_predict(encoder):
    model = sequential(ElmoEmbedding(encoder))
    model.compile("adam", "mse")
    text = np.array(TEXT, object)
    model.fit(text, LABELS, batch_size=2, verbose=0)
    assert model.predict(text, batch_size=2, verbose=0).shape == (5, 1)


LOAD = """
import sys
import numpy as np
import tensorflow as tf
import keras
from elmo_tf import ElmoEmbedding
model = keras.models.load_model(sys.argv[1])
text = open(sys.argv[2], encoding="utf-8").read().splitlines()
np.save(sys.argv[3], model.predict(tf.constant(text), batch_size=2, verbose=0))
"""


@pytest.mark.slow
def test_another_process_needs_nothing_but_the_file(files, project_dir, tmp_path):
    """The original files are moved away first."""
    for name in ("options.json", "weights.hdf5"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    elmo = ElmoEmbedding.from_weights(
        tmp_path / "options.json", tmp_path / "weights.hdf5", trainable="all"
    )
    model = fit(sequential(elmo))
    expected = model.predict(tf.constant(TEXT), batch_size=2, verbose=0)
    model.save(tmp_path / "m.keras")
    for name in ("options.json", "weights.hdf5"):
        (tmp_path / name).unlink()
    (tmp_path / "text").write_text("\n".join(TEXT), encoding="utf-8")
    paths = [str(tmp_path / name) for name in ("m.keras", "text", "predicted.npy")]
    subprocess.run([sys.executable, "-c", LOAD, *paths], cwd=project_dir, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "predicted.npy"), expected)


def test_one_encoder_in_two_layers_stays_one(encoder, tmp_path):
    text = keras.Input([], dtype="string")
    outputs = [ElmoEmbedding(encoder)(text), ElmoEmbedding(encoder, use_top_only=True)(text)]
    model = keras.Model(text, outputs)
    assert len(model.weights) == len(encoder.weights) + 2 + 1
    model.save(tmp_path / "m.keras")
    copy = keras.models.load_model(tmp_path / "m.keras")
    assert len(copy.weights) == len(model.weights)
    for ours, theirs in zip(model(tf.constant(TEXT)), copy(tf.constant(TEXT)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_one_layer_twice_nested_and_cloned(encoder):
    elmo = ElmoEmbedding(encoder)
    first, second = keras.Input([], dtype="string"), keras.Input([None], dtype="string")
    inner = keras.Model(second, keras.layers.GlobalAveragePooling1D()(elmo(second)))
    pooled = keras.layers.GlobalAveragePooling1D()(elmo(first))
    model = keras.Model([first, second], keras.layers.Dense(1)(pooled + inner(second)))
    inputs = [tf.constant(["a b", "c"]), tf.constant([["d", "e", "f"], ["g", "", ""]])]
    model.compile("adam", "mse")
    model.fit(inputs, np.ones([2, 1]), batch_size=1, verbose=0)
    assert len(model.trainable_variables) == 2 + 2
    clone = keras.models.clone_model(model, recursive=True)  # otherwise the layer is duplicated
    assert clone.get_layer(elmo.name).encoder is not encoder
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone(inputs), model(inputs))
    assert len(clone.trainable_variables) == 2 + 2


def test_the_mask_as_a_tensor_of_a_functional_model(encoder, tmp_path):
    tokens = keras.Input([None], dtype="string")
    elmo = ElmoEmbedding(encoder, keep_boundaries=True)
    mask = keras.ops.cast(elmo.compute_mask(tokens), "float32")
    model = keras.Model(tokens, [elmo(tokens), keras.ops.sum(mask, axis=1)])
    model.save(tmp_path / "m.keras")
    for each in (model, keras.models.load_model(tmp_path / "m.keras")):
        _, lengths = each(tf.constant([["a", "", "b", ""], ["c", "", "", ""]]))
        assert list(lengths.numpy()) == [5, 3]


def test_character_ids_in_fit(encoder):
    ids = keras.Input([None, WIDTH], dtype="int32")
    elmo = ElmoEmbedding(encoder)
    pooled = keras.layers.GlobalAveragePooling1D()(elmo(ids))
    model = keras.Model(ids, keras.layers.Dense(1)(pooled))
    model.compile("adam", "mse")
    features = elmo_tf.batch_to_ids([text.split() for text in TEXT], WIDTH)
    model.fit(features, LABELS, batch_size=2, verbose=0)
    of_text = keras.layers.GlobalAveragePooling1D()(elmo(TEXT))
    np.testing.assert_allclose(
        model.predict(features, verbose=0), model.layers[-1](of_text), atol=1e-5
    )


@pytest.mark.slow
def test_keras_exports_it_without_python(encoder, tmp_path):
    model = sequential(ElmoEmbedding(encoder))
    model.export(tmp_path / "exported", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "exported")
    for text in (TEXT, TEXT[:1]):
        np.testing.assert_allclose(
            loaded.serve(tf.constant(text)), model(tf.constant(text)), atol=1e-6
        )


@pytest.mark.parametrize("kind", ["pair", "directory", "saved_model"])
def test_from_model(encoder, files, kind, tmp_path):
    source = ElmoEncoder.from_config(encoder.get_config())
    source.set_weights(encoder.get_weights())
    path = {"pair": f"{files}/options.json,{files}/weights.hdf5", "directory": files}.get(kind)
    if kind == "saved_model":
        from elmo_tf.export import saved_model

        source.scalar_mix.layer_weights.assign([0.3, -1.0, 2.0])
        source.scalar_mix.gamma.assign(1.3)
        path = tmp_path / "exported"
        saved_model.export(source, path)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        elmo = ElmoEmbedding.from_model(path, num_mixes=2, dtype="float32")
    finally:
        keras.config.set_dtype_policy("float32")
    assert elmo.encoder.compute_dtype == "float32", "the biLM does not follow the global policy"
    for output in elmo(TEXT):
        np.testing.assert_allclose(output, source(tf.constant(TEXT))["elmo"], atol=1e-6)


def test_a_mix_trained_on_vectors_computed_beforehand_fits_the_whole(encoder):
    """Uses vectors in the form of `elmo-embed`, [layers, tokens, dim] per line, padded."""
    elmo = ElmoEmbedding(encoder)
    outputs = encoder(tf.constant(TEXT))
    word = outputs["word_emb"]
    layers = [tf.concat([word, word], -1), outputs["lstm_outputs1"], outputs["lstm_outputs2"]]
    vectors = tf.stack(layers, axis=1)
    mix = ElmoMix(num_layers=3)
    model = keras.Sequential([mix, keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.fit(vectors, LABELS, batch_size=2, verbose=0)
    elmo.mix.set_weights(mix.get_weights())
    np.testing.assert_allclose(elmo(TEXT), mix(vectors), atol=1e-6)
    np.testing.assert_array_equal(elmo(TEXT)._keras_mask, mix(vectors)._keras_mask)
