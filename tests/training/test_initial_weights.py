"""Starting from other weights: published ones, a run of ours; with its softmax or a new one."""

import os

import numpy as np
import pytest

from elmo_tf.config.model import ElmoConfig
from elmo_tf.errors import InputError
from elmo_tf.export import saved_model
from elmo_tf.formats import bilm_tf
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.model.variables import model_variables
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.training import run_directory
from elmo_tf.training.checkpoints import trained_variables
from elmo_tf.training.initial_weights import open_initial_weights
from elmo_tf.training.loop import Trainer
from elmo_tf.training.optimizers import named_slots
from tests.training import tiny

pytestmark = pytest.mark.usefixtures("shared_steps")


@pytest.fixture
def folder(tmp_path):
    return tiny.write_files(tmp_path)


@pytest.fixture(scope="module")
def model():
    return ElmoLanguageModel(tiny.CONFIG, 26, seed=77)


@pytest.fixture
def published(folder, model):
    """A function that writes a model as a pair, with its softmax or without."""

    def write(with_softmax):
        tiny.CONFIG.write(folder / "options.json")
        softmax = model.softmax if with_softmax else None
        arrays = bilm_tf.collect_arrays(model.encoder, softmax)
        bilm_tf.write_weights(folder / "weights.hdf5", arrays, tiny.CONFIG)
        return f"{folder}/options.json,{folder}/weights.hdf5"

    return write


def values(model):
    named = model_variables(model.encoder, model.softmax)
    return {name: variable.numpy() for name, variable in named.items()}


def assert_begun_from(started, weights, softmax):
    """That a trainer has these weights, and the softmax of these or one of its own."""
    for name, value in values(started.model).items():
        if name.startswith("scalar_mix."):
            continue
        is_equal = np.array_equal(value, weights[name])
        if name == "softmax.bias" and not softmax:
            assert not value.any()
        else:
            assert is_equal == (softmax or not name.startswith("softmax.")), name


def start(folder, name, initial, **changes):
    request = tiny.request(folder, name)._replace(initial_weights=initial, **changes)
    return Trainer(run_directory.begin_run(request, tiny.CONFIG))


@pytest.mark.parametrize("with_softmax", [False, True])
def test_published_weights(folder, model, published, with_softmax):
    started = start(folder, "run", published(with_softmax))
    assert_begun_from(started, values(model), with_softmax)
    assert started.origin.endswith("softmax too" if with_softmax else "new softmax")


def test_another_run_and_its_softmax_if_the_words_are_the_same(folder):
    first = Trainer(tiny.open_run(folder, "first", max_steps=3))
    first.train()
    weights = values(first.model)
    assert_begun_from(start(folder, "second", str(folder / "first")), weights, True)

    words = (folder / "vocab").read_bytes().splitlines()
    (folder / "other").write_bytes(b"\n".join([*words[:3], *words[:2:-1]]))
    third = start(folder, "third", str(folder / "first"), vocabulary_file=str(folder / "other"))
    assert_begun_from(third, weights, False)


def test_a_resumed_run_does_not_start_from_them_again(folder, published):
    begun = start(folder, "run", published(False))
    begun.train()
    os.unlink(folder / "weights.hdf5")
    resumed = Trainer(tiny.open_run(folder))
    assert resumed.step == begun.step
    for name, value in values(begun.model).items():
        np.testing.assert_array_equal(value, values(resumed.model)[name])


def test_a_run_killed_before_its_first_checkpoint_starts_from_them(folder, model, published):
    start(folder, "run", published(False))
    assert_begun_from(Trainer(tiny.open_run(folder)), values(model), False)


def test_weights_of_another_shape(folder, published):
    pair = published(False)
    ElmoConfig.from_size("tiny").write(folder / "options.json")
    with (
        pytest.raises(InputError, match=r"weights.hdf5: does not fit its options"),
        open_initial_weights(pair),
    ):
        pass


def test_a_run_without_a_checkpoint(folder):
    tiny.open_run(folder, "empty")
    with (
        pytest.raises(InputError, match="empty: is a training directory without a checkpoint"),
        open_initial_weights(str(folder / "empty")),
    ):
        pass


def test_a_softmax_of_unknown_words_counts_by_its_size(folder, published):
    words = [b"<S>", b"</S>", b"<UNK>", *(b"%d" % k for k in range(23))]
    with open_initial_weights(published(True)) as initial:
        assert initial.has_softmax_for(Vocabulary(words))
        assert not initial.has_softmax_for(Vocabulary(words[:-1]))
    with open_initial_weights(published(False)) as initial:
        assert not initial.has_softmax_for(Vocabulary(words))


def test_no_encoder_is_built_to_read_an_export(folder, model, monkeypatch):
    """Weights come from the files by name, whatever the format."""
    saved_model.export(model.encoder, folder / "exported")
    monkeypatch.setattr(ElmoEncoder, "__init__", lambda *_, **__: pytest.fail("built an encoder"))
    with open_initial_weights(str(folder / "exported")) as initial:
        assert initial.config == tiny.CONFIG
        assert not initial.has_softmax_for(Vocabulary([b"<S>", b"</S>", b"<UNK>"]))
    monkeypatch.undo()
    started = start(folder, "run", str(folder / "exported"))
    assert_begun_from(started, values(model), False)


# What the optimizer stored.


def slots(trainer):
    named = named_slots(trainer._optimizer, trained_variables(trainer.model))
    return {name: variable.numpy() for name, variable in named.items() if "." in name}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run of three steps and its folder."""
    folder = tiny.write_files(tmp_path_factory.mktemp("first"))
    trainer = Trainer(tiny.open_run(folder, "first", max_steps=3))
    trainer.train()
    return folder, trainer


def begin(first, name, **settings):
    folder, _ = first
    request = tiny.request(folder, name, **settings)
    request = request._replace(initial_weights=str(folder / "first"))
    return Trainer(run_directory.begin_run(request, tiny.CONFIG))


def test_an_optimizer_begins_anew_or_continues(first):
    begun = slots(begin(first, "anew"))
    assert all((each == 1).all() for each in begun.values())
    continued = begin(first, "continued", initial_optimizer=True)
    assert continued.origin.endswith(", softmax too, continuing with its optimizer's variables")
    expected = slots(first[1])
    assert any((each != 1).any() for each in expected.values())
    assert begun.keys() == expected.keys()
    for name, array in slots(continued).items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


def test_an_optimizer_of_another_kind(first, published):
    with pytest.raises(InputError, match="first/ckpt-3: its optimizer: does not fit that of the r"):
        begin(first, "adam", initial_optimizer=True, optimizer="adam")
    folder, _ = first
    request = tiny.request(folder, "pair", initial_optimizer=True)
    request = request._replace(initial_weights=published(False))
    with pytest.raises(InputError, match="weights.hdf5: has stored nothing of an optimizer, which"):
        Trainer(run_directory.begin_run(request, tiny.CONFIG))
