"""Held-out perplexity during a run, and a copy of the best checkpoint."""

import os
import shutil
from collections.abc import Callable
from typing import Any

from elmo_tf.errors import InputError
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.scoring.evaluation import Evaluation, ReportTokens, WindowScorer, evaluate_sentences
from elmo_tf.storage import files
from elmo_tf.text.corpus import count_corpus
from elmo_tf.text.sentences import SentenceReader
from elmo_tf.text.tokens import make_tokenizer
from elmo_tf.training import run_directory
from elmo_tf.training.run_directory import Run
from elmo_tf.training.text_files import TextIdentity

HELDOUT, BEST = "heldout.json", "best"

_BATCH_SIZE = 64  # affects speed and memory, not the perplexity


def check_text(heldout_files: list[str]) -> None:
    """Reads the held-out text once, so that errors in it are reported before training.

    Raises:
      InputError: the text has no sentences, or a file is not UTF-8.
    """
    if not count_corpus(heldout_files, make_tokenizer()).num_sentences:
        raise InputError("heldout_files: no sentence to evaluate", "heldout_files")


class HeldOut:
    """Evaluates a run's model on held-out text, with the zero state before each sentence.

    `heldout.json` in the run's directory stores the perplexity of each evaluation and all results
    of the last and the best one. `best/` is a directory with the best checkpoint; it can be used
    like the run's own directory.

    A run that was killed and resumed repeats steps whose perplexity is already stored. Such a
    perplexity is not computed again, and later ones are ignored (see `num_worse`), so the run makes
    the same decisions as an uninterrupted one.

    Args:
      run: the run.
      text_files: the held-out text. If it differs from before, earlier results are discarded.
    """

    def __init__(self, run: Run, text_files: list[str]) -> None:
        self._run = run
        self._text_files = text_files
        self._path = os.path.join(run.directory, HELDOUT)
        self._scorer: WindowScorer | None = None
        self._stored: dict[str, Any] = {}
        if os.path.lexists(self._path):
            self._stored = _checked(files.read_json(self._path), self._path)
        identity = TextIdentity.of(text_files)
        text = {"files": identity.files, "contents": identity.contents}
        if self._stored.get("text") != text or "history" not in self._stored:
            self._stored = {"text": text, "history": [], "last": None, "best": None}

    @property
    def last(self) -> dict[str, Any] | None:
        """`step` and the perplexities of the last evaluation."""
        return self._stored["last"]

    @property
    def best(self) -> dict[str, Any] | None:
        """`step` and the perplexities of the best evaluation."""
        return self._stored["best"]

    def has_lost_patience(self, step: int) -> bool:
        """Whether the run ends at `step` because its perplexity has stopped improving."""
        patience = self._run.training.patience
        return patience is not None and self.num_worse(step) >= patience

    def ending(self, step: int) -> str:
        """The reason why the run ends at `step`, as text."""
        assert self.best is not None  # there have been `patience` evaluations
        return (
            f"held-out perplexity was at its best at step {self.best['step']:,}, "
            f"{self.num_worse(step)} evaluations ago (patience={self._run.training.patience})"
        )

    def num_worse(self, step: int) -> int:
        """The number of evaluations after the best one, up to `step`."""
        until = sorted((each["step"], each["perplexity"]) for each in self._stored["history"])
        perplexities = [perplexity for at, perplexity in until if at <= step]
        return len(perplexities) - 1 - perplexities.index(min(perplexities)) if perplexities else 0

    def is_due(self, step: int) -> bool:
        """Whether an evaluation is due at `step`: periodically, and at the end of the run."""
        if any(each["step"] == step for each in self._stored["history"]):
            return False
        interval = self._run.training.steps_per_evaluation or self._run.steps_per_epoch
        return step > 0 and (step % interval == 0 or step == self._run.num_steps)

    def evaluate(self, model: ElmoLanguageModel, progress: ReportTokens | None) -> Evaluation:
        """Evaluates the model with its current weights."""
        self._scorer = self._scorer or WindowScorer(model)
        training = self._run.training
        tokenizer = make_tokenizer(training.tokenizer, training.normalize)
        sentences = SentenceReader(self._text_files, tokenizer, passes=1)
        return evaluate_sentences(
            self._scorer, sentences, self._run.vocabulary, _BATCH_SIZE, progress
        )

    def record(
        self,
        step: int,
        evaluation: Evaluation,
        save_copy: Callable[[str], None],
        writes: bool = True,
    ) -> bool:
        """Stores the result of an evaluation; returns whether it is the best so far.

        Args:
          step: number of completed steps.
          evaluation: the evaluation of the model after them.
          save_copy: saves the run's checkpoint in a directory; called if the result is the best.
          writes: False in a process other than the one that writes.
        """
        figures = {
            "step": step,
            "perplexity": evaluation.perplexity,
            "forward_perplexity": evaluation.forward_perplexity,
            "backward_perplexity": evaluation.backward_perplexity,
        }
        is_best = self.best is None or evaluation.perplexity < self.best["perplexity"]
        if is_best:
            if writes:
                self._keep(save_copy)
            self._stored["best"] = figures
        self._stored["last"] = figures
        self._stored["history"].append({key: figures[key] for key in ("step", "perplexity")})
        if writes:
            files.write_json(self._path, self._stored)
        return is_best

    def _keep(self, save_copy: Callable[[str], None]) -> None:
        best = os.path.join(self._run.directory, BEST)
        os.makedirs(best, exist_ok=True)
        save_copy(best)
        # Write `training.json` last; it marks a run's directory as complete.
        for name in (run_directory.OPTIONS, run_directory.VOCABULARY, run_directory.TRAINING):
            with files.write_atomically(os.path.join(best, name)) as temporary:
                shutil.copyfile(os.path.join(self._run.directory, name), temporary)


def _checked(stored: dict[str, Any], path: str) -> dict[str, Any]:
    """The evaluations in `heldout.json`, after a check of their format."""
    history, last, best = (stored.get(key) for key in ("history", "last", "best"))
    figures = [*(history if isinstance(history, list) else [None]), last, best]
    if not history and last is None and best is None:
        figures = []  # no evaluation so far
    for each in figures:
        is_figure = isinstance(each, dict) and type(each.get("step")) is int
        if not is_figure or not isinstance(each.get("perplexity"), int | float):
            raise InputError(f"{path}: is not what a run writes; move it away to begin it anew")
    return stored


def describe(evaluation: Evaluation) -> str:
    """The perplexities as text."""
    return (
        f"held-out perplexity {evaluation.perplexity:,.2f} (forward "
        f"{evaluation.forward_perplexity:,.2f}, backward {evaluation.backward_perplexity:,.2f})"
    )
