"""Held-out perplexity while a run goes on, and the checkpoint where it was best."""

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

_BATCH_SIZE = 64  # decides speed and memory, not the figure


def check_text(heldout_files: list[str]) -> None:
    """Reads held-out text through once, so that a mistake in it comes out before any training.

    Raises:
      InputError: there is no sentence in it, or a file is not UTF-8.
    """
    if not count_corpus(heldout_files, make_tokenizer()).num_sentences:
        raise InputError("heldout_files: no sentence to evaluate", "heldout_files")


class HeldOut:
    """Evaluates a run's model on text it is not trained on, each sentence from the zero state.

    `heldout.json` in the run's directory has the perplexity of each evaluation and all figures of
    the last and the best, and `best/` is a directory like the run's own with the best checkpoint:
    what takes the one takes the other.

    A run that was killed comes by steps whose perplexity is written down already. It is not
    computed again, and what lies ahead of the run does not count (see `num_worse`), so such a run
    decides as an unbroken one.

    Args:
      run: the run.
      text_files: the held-out text. If it is another text than before, figures begin anew.
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
        """`step` and the perplexities of the best one."""
        return self._stored["best"]

    def has_lost_patience(self, step: int) -> bool:
        """Whether the run ends after so many steps since it no longer gets better."""
        patience = self._run.training.patience
        return patience is not None and self.num_worse(step) >= patience

    def ending(self, step: int) -> str:
        """Why it ends then, in words."""
        assert self.best is not None  # patience is lost after evaluations
        return (
            f"held-out perplexity was at its best at step {self.best['step']:,}, "
            f"{self.num_worse(step)} evaluations ago (patience={self._run.training.patience})"
        )

    def num_worse(self, step: int) -> int:
        """How many evaluations after the best one gave no better figure, up to a step."""
        until = sorted((each["step"], each["perplexity"]) for each in self._stored["history"])
        perplexities = [perplexity for at, perplexity in until if at <= step]
        return len(perplexities) - 1 - perplexities.index(min(perplexities)) if perplexities else 0

    def is_due(self, step: int) -> bool:
        """Whether to evaluate after so many steps: as asked for, or each epoch, and at the end."""
        if any(each["step"] == step for each in self._stored["history"]):
            return False
        interval = self._run.training.steps_per_evaluation or self._run.steps_per_epoch
        return step > 0 and (step % interval == 0 or step == self._run.num_steps)

    def evaluate(self, model: ElmoLanguageModel, progress: ReportTokens | None) -> Evaluation:
        """Evaluates the model as it is now."""
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
        """Writes a figure down; returns whether it is the best so far.

        Args:
          step: steps done.
          evaluation: of the model after them.
          save_copy: saves the run's checkpoint in a directory; called if it is the best.
          writes: False where another process writes the same.
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
        # `training.json` last, as in every directory of a run.
        for name in (run_directory.OPTIONS, run_directory.VOCABULARY, run_directory.TRAINING):
            with files.write_atomically(os.path.join(best, name)) as temporary:
                shutil.copyfile(os.path.join(self._run.directory, name), temporary)


def _checked(stored: dict[str, Any], path: str) -> dict[str, Any]:
    """What `heldout.json` holds, if it has the form in which `HeldOut.record` writes it."""
    history, last, best = (stored.get(key) for key in ("history", "last", "best"))
    figures = [*(history if isinstance(history, list) else [None]), last, best]
    if not history and last is None and best is None:
        figures = []  # nothing was evaluated so far
    for each in figures:
        is_figure = isinstance(each, dict) and type(each.get("step")) is int
        if not is_figure or not isinstance(each.get("perplexity"), int | float):
            raise InputError(f"{path}: is not what a run writes; move it away to begin it anew")
    return stored


def describe(evaluation: Evaluation) -> str:
    """The figures in words."""
    return (
        f"held-out perplexity {evaluation.perplexity:,.2f} (forward "
        f"{evaluation.forward_perplexity:,.2f}, backward {evaluation.backward_perplexity:,.2f})"
    )
