"""Whole runs: repeatable, resumable at any step, stopped by signals and by losses that are none."""

import json
import math
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.formats import checkpoint
from elmo_tf.scoring.evaluation import Evaluation
from elmo_tf.training import loop, run_directory
from elmo_tf.training.distributed import OneDevice
from elmo_tf.training.heldout import HeldOut
from elmo_tf.training.loop import NonFiniteLossError, Outcome, Trainer
from elmo_tf.training.step import StepResult, TrainStep
from tests.checkpoints import newest_arrays
from tests.training import tiny
from tests.training.events import read_events

pytestmark = pytest.mark.usefixtures("shared_steps")


@pytest.fixture
def folder(tmp_path):
    return tiny.write_files(tmp_path)


def trainer(folder, name="run", heldout=False, **settings):
    run = tiny.open_run(folder, name, **settings)
    return Trainer(run, HeldOut(run, [str(folder / "heldout.txt")]) if heldout else None)


class Watch:
    """Stands in for a trainer's step: notes each loss, and acts before the one it is told to."""

    def __init__(self, trainer, act=lambda step, result: result):
        self.losses = []
        self._step, trainer._step = trainer._step, self
        self._first, self._act = trainer.step, act

    def __call__(self, batch, state):
        result, state = self._step(batch, state)
        result = self._act(self._first + len(self.losses) + 1, result)
        self.losses.append(result)
        return result, state


def train(folder, name="run", heldout=False, **settings):
    """Runs to the end; returns the losses of the steps it did, and all the weights."""
    started = trainer(folder, name, heldout, **settings)
    watch = Watch(started)
    assert started.train().signal is None
    return watch.losses, weights(folder / name)


def weights(directory):
    return newest_arrays(directory)


def assert_equal(one, two):
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


ADAPTED = {"optimizer": "adafactor", "learning_rate_schedule": "cosine", "decay_steps": 12}


ACCUMULATED = {"accumulation_steps": 2, "mixed_precision": "float16", "num_epochs": 4}


@pytest.mark.parametrize(
    ("settings", "stops"),
    [
        pytest.param({}, (1, 2, 7), marks=pytest.mark.slow),
        pytest.param(
            {"num_negative_samples": 0, "shuffle_buffer": 0}, (1, 2, 7), marks=pytest.mark.slow
        ),
        ({**ADAPTED, **ACCUMULATED, "warmup_steps": 3}, (5,)),
    ],
)
def test_resumed_at_several_steps_equals_unbroken_bit_for_bit(folder, settings, stops):
    losses, final = train(folder, "unbroken", **settings)
    resumed = []
    for max_steps in (*stops, None):
        part, _ = train(folder, "resumed", **settings, max_steps=max_steps)
        resumed += part
    assert len(losses) > 12
    assert resumed == losses
    assert_equal(weights(folder / "resumed"), final)


def test_the_learning_rate_follows_its_schedule_and_is_recorded(folder):
    settings = {"optimizer": "sgd", "learning_rate_schedule": "linear", "num_epochs": 1}
    started = trainer(folder, **settings, warmup_steps=2, steps_per_report=1)
    used = []

    def note(step, result):
        used.append(float(started._optimizer.learning_rate))
        return result

    Watch(started, note)
    started.train()
    num_steps = tiny.NUM_TOKENS // 12
    falling = 0.01 * (1 - np.arange(num_steps - 2) / (num_steps - 2))
    np.testing.assert_allclose(used, [0.005, 0.01, *falling], rtol=1e-6)
    events = read_events(folder / "run" / "logs")
    recorded = [events[step + 1, "learning rate"] for step in range(num_steps)]
    np.testing.assert_allclose(recorded, used, rtol=1e-6)
    _, training, _ = run_directory.read_description(folder / "run")
    assert training.decay_steps == num_steps


def test_evaluations_and_saves_change_nothing(folder):
    losses, final = train(folder, "plain")
    settings = {"steps_per_evaluation": 2, "steps_per_checkpoint": 3, "steps_per_report": 1}
    others, watched = train(folder, "watched", heldout=True, **settings)
    assert others == losses
    assert_equal(watched, final)


