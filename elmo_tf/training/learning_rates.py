"""The learning rate of each step: up from 0 at first, then constant or down."""

import dataclasses
import math

from elmo_tf.config.training import DECAYING_SCHEDULES, TrainingConfig
from elmo_tf.errors import InputError


def with_decay_steps(config: TrainingConfig, num_steps: int) -> TrainingConfig:
    """Fixes where a schedule ends, so that a run made longer later has the same rates so far.

    Args:
      config: of a run.
      num_steps: of that run when it is begun.

    Raises:
      InputError: the run is over before the schedule can begin.
    """
    if config.decay_steps is not None or config.learning_rate_schedule not in DECAYING_SCHEDULES:
        return config
    if num_steps <= config.warmup_steps:
        raise InputError(
            f"warmup_steps must be below the steps of the run ({num_steps:,}) for the schedule "
            f"{config.learning_rate_schedule}, got {config.warmup_steps:,}",
            "warmup_steps",
        )
    return dataclasses.replace(config, decay_steps=num_steps)


def learning_rate_of_step(config: TrainingConfig, step: int) -> float:
    """The learning rate with which a step updates the weights.

    With n for the steps done before, w for `warmup_steps` and d for `decay_steps`, it is
    `learning_rate` times

        n < w          (n + 1) / w
        constant       1
        linear         1 - p                      p = (n - w) / (d - w), at most 1
        cosine         (1 + cos(pi * p)) / 2
        inverse_sqrt   sqrt(max(w, 1) / (n + 1))

    "linear" and "cosine" reach 0 with the first step after d, so every step of a run of d steps
    counts. It follows from the arguments alone, so that a resumed run has that of an unbroken one.

    Args:
      config: of the run; `decay_steps` must be known where the schedule needs it.
      step: steps done before, 0 for the first.

    References:
      inverse_sqrt: Vaswani et al. 2017, section 5.3, https://arxiv.org/abs/1706.03762; cosine:
      Loshchilov and Hutter 2017, equation 5 without restarts, https://arxiv.org/abs/1608.03983.
    """
    assert config.learning_rate is not None  # a configuration without one takes the optimizer's
    return config.learning_rate * _share(config, step)


def _share(config: TrainingConfig, step: int) -> float:
    warmup_steps = config.warmup_steps
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if config.learning_rate_schedule == "constant":
        return 1.0
    if config.learning_rate_schedule == "inverse_sqrt":
        return math.sqrt(max(warmup_steps, 1) / (step + 1))
    if config.decay_steps is None:
        raise ValueError(
            f"learning_rate_of_step: {config.learning_rate_schedule} needs decay_steps, got None; "
            "see with_decay_steps"
        )
    passed = min(1.0, (step - warmup_steps) / (config.decay_steps - warmup_steps))
    if config.learning_rate_schedule == "linear":
        return 1.0 - passed
    return 0.5 * (1.0 + math.cos(math.pi * passed))
