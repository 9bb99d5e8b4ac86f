"""Progress of a run: a bar on a terminal, lines elsewhere, and scalars for TensorBoard."""

import math
import sys
import time
from collections import deque
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from elmo_tf.training.step import StepResult

_SECONDS_PER_LINE = 60
_STEPS_SMOOTHED = 100


class ProgressDisplay:
    """Shows the progress, speed and loss of a run.

    On a terminal (stderr) it shows a bar. Otherwise it prints a line on stdout for the first step,
    then one per minute, and one for the last step. Losses are means over up to 100 steps.

    Args:
      num_steps: number of steps of the whole run.
      first_step: number of steps completed before.
      tokens_per_step: number of tokens per step, in one direction.
      is_sampled: whether losses are those of a sampled softmax; the label says so.
      is_shown: False in a process other than the one that reports.
    """

    def __init__(
        self,
        num_steps: int,
        first_step: int,
        tokens_per_step: int,
        is_sampled: bool,
        is_shown: bool = True,
    ) -> None:
        self._is_shown = is_shown
        self._num_steps = num_steps
        self._tokens_per_step = tokens_per_step
        self._loss_name = "sampled loss" if is_sampled else "loss"
        self._losses: deque[float] = deque(maxlen=_STEPS_SMOOTHED)
        self._times: deque[float] = deque([time.monotonic()], maxlen=_STEPS_SMOOTHED + 1)
        self._last_line = -math.inf
        self._evaluated_tokens = 0
        self._evaluation_line: float | None = None  # time of the last line, or of the first window
        self._bar: tqdm | None = None
        if is_shown and sys.stderr is not None and sys.stderr.isatty():
            self._bar = tqdm(total=num_steps, initial=first_step, unit="step", dynamic_ncols=True)

    def step(self, step: int, result: StepResult) -> None:
        """Records a completed step."""
        now = time.monotonic()
        if not self._losses:
            self._times.clear()  # the first step includes tracing, so it says nothing about speed
        self._losses.append(result.loss)
        self._times.append(now)
        if self._bar is not None:
            self._bar.set_postfix_str(self._figures(), refresh=False)
            self._bar.update()
        elif now - self._last_line >= _SECONDS_PER_LINE or step == self._num_steps:
            self._last_line = now
            line = f"step {step:,} of {self._num_steps:,}: {self._figures()}"
            if self.tokens_per_second:
                left = (self._num_steps - step) * self._tokens_per_step / self.tokens_per_second
                line += f", {show_duration(left)} left"
            self.say(line)

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of one direction, over the last steps; 0 while unknown."""
        seconds = self._times[-1] - self._times[0]
        return (len(self._times) - 1) * self._tokens_per_step / seconds if seconds else 0.0

    def _figures(self) -> str:
        figures = f"{self._loss_name} {sum(self._losses) / len(self._losses):.3f}"
        if self.tokens_per_second:
            figures += f", {self.tokens_per_second:,.0f} tokens/s"
        return figures

    def say(self, message: str) -> None:
        """Prints a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(message)
        elif self._is_shown:
            print(message, flush=True)

    def evaluate(self, num_tokens: int) -> None:
        """Records the evaluation of `num_tokens` more tokens of held-out text."""
        now = time.monotonic()
        self._evaluated_tokens += num_tokens
        self._evaluation_line = self._evaluation_line or now
        figures = f"{self._evaluated_tokens:,} tokens of held-out text"
        if self._bar is not None:
            self._bar.set_postfix_str(figures)
        elif now - self._evaluation_line >= _SECONDS_PER_LINE:
            self._evaluation_line = now
            self.say(figures)

    def resume_clock(self) -> None:
        """Call after a pause, such as an evaluation, to exclude it from the speed."""
        self._evaluated_tokens, self._evaluation_line = 0, None
        if self._bar is not None and self._losses:
            self._bar.set_postfix_str(self._figures())
        self._times.clear()
        self._times.append(time.monotonic())

    def close(self) -> None:
        """Closes the bar, which stays visible."""
        if self._bar is not None:
            self._bar.close()


def show_duration(seconds: float) -> str:
    """A duration as text: 40 s, 12 min, 3 h 20 min, 2 d 4 h."""
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} min"
    if hours < 48:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"


class Scalars:
    """Writes scalars for TensorBoard: means over the steps since the previous record.

    Args:
      directory: directory of the event files; None writes nothing.
      is_sampled: see `ProgressDisplay`.
      steps_per_report: number of steps between records.
    """

    def __init__(self, directory: str | None, is_sampled: bool, steps_per_report: int) -> None:
        self._writer = tf.summary.create_noop_writer()
        if directory is not None:
            self._writer = tf.summary.create_file_writer(directory)
        self._kind = "sampled " if is_sampled else ""
        self._steps_per_report = steps_per_report
        self._results: list[StepResult] = []

    def step(self, step: int, result: StepResult, others: Mapping[str, float]) -> None:
        """Records a step; the values in `others` are not averaged."""
        self._results.append(result)
        if step % self._steps_per_report:
            return
        forward, backward, norm = np.mean(self._results, axis=0).tolist()
        self._results.clear()
        self.write(
            step,
            {
                f"{self._kind}loss/forward": forward,
                f"{self._kind}loss/backward": backward,
                f"{self._kind}perplexity": float(np.exp(0.5 * (forward + backward))),
                "gradient norm": norm,
                **others,
            },
        )

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes scalars by name."""
        # `tf.summary.scalar` needs the package tensorboard, which may not be installed.
        kind = tf.compat.v1.SummaryMetadata(
            plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
        )
        with self._writer.as_default():
            for name, value in values.items():
                tf.summary.write(name, tf.constant(value, tf.float32), step=step, metadata=kind)
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()
