"""The training loop: runs from the newest checkpoint to the end of the run or to a signal."""

import contextlib
import math
import os
import time
from typing import NamedTuple

from elmo_tf.errors import InputError
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.scoring.evaluation import Evaluation
from elmo_tf.text.corpus import WindowStream
from elmo_tf.training.checkpoints import Position, RunCheckpoints, trained_variables
from elmo_tf.training.distributed import Distribution, OneDevice
from elmo_tf.training.heldout import HeldOut, describe
from elmo_tf.training.initial_weights import open_initial_weights
from elmo_tf.training.input_pipeline import TrainingData, effective_negatives
from elmo_tf.training.interrupts import StopSignals
from elmo_tf.training.learning_rates import learning_rate_of_step
from elmo_tf.training.loss_scale import LossScale
from elmo_tf.training.optimizers import make_optimizer, named_slots
from elmo_tf.training.progress import ProgressDisplay, Scalars
from elmo_tf.training.run_directory import Run
from elmo_tf.training.step import StepResult

LOGS = "logs"


class NonFiniteLossError(InputError):
    """A loss or gradient is infinite or NaN; nothing was saved after it."""


class _Interrupted(Exception):  # noqa: N818, not an error
    """Ends an evaluation early."""


class Outcome(NamedTuple):
    """The result of `train`.

    Attributes:
      step: number of completed and saved steps.
      signal: the name of the signal that stopped the run, or None if the run is complete.
    """

    step: int
    signal: str | None


