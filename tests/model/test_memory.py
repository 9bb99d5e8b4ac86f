"""Running out of memory: one line that says what was requested."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.config.inputs import CharCnnConfig, WordInputConfig
from elmo_tf.config.model import ElmoConfig, LstmConfig
from elmo_tf.errors import OutOfMemoryError
from elmo_tf.model import memory
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.model.traced_functions import TracedFunctions

WORDS = ["<S>", "</S>", "<UNK>", "a", "b"]
LARGEST = [2**25, 2**25]  # 4 PB as float32, beyond the addresses of a process


@pytest.mark.parametrize(
    "config",
    [
        ElmoConfig(CharCnnConfig(3, ((1, 4), (3, 7)), 2), LstmConfig(7, 5, 3)),
        ElmoConfig(CharCnnConfig(3, ((1, 4), (3, 7)), 0), LstmConfig(11, 11, 1)),
        ElmoConfig(WordInputConfig(), LstmConfig(7, 5, 2)),
    ],
)
def test_parameters_are_counted_as_they_are_made(config):
    encoder = ElmoEncoder(config, vocabulary=WORDS)
    made = sum(int(np.prod(variable.shape)) for variable in encoder.variables)
    mix = config.lstm.num_layers + 2
    assert encoder.config.num_parameters == made - mix


def test_a_model_larger_than_the_machine_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 1_500_000_000)
    config = ElmoConfig(WordInputConfig(), LstmConfig(65_536, 500, 1))
    parameters = 2 * 65_536 * (2 * 500 * 4 + 4 + 500) + 5 * 500
    with pytest.raises(OutOfMemoryError) as caught:
        ElmoEncoder(config, vocabulary=WORDS)
    assert str(caught.value) == (
        f"a model of {parameters:,} parameters, 2.4 GB as float32: "
        "this machine has 1.5 GB of memory"
    )
    small = ElmoConfig(CharCnnConfig(3, ((1, 4),), 0), LstmConfig(4, 4, 1))
    with pytest.raises(OutOfMemoryError, match=r"parameters, 4\.0 GB as float32: this machine"):
        ElmoLanguageModel(small, 200_000_000)


def test_weights_without_room_are_named_by_the_model():
    with pytest.raises(OutOfMemoryError) as caught, memory.for_parameters(1_234_567):
        tf.zeros(LARGEST)
    assert str(caught.value) == (
        "a model of 1,234,567 parameters, 0.0 GB as float32: out of memory: no room for an array "
        "of shape [33554432, 33554432], 4.5e+06 GB"
    )


def test_a_batch_without_room_is_named_by_its_shape():
    def too_large(text):
        return tf.random.normal(LARGEST)

    with pytest.raises(OutOfMemoryError) as caught:
        TracedFunctions().run(too_large, tf.constant(["a", "b"]))
    assert str(caught.value) == (
        "inputs of shape [2], together too many: out of memory: no room for an array of shape "
        "[33554432, 33554432], 4.5e+06 GB"
    )


def test_the_memory_of_this_machine():
    assert memory.physical_memory() is None or memory.physical_memory() > 1e8