def test_checkpoints_by_the_clock(folder, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    started = trainer(folder, minutes_per_checkpoint=1.5, num_checkpoints_kept=9, num_epochs=1)

    def tick(step, result):
        now[0] += 40.0
        return result

    Watch(started, tick)
    started.train()
    names = [os.path.basename(path) for path in checkpoint.checkpoints_in(folder / "run")]
    assert names == [f"ckpt-{step}" for step in (tiny.NUM_TOKENS // 12, 6, 3)]


def test_windows_that_are_accumulated_are_one_larger_window(folder):
    settings = {"dropout": 0.0, "num_epochs": 3, "num_negative_samples": 0}
    whole, weights_of_whole = train(folder, "whole", batch_size=6, **settings)
    parts, weights_of_parts = train(folder, "parts", batch_size=2, accumulation_steps=3, **settings)
    assert len(whole) == 3 * (tiny.NUM_TOKENS // 24)
    np.testing.assert_allclose(parts, whole, rtol=1e-5)
    for name, array in weights_of_whole.items():
        np.testing.assert_allclose(weights_of_parts[name], array, atol=1e-5, err_msg=name)


def test_a_shared_step_is_the_trainers_own(folder, monkeypatch):
    """What other tests of this module rely on."""
    losses, final = train(folder, "shared", max_steps=3)
    monkeypatch.setattr(OneDevice, "make_step", TrainStep)
    tf.config.run_functions_eagerly(False)
    own, expected = train(folder, "own", max_steps=3)
    assert losses == own
    assert_equal(final, expected)


def test_same_seed_same_losses(folder):
    runs = [train(folder, f"run{k}", seed=seed, max_steps=4)[0] for k, seed in enumerate((5, 5, 6))]
    assert runs[0] == runs[1]
    assert not set(runs[0]) & set(runs[2])


@pytest.mark.parametrize("negatives", [0, 5])
def test_loss_falls(folder, negatives):
    losses, _ = train(
        folder,
        num_negative_samples=negatives,
        num_epochs=30,
        dropout=0.0,
        learning_rate=0.5,
        steps_per_report=10,
    )
    first, last = (np.mean([each.loss for each in part]) for part in (losses[:10], losses[-10:]))
    assert last < 0.9 * first


def test_text_smaller_than_a_window(folder):
    losses, _ = train(folder, batch_size=50, num_epochs=3)
    assert len(losses) == 3


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_saves_and_stops(folder, name):
    def send(step, result):
        if step == 5:
            os.kill(os.getpid(), getattr(signal, name))
        return result

    stopped = trainer(folder)
    Watch(stopped, send)
    assert stopped.train() == Outcome(5, name)
    resumed, final = train(folder)
    losses, expected = train(folder, "unbroken")
    assert resumed == losses[5:]
    assert_equal(final, expected)


def test_a_signal_ends_an_evaluation_which_is_made_up_for(folder, monkeypatch):
    evaluate = HeldOut.evaluate

    def send(self, model, progress):
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, model, progress)

    monkeypatch.setattr(HeldOut, "evaluate", send)
    stopped = trainer(folder, heldout=True, steps_per_evaluation=4)
    assert stopped.train() == Outcome(4, "SIGTERM")
    assert not (folder / "run" / "heldout.json").exists()
    monkeypatch.setattr(HeldOut, "evaluate", evaluate)
    train(folder, heldout=True, max_steps=4)
    assert json.loads((folder / "run" / "heldout.json").read_text())["last"]["step"] == 4


@pytest.mark.parametrize(
    "bad",
    [StepResult(np.nan, 1.0, 1.0), StepResult(1.0, np.inf, 1.0), StepResult(1.0, 1.0, np.nan)],
)
def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(folder, bad):
    broken = trainer(folder, steps_per_checkpoint=3)
    Watch(broken, lambda step, result: bad if step == 6 else result)
    with pytest.raises(NonFiniteLossError, match=r"^step 6: .*keeps the checkpoint of step 3; "):
        broken.train()
    assert checkpoint.checkpoints_in(folder / "run") == [str(folder / "run" / "ckpt-3")]
    _, expected = train(folder, "good", max_steps=3)
    assert_equal(weights(folder / "run"), expected)


def test_a_loss_that_is_really_not_finite(folder):
    broken = trainer(folder)
    broken.model.softmax.bias.assign(np.full(26, np.nan))
    with pytest.raises(NonFiniteLossError, match=r"^step 1: .*has no checkpoint yet"):
        broken.train()
    assert checkpoint.checkpoints_in(folder / "run") == []


def test_text_that_changes_stops_the_run_with_what_was_done_saved(folder):
    started = trainer(folder, num_epochs=30)

    def grow(step, result):
        if step == 3:
            with (folder / "b.txt").open("ab") as file:
                file.write(b"more\n")
        return result

    watch = Watch(started, grow)
    with pytest.raises(InputError, match="b.txt changed its size"):
        started.train()
    assert checkpoint.checkpoints_in(folder / "run")[0].endswith(f"ckpt-{len(watch.losses)}")


def test_a_complete_run_does_nothing(folder):
    losses, final = train(folder)
    again, same = train(folder)
    assert (len(again), len(losses)) == (0, 2 * (tiny.NUM_TOKENS // 12))
    assert_equal(final, same)


def test_heldout_figures_and_the_best_checkpoint(folder, capsys):
    from elmo_tf.model.loading import load_language_model

    train(folder, heldout=True, steps_per_evaluation=5, num_epochs=4)
    directory = folder / "run"
    stored = json.loads((directory / "heldout.json").read_text())
    said = [line for line in capsys.readouterr().out.splitlines() if "held-out" in line]
    assert [line.split(":")[0] for line in said][:3] == ["step 5", "step 10", "step 15"]
    assert len(said) == -(-(tiny.NUM_TOKENS // 12 * 4) // 5)
    perplexities = [float(line.split("perplexity ")[1].split(" ")[0]) for line in said]
    best = int(np.argmin(perplexities))
    assert said[best].endswith(", the best")
    assert stored["best"]["perplexity"] == pytest.approx(perplexities[best], abs=0.01)
    assert stored["last"]["perplexity"] == pytest.approx(perplexities[-1], abs=0.01)

    trained = load_language_model(directory / "best")
    heldout = HeldOut(tiny.open_run(folder), [str(folder / "heldout.txt")])
    evaluation = heldout.evaluate(trained.model, None)
    assert evaluation.perplexity == pytest.approx(stored["best"]["perplexity"], rel=1e-6)


def evaluated_as(monkeypatch, *perplexities):
    """Replaces held-out evaluation; returns the list of perplexities that are left."""
    left = list(perplexities)

    def evaluate(self, model, progress):
        return Evaluation(*[math.log(left.pop(0))] * 2, 5)

    monkeypatch.setattr(HeldOut, "evaluate", evaluate)
    return left


PATIENT = {"steps_per_evaluation": 2, "patience": 2, "num_epochs": 5, "heldout": True}


def test_patience_ends_a_run_that_is_complete_then(folder, monkeypatch, capsys):
    left = evaluated_as(monkeypatch, 9.0, 8.0, 8.5, 7.0, 7.0, 7.5, 6.0, 6.5, 6.7)
    losses, _ = train(folder, **PATIENT)
    assert (len(losses), len(left)) == (12, 3)
    ending = (
        "the run is complete: held-out perplexity was at its best at step 8, 2 evaluations ago "
        "(patience=2)"
    )
    assert capsys.readouterr().out.splitlines()[-1] == f"step 12: {ending}"
    assert checkpoint.checkpoints_in(folder / "run")[0].endswith("ckpt-12")
    again = trainer(folder, **PATIENT)
    assert (again.is_complete, again.ending) == (True, ending)
    assert again.train() == Outcome(12, None)
    # With more patience it goes on.
    losses, _ = train(folder, **{**PATIENT, "patience": 3, "max_steps": 18})
    assert (len(losses), left) == (6, [])


def test_patience_is_the_same_for_a_run_that_was_killed(folder, monkeypatch):
    """It comes by evaluations again that were written down before it was killed."""
    left = evaluated_as(monkeypatch, 9.0, 8.0, 8.5, 8.6)
    killed = trainer(folder, **PATIENT, steps_per_checkpoint=3)

    def kill(step, result):
        if step == 8:
            raise KeyboardInterrupt
        return result

    Watch(killed, kill)
    with pytest.raises(KeyboardInterrupt):
        killed.train()
    assert checkpoint.checkpoints_in(folder / "run")[0].endswith("ckpt-6")
    # As if it had been killed after the decision, and before the last checkpoints were safe.
    for name in ("ckpt-6.index", "ckpt-6.data-00000-of-00001"):
        (folder / "run" / name).unlink()
    resumed = trainer(folder, **PATIENT)
    assert resumed.step == 3
    watch = Watch(resumed)
    assert resumed.train() == Outcome(8, None)
    assert (len(watch.losses), left) == (5, [])


def test_other_heldout_text_begins_anew(folder):
    train(folder, heldout=True, max_steps=4)
    run = tiny.open_run(folder)
    (folder / "other.txt").write_bytes(b"b1 c2\n")
    assert HeldOut(run, [str(folder / "heldout.txt")]).best["step"] == 4
    assert HeldOut(run, [str(folder / "other.txt")]).best is None
    heldout = folder / "heldout.txt"
    heldout.write_bytes(heldout.read_bytes()[::-1])  # of the same name and size
    assert HeldOut(run, [str(heldout)]).best is None