class Trainer:
    """Trains a run's model, from its newest checkpoint if it has one.

    On a CPU, losses and weights are functions of the run's settings and text: they are bitwise
    equal in every process and however often the run is interrupted.

    Args:
      run: the run; see `run_directory`.
      heldout: held-out text to evaluate on, or None.
      distribution: divides the steps among devices; see `distributed`.
    """

    def __init__(
        self,
        run: Run,
        heldout: HeldOut | None = None,
        distribution: Distribution = OneDevice(),  # noqa: B008, it is immutable
    ) -> None:
        training, size = run.training, len(run.vocabulary)
        self._run = run
        self._heldout = heldout
        self._num_negatives = effective_negatives(training, size)
        self._distribution = distribution
        with distribution.scope():
            self.model = ElmoLanguageModel(
                run.config,
                size,
                training.dropout,
                training.seed,
                training.dtype_policy,
                vocabulary=run.vocabulary,
                state_reset_rate=training.state_reset_rate,
                name="language_model",
            )
            self._optimizer = make_optimizer(training)
            is_scaled = training.mixed_precision == "float16"
            self._loss_scale = LossScale(self._optimizer) if is_scaled else None
            self._step = distribution.make_step(
                self.model,
                self._optimizer,
                training.num_streams,
                training.unroll_steps,
                self._num_negatives,
                training.clip_norm,
                self._loss_scale,
                training.accumulation_steps,
            )
        self._checkpoints = RunCheckpoints(
            run.directory,
            self.model,
            self._optimizer,
            training.num_streams,
            training.num_checkpoints_kept,
        )
        self._stream = WindowStream(
            run.reader(), run.vocabulary, training.num_streams, training.unroll_steps
        )
        self.origin = "random weights"  # where the weights of step 0 come from
        position = self._checkpoints.restore() or self._begin()
        evaluated = heldout and heldout.last
        distribution.require_same(run.training, run.text, heldout is None, evaluated, position.step)
        self._stream.restore(position.stream)
        self._position = position._replace(state=distribution.split_state(position.state))
        self._first_step = position.step  # of this process, whose call builds the graph
        self._learning_rate = math.nan  # of the last step; none yet
        self._save_time = time.monotonic()

    def _begin(self) -> Position:
        run = self._run
        if run.initial_weights:
            with open_initial_weights(run.initial_weights) as initial:
                has_softmax = initial.assign(self.model, run.vocabulary)
                continues = initial.assign_optimizer(
                    named_slots(self._optimizer, trained_variables(self.model)),
                    run.training.initial_optimizer,
                    has_softmax,
                )
            softmax = "softmax too" if has_softmax else "new softmax"
            optimizer = ", continuing with its optimizer's variables" if continues else ""
            self.origin = f"{run.initial_weights}, {softmax}{optimizer}"
        zeros = self.model.zero_state(run.training.num_streams)
        return Position(0, zeros, self._stream.state())

    @property
    def is_sampled(self) -> bool:
        """Whether training losses are those of a sampled softmax."""
        return bool(self._num_negatives)

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters, including the softmax."""
        return sum(math.prod(each.shape) for each in self.model.language_model_variables)

    @property
    def step(self) -> int:
        """Number of completed steps."""
        return self._position.step

    @property
    def is_complete(self) -> bool:
        """Whether no step is left to do."""
        return self.step >= self._run.num_steps or self._has_lost_patience

    @property
    def _has_lost_patience(self) -> bool:
        return self._heldout is not None and self._heldout.has_lost_patience(self.step)

    @property
    def ending(self) -> str:
        """The reason why the run is complete, as text."""
        if self._heldout is None or self.step >= self._run.num_steps:
            return "the run is complete"
        return f"the run is complete: {self._heldout.ending(self.step)}"

    def train(self) -> Outcome:
        """Trains to the end of the run or until a signal asks to stop; saves in both cases.

        Raises:
          NonFiniteLossError: a loss or gradient is not finite; the newest checkpoint is from before
            that step.
          InputError: the text cannot be read, or a checkpoint cannot be written.
        """
        run, first_step = self._run, self.step
        reports = self._distribution.is_chief
        progress = ProgressDisplay(
            run.num_steps, first_step, run.tokens_per_step, self.is_sampled, is_shown=reports
        )
        logs = os.path.join(run.directory, LOGS) if reports else None
        scalars = Scalars(logs, self.is_sampled, run.training.steps_per_report)
        with StopSignals() as signals:
            try:
                self._loop(signals, progress, scalars)
            finally:
                progress.close()
                scalars.close()
            # A checkpoint that was due is saved already, unless a signal came first.
            self._save()
            signal = signals.received or "a signal to another process"
            return Outcome(self.step, None if self.is_complete else signal)

    def _save(self) -> None:
        """Saves the run unless this step is saved. Collective: all processes must call it."""
        if self._checkpoints.saved_step != self.step:
            self._checkpoints.save(self._whole_position(), self._distribution.is_chief)

    def _whole_position(self) -> Position:
        state = self._distribution.join_state(self._position.state)
        return self._position._replace(state=state)

    def _loop(self, signals: StopSignals, progress: ProgressDisplay, scalars: Scalars) -> None:
        run = self._run
        data = TrainingData(
            self._stream,
            run.training,
            len(run.vocabulary),
            self.model.encoder.token_ids,
            self.step,
        )
        self._evaluate_if_due(signals, progress, scalars)  # an interrupted run may owe one
        is_first = True
        while not self.is_complete and not self._is_stopped(signals):
            if is_first:
                progress.say("building the graph of a step, which may take a minute")
                is_first = False
            result = self._advance(data, signals)
            progress.step(self.step, result)
            speed = {
                "tokens per second": progress.tokens_per_second,
                "learning rate": self._learning_rate,
            }
            if self._loss_scale is not None:
                speed["loss scale"] = float(self._loss_scale.factor)
            scalars.step(self.step, result, speed)
            if self._is_save_due() or self.is_complete:
                self._save()
                self._save_time = time.monotonic()
            self._evaluate_if_due(signals, progress, scalars)
        if self._has_lost_patience:
            progress.say(f"step {self.step:,}: {self.ending}")

    def _is_save_due(self) -> bool:
        minutes = self._run.training.minutes_per_checkpoint
        if minutes is not None:
            is_late = time.monotonic() - self._save_time >= 60 * minutes
            if self._distribution.any_process(is_late):
                return True
        return self.step % self._run.training.steps_per_checkpoint == 0

    def _is_stopped(self, signals: StopSignals) -> bool:
        return self._distribution.any_process(signals.received is not None)

    def _advance(self, data: TrainingData, signals: StopSignals) -> StepResult:
        try:
            batch = next(data)
        except InputError:
            if self._distribution.num_processes == 1:  # in others there may be no error
                self._save()  # the completed steps are valid
            raise
        self._set_learning_rate()
        # From here on, a step may change the weights at any moment.
        signals.has_unsaved_work = self.step != self._first_step
        result, state = self._step(batch, self._position.state)
        step = self.step + 1
        if not all(map(math.isfinite, result)):
            saved = self._checkpoints.saved_step
            kept = f"keeps the checkpoint of step {saved:,}" if saved else "has no checkpoint yet"
            raise NonFiniteLossError(
                f"step {step:,}: loss or gradient is not finite (forward loss "
                f"{result.forward_loss}, backward loss {result.backward_loss}, gradient norm "
                f"{result.gradient_norm}); training stopped, {self._run.directory} {kept}; "
                "a lower learning_rate or clip_norm may help",
                "learning_rate",
                "clip_norm",
            )
        self._position = Position(step, state, data.position)
        return result

    def _set_learning_rate(self) -> None:
        learning_rate = learning_rate_of_step(self._run.training, self.step)
        if learning_rate != self._learning_rate:
            self._optimizer.learning_rate = self._learning_rate = learning_rate

    def _evaluate_if_due(
        self, signals: StopSignals, progress: ProgressDisplay, scalars: Scalars
    ) -> None:
        if self._heldout is None or not self._heldout.is_due(self.step):
            return

        position = self._whole_position()
        evaluation = self._evaluate(signals, progress)
        if not evaluation.num_tokens:
            return
        is_best = self._heldout.record(
            self.step,
            evaluation,
            lambda directory: self._checkpoints.save_copy(directory, position),
            self._distribution.is_chief,
        )
        progress.say(f"step {self.step:,}: {describe(evaluation)}{', the best' * is_best}")
        progress.resume_clock()
        scalars.write(
            self.step,
            {
                "held-out perplexity": evaluation.perplexity,
                "held-out loss/forward": evaluation.forward_loss,
                "held-out loss/backward": evaluation.backward_loss,
            },
        )

    def _evaluate(self, signals: StopSignals, progress: ProgressDisplay) -> Evaluation:
        """The chief's evaluation, in every process. It has 0 tokens if a signal interrupted it."""

        def check(num_tokens: int) -> None:
            if signals.received:
                raise _Interrupted
            progress.evaluate(num_tokens)

        evaluation = Evaluation(0.0, 0.0, 0)
        if self._heldout is not None and self._distribution.is_chief:
            with contextlib.suppress(_Interrupted):
                evaluation = self._heldout.evaluate(self.model, check)
        forward_loss, backward_loss, num_tokens = self._distribution.from_chief(evaluation)
        return Evaluation(forward_loss, backward_loss, int(num_tokens))
