"""Training steps that are traced once per process, for tests of what happens around a step.

A trace takes four seconds, the steps of a small run milliseconds. Trainers with the same settings
therefore share one traced `TrainStep`. It has a model and an optimizer of its own: before a step
every variable of the trainer is copied into them, and after it back, so that nothing else is
shared. The numbers are those of the trainer's own step bit by bit, which
`test_loop.py::test_a_shared_step_is_the_trainers_own` checks.
"""

import json
from typing import Any

import tensorflow as tf

from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.training.loss_scale import LossScale
from elmo_tf.training.step import Batch, StepResult, TrainStep

_STEPS: dict[str, tuple[TrainStep, list]] = {}  # by settings: a step and the variables it changes


class SharedStep:
    """Takes the place of `TrainStep` in a trainer whose model has character input."""

    def __init__(self, model, optimizer, *settings: Any) -> None:
        optimizer.build(model.language_model_variables)
        self._variables = _variables(model, optimizer)
        # The learning rate is a variable, and Keras gives each optimizer another name.
        configuration = optimizer.get_config() | {"learning_rate": 0.0, "name": None}
        sizes = [(variable.name, *variable.shape) for variable in self._variables]
        *numbers, loss_scale, accumulation_steps = settings
        key = json.dumps(
            [
                model.encoder.get_config() | {"seed": None, "name": None},
                model._state_reset_rate,
                type(optimizer).__name__,
                configuration,
                sizes,
                numbers,
                loss_scale is not None,
                accumulation_steps,
            ],
            sort_keys=True,
            default=str,
        )
        if key not in _STEPS:
            _STEPS[key] = _make_step(model, optimizer, settings)
        self._step, self._of_step = _STEPS[key]

    def __call__(self, batch: Batch, state: Any) -> tuple[StepResult, Any]:
        runs_eagerly = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(False)
        try:
            _copy(self._variables, self._of_step)
            results = self._step(batch, state)
            _copy(self._of_step, self._variables)
        finally:
            tf.config.run_functions_eagerly(runs_eagerly)
        return results


def _variables(model, optimizer) -> list:
    return [*model.variables, *optimizer.variables]


def _copy(sources: list, targets: list) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.value.assign(source.value, read_value=False)  # TensorFlow's: Keras's is slow


def _make_step(model, optimizer, settings) -> tuple[TrainStep, list]:
    """A step for a model and an optimizer that are built like these."""
    encoder = model.encoder
    other = ElmoLanguageModel(
        encoder.config,
        model.softmax.bias.shape[0],
        encoder.dropout,
        precision=encoder.dtype_policy.name,
        state_reset_rate=model._state_reset_rate,
        name=model.name,
    )
    other_optimizer = type(optimizer).from_config(optimizer.get_config())
    *numbers, loss_scale, accumulation_steps = settings
    scale = None if loss_scale is None else LossScale(other_optimizer)
    step = TrainStep(other, other_optimizer, *numbers, scale, accumulation_steps)
    variables, others = _variables(model, optimizer), _variables(other, other_optimizer)
    assert [each.name for each in others] == [each.name for each in variables]
    return step, others


def make_step(model, optimizer, *settings: Any) -> TrainStep | SharedStep:
    """A step of its own in tests that are marked `traced`, and for word input."""
    is_traced = not tf.config.functions_run_eagerly()
    if is_traced or model.encoder.token_input.ids_name != "char_ids":
        return TrainStep(model, optimizer, *settings)
    return SharedStep(model, optimizer, *settings)
