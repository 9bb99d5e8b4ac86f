"""Checkpoints of a run: every value is restored, and damage loses at most one checkpoint."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.config.training import OPTIMIZERS, TrainingConfig
from elmo_tf.errors import InputError
from elmo_tf.formats import checkpoint
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.model.variables import model_variables
from elmo_tf.text.corpus import StreamState
from elmo_tf.training.checkpoints import Position, RunCheckpoints, trained_variables
from elmo_tf.training.optimizers import make_optimizer, named_slots
from tests.training.tiny import CONFIG

BATCH, SIZE = 3, 11


class Saved:
    """A model with its optimizer and checkpoints, and unique values."""

    def __init__(self, directory, seed=0, batch=BATCH, size=SIZE, optimizer="adagrad"):
        self.model = ElmoLanguageModel(CONFIG, size, seed=seed)
        self.optimizer = make_optimizer(TrainingConfig(optimizer=optimizer))
        self.optimizer.build(self.model.language_model_variables)
        self.checkpoints = RunCheckpoints(str(directory), self.model, self.optimizer, batch, 2)
        self.rng = np.random.default_rng(seed)
        for variable in (*self.model.variables, *self.optimizer.variables):
            variable.assign(np.asarray(9 * self.rng.random(variable.shape), variable.dtype))

    def values(self):
        named = {
            **model_variables(self.model.encoder, self.model.softmax),
            **named_slots(self.optimizer, trained_variables(self.model)),
        }
        return {name: variable.numpy() for name, variable in named.items()}

    def position(self, step):
        state = tf.nest.map_structure(
            lambda tensor: tf.constant(self.rng.random(tensor.shape), tf.float32),
            self.model.zero_state(BATCH),
        )
        rows = (None, ([b"caf\xc3\xa9", b"\xff\0"], 1), ([b"x"], 0))
        return Position(step, state, StreamState({"shard": 3, "run": {"seed": step}}, rows))


def assert_equal(one, two):
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


def test_everything_comes_back(tmp_path):
    saved = Saved(tmp_path, seed=1)
    position = saved.position(7)
    saved.checkpoints.save(position)
    other = Saved(tmp_path, seed=2)
    restored = other.checkpoints.restore()
    assert_equal(other.values(), saved.values())
    assert len(saved.values()) == len(saved.model.variables) + len(saved.optimizer.variables)
    assert (restored.step, restored.stream) == (7, position.stream)
    tf.nest.map_structure(np.testing.assert_array_equal, restored.state, position.state)
    assert other.checkpoints.saved_step == 7


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_goes_on_as_if_it_had_never_stopped(tmp_path, name):
    saved, other = (Saved(tmp_path, seed, optimizer=name) for seed in (1, 2))
    saved.checkpoints.save(saved.position(1))
    assert len(saved.values()) == len(saved.model.variables) + len(saved.optimizer.variables)
    other.checkpoints.restore()
    assert_equal(other.values(), saved.values())
    before = saved.values()
    for each in (saved, other):
        trained = each.model.language_model_variables
        each.optimizer.apply([tf.ones(variable.shape) for variable in trained], trained)
    assert_equal(other.values(), saved.values())
    assert not np.array_equal(before["softmax.kernel"], saved.values()["softmax.kernel"])


def test_a_run_without_a_checkpoint(tmp_path):
    assert Saved(tmp_path).checkpoints.restore() is None


def test_the_newest_two_are_kept_and_a_step_is_saved_once(tmp_path):
    saved = Saved(tmp_path)
    for step in (1, 2, 10):
        saved.checkpoints.save(saved.position(step))
    names = [os.path.basename(prefix) for prefix in checkpoint.checkpoints_in(tmp_path)]
    assert names == ["ckpt-10", "ckpt-2"]
    assert tf.train.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-10")
    written = os.stat(tmp_path / "ckpt-10.index").st_mtime_ns
    saved.checkpoints.save(saved.position(10))
    assert os.stat(tmp_path / "ckpt-10.index").st_mtime_ns == written


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_a_truncated_newest_one_is_noticed_and_the_one_before_used(tmp_path, caplog, ending):
    saved = Saved(tmp_path)
    saved.checkpoints.save(saved.position(5))
    before = saved.values()
    saved.model.softmax.bias.assign_add(np.ones(SIZE))
    saved.checkpoints.save(saved.position(6))
    os.truncate(tmp_path / f"ckpt-6{ending}", 100)
    other = Saved(tmp_path, seed=4)
    assert other.checkpoints.restore().step == 5
    assert_equal(other.values(), before)
    assert [f"{tmp_path}/ckpt-6: damaged" in message for message in caplog.messages] == [True]
    # Training continues, and the damaged checkpoint is rewritten.
    other.checkpoints.save(other.position(6))
    assert Saved(tmp_path).checkpoints.restore().step == 6


def test_what_a_kill_leaves_is_removed(tmp_path):
    saved = Saved(tmp_path)
    saved.checkpoints.save(saved.position(5))
    (tmp_path / "ckpt-6_temp").mkdir()
    (tmp_path / "ckpt-6_temp" / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"x")
    assert Saved(tmp_path).checkpoints.restore().step == 5
    assert not (tmp_path / "ckpt-6_temp").exists()


def test_another_model_is_refused_and_nothing_assigned(tmp_path):
    saved = Saved(tmp_path)
    saved.checkpoints.save(saved.position(5))
    other = Saved(tmp_path, seed=3, batch=5, size=13)
    before = other.values()
    with pytest.raises(InputError) as error:
        other.checkpoints.restore()
    message = str(error.value)
    assert message.startswith(f"{tmp_path}/ckpt-5: does not fit the run: wrong shape: ")
    for part in (
        "model/softmax.kernel is [11, 2], must be [13, 2]",
        "optimizer/softmax.bias.accumulator is [11], must be [13]",
        "state/backward_1.cell is [3, 6], must be [5, 6]",
    ):
        assert part in message
    assert_equal(other.values(), before)


def test_a_copy_is_a_checkpoint_too(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "best").mkdir()
    saved = Saved(tmp_path / "run")
    for step in (3, 4):
        saved.checkpoints.save_copy(str(tmp_path / "best"), saved.position(step))
    assert checkpoint.checkpoints_in(tmp_path / "run") == []
    assert checkpoint.checkpoints_in(tmp_path / "best") == [str(tmp_path / "best" / "ckpt-4")]
    assert Saved(tmp_path / "best", seed=9).checkpoints.restore().step == 4


def test_a_place_that_cannot_be_written_to(tmp_path):
    saved = Saved(tmp_path)
    (tmp_path / "ckpt-5_temp").write_bytes(b"in the way")
    (tmp_path / "ckpt-5.index").mkdir()
    with pytest.raises(InputError, match="the checkpoint of step 5 could not be written"):
        saved.checkpoints.save(saved.position(5))


def indices(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith(".index"))


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\0junk", b"model_checkpoint_path: 1", b'model_checkpoint_path: ""']
)
def test_a_list_of_checkpoints_that_is_none_ends_nothing(tmp_path, content):
    """A power failure may leave it empty. The checkpoint files are sufficient."""
    first = Saved(tmp_path)
    (tmp_path / "best").mkdir()
    for step in (1, 2):
        first.checkpoints.save(first.position(step))
    first.checkpoints.save_copy(str(tmp_path / "best"), first.position(2))
    for directory in (tmp_path, tmp_path / "best"):
        (directory / "checkpoint").write_bytes(content)
    second = Saved(tmp_path)
    assert second.checkpoints.restore().step == 2
    second.checkpoints.save(second.position(3))
    second.checkpoints.save_copy(str(tmp_path / "best"), second.position(3))
    assert indices(tmp_path) == ["ckpt-2.index", "ckpt-3.index"]
    assert indices(tmp_path / "best") == ["ckpt-3.index"]


def test_a_list_without_checkpoints(tmp_path):
    (tmp_path / "checkpoint").write_bytes(b"junk")
    saved = Saved(tmp_path)
    assert saved.checkpoints.restore() is None
    saved.checkpoints.save(saved.position(1))
    assert indices(tmp_path) == ["ckpt-1.index"]


def test_a_list_that_names_files_elsewhere_deletes_none(tmp_path):
    run, thesis = tmp_path / "run", tmp_path / "thesis"
    first = Saved(run)
    thesis.mkdir()
    for step in (1, 2):
        first.checkpoints.save(first.position(step))
    shutil.copy(run / "ckpt-1.index", thesis / "ckpt-1.index")
    (run / "checkpoint").write_text(
        'model_checkpoint_path: "ckpt-2"\n'
        'all_model_checkpoint_paths: "../thesis/ckpt-1"\n'
        f'all_model_checkpoint_paths: "{thesis}/ckpt-1"\n'
        'all_model_checkpoint_paths: "ckpt-2"\n' + "all_model_checkpoint_timestamps: 9.0\n" * 3
    )
    second = Saved(run)
    for step in (3, 4, 5):
        second.checkpoints.save(second.position(step))
    assert indices(thesis) == ["ckpt-1.index"]
    assert indices(run) == ["ckpt-4.index", "ckpt-5.index"]


def test_a_directory_in_place_of_the_list_is_named(tmp_path):
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(InputError, match=f"{tmp_path}/checkpoint: is a directory, where"):
        Saved(tmp_path)
