"""Checkpoints by name: they contain every variable and its values, and damage is detected."""

import os

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.formats import checkpoint
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.model.variables import model_variables
from tests.models import small_config

CONFIG = small_config(dim=6, projection_dim=2)


@pytest.fixture(scope="module")
def model():
    return ElmoLanguageModel(CONFIG, vocabulary_size=11, seed=1)


@pytest.fixture(scope="module")
def variables(model):
    return model_variables(model.encoder, model.softmax)


@pytest.fixture
def prefix(variables, tmp_path):
    return tf.train.Checkpoint(model=variables).write(str(tmp_path / "ckpt-12"))


def read_model(reader):
    return {name: array.read() for name, array in reader.model_arrays().items()}


def read_all(prefix):
    return read_model(checkpoint.CheckpointReader(prefix))


def test_values_come_back(variables, prefix):
    arrays = read_all(prefix)
    assert list(arrays) == sorted(variables)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, variables[name].numpy())


def test_names_with_dots_and_slashes(tmp_path):
    values = {"a.b/c..d": tf.Variable(1.0), "a/b.S": tf.Variable(2.0), ".Sx": tf.Variable(3.0)}
    prefix = tf.train.Checkpoint(model=values).write(str(tmp_path / "ckpt-1"))
    assert read_all(prefix) == {"a.b/c..d": 1.0, "a/b.S": 2.0, ".Sx": 3.0}


def test_groups_are_apart(tmp_path):
    saved = tf.train.Checkpoint(model={"a": tf.Variable(1.0)}, more={"a": tf.Variable("text")})
    reader = checkpoint.CheckpointReader(saved.write(str(tmp_path / "ckpt-1")))
    (one,), (two,) = (reader.arrays(group).values() for group in ("model", "more"))
    assert (one.shape, two.shape) == ((), ())
    assert (one.read(), two.read()) == (1.0, b"text")
    assert reader.arrays("none") == {}


def truncate(path):
    os.truncate(path, os.path.getsize(path) - 1)


def flip(path):
    with open(path, "r+b") as file:
        file.seek(40)
        byte = file.read(1)
        file.seek(40)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("damage", [truncate, flip, os.unlink])
@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_damage_is_noticed(prefix, damage, ending):
    damage(prefix + ending)
    with pytest.raises(checkpoint.DamagedCheckpointError, match=f"^{prefix}: .*") as error:
        read_all(prefix)
    assert "\n" not in str(error.value)


def test_a_checkpoint_of_others_is_named(tmp_path):
    prefix = tf.train.Checkpoint(net={"a": tf.Variable(1.0)}).write(str(tmp_path / "ckpt-1"))
    with pytest.raises(InputError, match=r"ckpt-1: is not a checkpoint of elmo_tf"):
        read_all(prefix)


def test_checkpoints_in_a_directory_newest_first(tmp_path):
    for name in ("ckpt-9.index", "ckpt-10.index", "ckpt-x.index", "ckpt-8.data-00000-of-00001"):
        (tmp_path / name).touch()
    expected = [str(tmp_path / name) for name in ("ckpt-10", "ckpt-9")]
    assert checkpoint.checkpoints_in(tmp_path) == expected


def test_newest_that_is_whole(variables, tmp_path, caplog):
    saved = tf.train.Checkpoint(model={"a": tf.Variable(1.0)})
    for step in (9, 10, 11):
        saved.model["a"].assign(step)
        saved.write(str(tmp_path / f"ckpt-{step}"))
    assert checkpoint.from_newest(tmp_path, read_model) == {"a": 11.0}
    assert not caplog.messages
    os.unlink(tmp_path / "ckpt-11.data-00000-of-00001")
    truncate(tmp_path / "ckpt-10.index")
    assert checkpoint.from_newest(tmp_path, read_model) == {"a": 9.0}
    assert len(caplog.messages) == 2
    for step, message in zip((11, 10), caplog.messages, strict=True):
        assert message.startswith(f"{tmp_path}/ckpt-{step}: damaged or truncated checkpoint: ")
        assert message.endswith("; going back to ckpt-9")


def test_no_checkpoint_and_none_that_is_whole(tmp_path):
    assert checkpoint.from_newest(tmp_path, read_model) is None
    (tmp_path / "ckpt-3.index").touch()
    with pytest.raises(InputError, match="^no checkpoint can be read: .*ckpt-3: damaged"):
        checkpoint.from_newest(tmp_path, read_model)
