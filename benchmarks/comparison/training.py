"""Measures training steps; the systems alternate in each repetition."""

import sys
from pathlib import Path
from typing import NamedTuple

from comparison import agreement, data
from comparison.floors import Floors
from comparison.rows import BILM_TF, FLOOR, OURS, Row
from comparison.workers import Worker
from elmo_tf.config.model import ElmoConfig

_MODULES = {OURS: "elmo_tf_trainer", BILM_TF: "bilm_tf_trainer"}
_GRADIENT_FACTOR = 3  # products of a step: forward, gradients of inputs, gradients of weights


class Plan(NamedTuple):
    """The extent of the measurement; other settings are those of bilm-tf's published run."""

    repetitions: int
    steps_per_repetition: int
    num_words: int
    batch_size: int = 64
    unroll_steps: int = 20
    num_negatives: int = 8192


def check(python: Path, directory: Path, fixture: Path) -> None:
    """Compares the trainers with each other and, if available, with a recorded bilm-tf run.

    Raises:
      SystemExit: the losses differ.
    """
    exact = {"num_negatives": 0, "dropout": 0.0, "clip_norm": 10.0}
    settings = _prepare(ElmoConfig.from_size("tiny"), 4, 5, 500, directory / "tiny", exact)
    trainers = _start(settings, python, directory)
    difference = agreement.check_trainers(list(trainers.values()), num_steps=4)
    _close(trainers)
    print(f"losses of training agree to {difference:.1g}", file=sys.stderr)
    if not fixture.is_dir():
        print(f"no recorded run of bilm-tf at {fixture}: not compared with it", file=sys.stderr)
        return
    settings = agreement.write_reference_run(fixture, directory / "reference")
    losses = settings.pop("expected_losses")
    trainers = _start(settings, python, directory)
    for name, trainer in trainers.items():
        difference = agreement.check_losses(trainer, losses)
        print(f"{name}: as recorded to {difference:.1g}, {len(losses)} steps", file=sys.stderr)
    _close(trainers)


def measure(config: ElmoConfig, plan: Plan, python: Path, directory: Path) -> list[Row]:
    """Rows of one model size; creates `directory`."""
    published = {"num_negatives": plan.num_negatives, "dropout": 0.1, "clip_norm": 10.0}
    settings = _prepare(
        config, plan.batch_size, plan.unroll_steps, plan.num_words, directory, published
    )
    floors = Floors(config, python, directory)
    trainers = _start(settings, python, directory)
    rates: dict[str, list[float]] = {name: [] for name in (*trainers, FLOOR)}
    memory: dict[str, list[float]] = {name: [] for name in trainers}
    for trainer in trainers.values():
        trainer.call("train", num_steps=2)  # the first steps trace and allocate
    for repetition in range(plan.repetitions):
        print(f"training, repetition {repetition + 1}", file=sys.stderr, flush=True)
        for name, trainer in trainers.items():
            answer = trainer.call("train", num_steps=plan.steps_per_repetition)
            rates[name].append(answer["tokens"] / answer["seconds"])
            memory[name].append(answer["peak"] / 1e6)
        rates[FLOOR].append(floors.rate() / (_GRADIENT_FACTOR * floors.operations_per_token))
    _close(trainers)
    floors.close()
    work = f"train, {plan.batch_size} x {plan.unroll_steps}"
    return [
        Row(f"{work}; floor: LSTM's products at best rate", "tokens/s", True, rates),
        Row(f"{work}, peak memory", "MB", False, memory),
    ]


def _prepare(
    config: ElmoConfig,
    batch_size: int,
    unroll_steps: int,
    num_words: int,
    directory: Path,
    settings: dict,
) -> dict:
    directory.mkdir(exist_ok=True)
    windows = directory / "windows.npz"
    size = data.write_windows(windows, batch_size, unroll_steps, 8, num_words)
    data.write_model(directory / "model", config, size)
    settings = {"batch_size": batch_size, "unroll_steps": unroll_steps, **settings}
    return {"model": str(directory / "model"), "windows": str(windows), "settings": settings}


def _start(settings: dict, python: Path, directory: Path) -> dict[str, Worker]:
    pythons = {OURS: Path(sys.executable), BILM_TF: python}
    return {
        name: Worker(name, pythons[name], module, settings, directory / f"{module}.log")
        for name, module in _MODULES.items()
    }


def _close(trainers: dict[str, Worker]) -> None:
    for trainer in trainers.values():
        trainer.close()
