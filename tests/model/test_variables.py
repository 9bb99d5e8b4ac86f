"""Variables by name: all are included, and arrays are assigned to all or to none."""

import tracemalloc

import keras
import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf, locate
from elmo_tf.formats.opened_model import OpenedModel
from elmo_tf.model import variables as model_variables
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.storage.stored_array import StoredArray
from tests.models import small_config

CONFIG = small_config(dim=6, projection_dim=2)


@pytest.fixture(scope="module")
def model():
    return ElmoLanguageModel(CONFIG, vocabulary_size=11, seed=1)


@pytest.fixture(scope="module")
def variables(model):
    return model_variables.model_variables(model.encoder, model.softmax)


def opened(arrays):
    """An opened model with arrays in memory."""
    return OpenedModel("x", CONFIG, {name: StoredArray.of(each) for name, each in arrays.items()})


def test_names_cover_every_variable(model, variables):
    """Compares by identity, so that no variable is missing."""
    assert {id(variable) for variable in variables.values()} == {
        id(variable.value) for variable in model.variables
    }
    shapes = {
        "char_cnn.embedding": (261, 3),
        "char_cnn.convolution_kernel_1": (2, 3, 6),
        "char_cnn.highway_0.gate_bias": (10,),
        "bilm.backward_1.input_kernel": (24, 2),
        "scalar_mix.layer_weights": (3,),
        "scalar_mix.gamma": (),
        "softmax.kernel": (11, 2),
    }
    assert {name: tuple(variables[name].shape) for name in shapes} == shapes


def test_without_a_softmax(model, variables):
    names = model_variables.model_variables(model.encoder).keys()
    assert variables.keys() - names == {"softmax.kernel", "softmax.bias"}


def test_a_variable_that_no_attribute_names_is_an_error():
    class Hides(keras.layers.Layer):
        def build(self, shape):
            self.hidden = [self.add_weight(name="a", shape=(2,))]

    layer = Hides()
    layer.build(None)
    with pytest.raises(ValueError, match="Hides: 1 variables, of which only 0"):
        model_variables.named_variables(layer)


def test_assign_all_or_nothing(variables):
    arrays = {name: variable.numpy() for name, variable in variables.items()}
    other = ElmoLanguageModel(CONFIG, vocabulary_size=11, seed=2)
    others = model_variables.model_variables(other.encoder, other.softmax)
    before = {name: variable.numpy() for name, variable in others.items()}

    wrong = {**arrays, "extra": np.zeros(3), "softmax.bias": np.zeros(5)}
    del wrong["char_cnn.embedding"]
    with pytest.raises(InputError) as error:
        model_variables.assign(others, opened(wrong), softmax=True)
    assert str(error.value) == (
        "x: does not fit its options: missing: char_cnn.embedding [261, 3]; unexpected: extra [3]; "
        "wrong shape: softmax.bias is [5], must be [11]"
    )
    for name, variable in others.items():
        np.testing.assert_array_equal(variable.numpy(), before[name])

    model_variables.assign(others, opened(arrays), softmax=True)
    for name, variable in others.items():
        np.testing.assert_array_equal(variable.numpy(), arrays[name])


def test_parts_that_are_not_wanted_stay_as_they_are(variables):
    """The softmax by default; the scalar mix if it is excluded or missing."""
    arrays = {name: np.full(each.shape, 7.0, np.float32) for name, each in variables.items()}
    without_mix = {name: each for name, each in arrays.items() if "scalar_mix" not in name}
    for given, changed in ((arrays, {1.0, 7.0}), (without_mix, {1.0})):
        other = ElmoLanguageModel(CONFIG, vocabulary_size=11, seed=2)
        model_variables.assign(
            model_variables.named_variables(other.encoder), opened(given), scalar_mix=True
        )
        assert float(other.encoder.scalar_mix.gamma) in changed
        assert (other.encoder.char_cnn.embedding.numpy() == 7.0).all()
        assert not (other.softmax.kernel.numpy() == 7.0).any()


def test_stored_arrays_are_in_memory_one_at_a_time(tmp_path):
    config = small_config(dim=900, projection_dim=9, num_layers=3)
    rng = np.random.default_rng(3)
    arrays = {
        entry.name: rng.normal(size=entry.shape).astype(np.float32)
        for entry in bilm_tf.table(config)
    }
    config.write(tmp_path / "options.json")
    bilm_tf.write_weights(tmp_path / "weights.hdf5", arrays, config)
    encoder = ElmoEncoder(config)
    named = model_variables.named_variables(encoder)
    largest = max(array.nbytes for array in arrays.values())
    assert sum(array.nbytes for array in arrays.values()) > 6 * largest
    tracemalloc.start()
    try:
        with locate.open_model(tmp_path) as stored:
            model_variables.assign(named, stored)
        del stored
        # TensorFlow may use a NumPy array's memory as a variable's value.
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - kept < 2 * largest  # a read and a transposed copy, each half of the largest
    for name, array in bilm_tf.from_bilm_tf(config, arrays).items():
        np.testing.assert_array_equal(named[name].numpy(), array, err_msg=name)
