"""Learning rate schedules: a linear warm-up, then a constant or decreasing rate."""

import dataclasses
import math

from elmo_tf.config.training import DECAYING_SCHEDULES, TrainingConfig
from elmo_tf.errors import InputError


def with_decay_steps(config: TrainingConfig, num_steps: int) -> TrainingConfig:
    """Sets `decay_steps` where it is None, so that extending a run later changes no earlier rate.

    Args:
      config: the run's settings.
      num_steps: number of steps of the run when it starts.

    Raises:
      InputError: the run ends before the warm-up does.
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
    """The learning rate of a step.

    With n completed steps, w = `warmup_steps` and d = `decay_steps`, it is `learning_rate` times

        n < w          (n + 1) / w
        constant       1
        linear         1 - p                      p = (n - w) / (d - w), at most 1
        cosine         (1 + cos(pi * p)) / 2
        inverse_sqrt   sqrt(max(w, 1) / (n + 1))

    "linear" and "cosine" reach 0 at the first step after d, so every step of a run of d steps has a
    positive rate. The rate depends only on the arguments, so a resumed run has the same rates as an
    uninterrupted one.

    Args:
      config: the run's settings; `decay_steps` must be set if the schedule needs it.
      step: number of completed steps, 0 for the first step.

    References:
      inverse_sqrt: Vaswani et al. 2017, section 5.3, https://arxiv.org/abs/1706.03762; cosine:
      Loshchilov and Hutter 2017, equation 5 without restarts, https://arxiv.org/abs/1608.03983.
    """
    assert config.learning_rate is not None  # the default is the optimizer's
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
