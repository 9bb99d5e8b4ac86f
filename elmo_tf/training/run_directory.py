"""The directory of a run: its files, and the checks before a run is started or resumed.

    options.json   the model's architecture, in the format of bilm-tf and AllenNLP
    training.json  settings, size and identity of the text, initial weights
    vocab.txt      a copy of the vocabulary that the model predicts
    ckpt-*         checkpoints; see `checkpoints`
    heldout.json, best/   held-out perplexities, and the model with the best; see `heldout`
    logs/          event files for TensorBoard
    lock           the process that trains; see `storage.lock`

`training.json` is written last. A directory with this file is a run, and its files are complete.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from elmo_tf.config import checks
from elmo_tf.config.model import ElmoConfig
from elmo_tf.config.training import TrainingConfig
from elmo_tf.errors import InputError, UsageError
from elmo_tf.formats.file_names import OPTIONS_FILE, TRAINING_FILE
from elmo_tf.storage import files
from elmo_tf.text.corpus import count_corpus
from elmo_tf.text.sentences import SentenceReader
from elmo_tf.text.tokens import make_tokenizer
from elmo_tf.text.vocabulary import VOCABULARY_FILE, Vocabulary
from elmo_tf.training.learning_rates import with_decay_steps
from elmo_tf.training.text_files import TextIdentity

# Keys for the text in `training.json`: the fields of `TextIdentity`, and counts.
_TEXT = {
    "files": checks.mapping,
    "times": checks.text,
    "contents": checks.text,
    "num_sentences": checks.integer(minimum=1),
    "num_tokens": checks.integer(minimum=1),
}
_FOLDERS = ("best", "logs")

OPTIONS, TRAINING, VOCABULARY = OPTIONS_FILE, TRAINING_FILE, VOCABULARY_FILE

# These settings affect a run's length and reports, not its results.
CHANGEABLE = frozenset(
    {
        "num_epochs",
        "max_steps",
        "steps_per_report",
        "steps_per_checkpoint",
        "minutes_per_checkpoint",
        "steps_per_evaluation",
        "patience",
        "num_checkpoints_kept",
    }
)


class Request(NamedTuple):
    """A user's request for a new or resumed run.

    Attributes:
      directory: directory of the run; created if it does not exist.
      text_files: the files of the training text.
      vocabulary_file: the vocabulary, one word per line.
      config: the model's architecture, or None for that of the existing run, of the initial
        weights, or the default.
      settings: values of `TrainingConfig` that the user set; the run keeps its own others.
      initial_weights: the user's name of a model to start from, or None.
    """

    directory: str
    text_files: list[str]
    vocabulary_file: str
    config: ElmoConfig | None
    settings: Mapping[str, Any]
    initial_weights: str | None = None


class Run(NamedTuple):
    """A new or resumed run.

    Attributes:
      directory: its directory.
      config: the model's architecture.
      training: all settings.
      vocabulary: the words that the model predicts.
      text_files: the files of the training text.
      text: a dict with the values of `CorpusCounts`, counted once, and of `TextIdentity`.
      initial_weights: see `Request`.
    """

    directory: str
    config: ElmoConfig
    training: TrainingConfig
    vocabulary: Vocabulary
    text_files: list[str]
    text: dict[str, Any]
    initial_weights: str | None

    @property
    def tokens_per_step(self) -> int:
        """Number of tokens of a step; each is predicted once in each direction."""
        return self.training.num_streams * self.training.unroll_steps

    @property
    def coverage(self) -> float | None:
        """Fraction of the text's tokens in the vocabulary; None for runs of old releases."""
        num_known = self.text.get("num_known")
        num_words = self.text["num_tokens"] - self.text["num_sentences"]
        return None if num_known is None else num_known / max(num_words, 1)

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps that read about as many tokens as the corpus has; at least one."""
        return max(1, self.text["num_tokens"] // self.tokens_per_step)

    @property
    def num_steps(self) -> int:
        """Number of steps of the whole run."""
        steps = self.training.num_epochs * self.steps_per_epoch
        return min(steps, self.training.max_steps or steps)

    def reader(self) -> SentenceReader:
        """A reader that repeats the corpus indefinitely, in this run's order."""
        tokenizer = make_tokenizer(self.training.tokenizer, self.training.normalize)
        return SentenceReader(
            self.text_files, tokenizer, self.training.shuffle_buffer, self.training.seed
        )


def is_run(directory: str) -> bool:
    """Whether the directory holds a run."""
    return os.path.isfile(os.path.join(directory, TRAINING))


def begin_run(request: Request, config: ElmoConfig) -> Run:
    """Creates a new run: counts its text and writes its description.

    Args:
      request: the user's request.
      config: the model's architecture.

    Raises:
      InputError: the text or the vocabulary is not valid, or the directory holds other files.
    """
    require_run_or_free(request.directory)
    training = TrainingConfig.from_dict(request.settings, "settings")
    vocabulary = Vocabulary.from_file(request.vocabulary_file)
    config = config.with_vocabulary_size(len(vocabulary))
    tokenizer = make_tokenizer(training.tokenizer, training.normalize)
    identity = TextIdentity.of(request.text_files)
    counts = count_corpus(request.text_files, tokenizer, vocabulary)
    if not counts.num_sentences:
        raise InputError(f"no sentence in {', '.join(request.text_files[:3])}")
    text = {**counts._asdict(), **identity._asdict()}
    run = Run(
        request.directory,
        config,
        training,
        vocabulary,
        request.text_files,
        text,
        request.initial_weights,
    )
    run = run._replace(training=with_decay_steps(training, run.num_steps))
    os.makedirs(run.directory, exist_ok=True)
    vocabulary.write(os.path.join(run.directory, VOCABULARY))
    config.write(os.path.join(run.directory, OPTIONS))
    _write_training(run)
    return run


def resume_run(request: Request) -> Run:
    """The run in the directory, if the request is for the same run.

    Settings that affect only length and reports may differ; the new values are stored.

    Raises:
      UsageError: the request is for a different run; the message names every difference.
      InputError: the run's description is damaged.
    """
    config, training, stored = read_description(request.directory)
    _require_folders(request.directory)
    vocabulary = Vocabulary.from_file(os.path.join(request.directory, VOCABULARY))
    changed = [
        name
        for name, value in request.settings.items()
        if name not in CHANGEABLE and value != getattr(training, name)
    ]
    changes = [
        f"{name} (was {getattr(training, name)}, is {request.settings[name]})" for name in changed
    ]
    if request.config is not None and not request.config.fits(config):
        changed.append("config")
        changes.append(f"config (not that of {OPTIONS})")
    if Vocabulary.from_file(request.vocabulary_file).words != vocabulary.words:
        changed.append("vocabulary_file")
        changes.append(f"vocabulary_file (not the words of {VOCABULARY})")
    text = _same_text(stored["text"], request.text_files)
    if text is None:
        changed.append("text_files")
        changes.append("text_files (other files, or other text in them)")
    if request.initial_weights not in (None, stored["initial_weights"]):
        was = stored["initial_weights"] or "none"
        changed.append("initial_weights")
        changes.append(f"initial_weights (was {was}, is {request.initial_weights})")
    if changes or text is None:
        raise UsageError(
            f"{request.directory} holds another run: {', '.join(changes)}; use the values it was "
            "begun with, or begin a new run in another directory",
            *changed,
            "directory",
        )
    training = TrainingConfig.from_dict({**training.to_dict(), **request.settings}, "settings")
    run = Run(
        request.directory,
        config,
        training,
        vocabulary,
        request.text_files,
        text,
        stored["initial_weights"],
    )
    _write_training(run)
    return run


def read_description(directory: str) -> tuple[ElmoConfig, TrainingConfig, dict[str, Any]]:
    """The architecture, the settings, and the whole content of `training.json`.

    Raises:
      InputError: the directory holds no run, or its description is damaged.
    """
    if not is_run(directory):
        raise InputError(f"{directory}: is not the directory of a training run: no {TRAINING}")
    path = os.path.join(directory, TRAINING)
    stored = files.read_json(path)
    missing = [key for key in ("settings", "text", "initial_weights") if key not in stored]
    text = stored.get("text")
    if isinstance(text, dict):
        missing += [f"text.{key}" for key in _TEXT if key not in text]
    if missing:
        raise InputError(f"{path}: {', '.join(missing)} missing; was it edited?")
    try:
        checks.optional(checks.text)(stored["initial_weights"], "initial_weights")
        text = checks.mapping(text, "text")
        for key, check in _TEXT.items():
            check(text[key], f"text.{key}")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    training = TrainingConfig.from_dict(stored["settings"], path)
    return ElmoConfig.from_file(os.path.join(directory, OPTIONS)), training, stored


def _same_text(stored: dict[str, Any], text_files: list[str]) -> dict[str, Any] | None:
    """`stored` with the current times of `text_files`, or None if their text differs."""
    identity = TextIdentity(*(stored[key] for key in TextIdentity._fields))
    found = identity.found_again(text_files)
    return None if found is None else {**stored, **found._asdict()}


def _write_training(run: Run) -> None:
    description = {
        "settings": run.training.to_dict(),
        "text": run.text,
        "initial_weights": run.initial_weights,
    }
    path = os.path.join(run.directory, TRAINING)
    if not os.path.isfile(path) or files.read_json(path) != description:
        files.write_json(path, description)


def _require_folders(directory: str) -> None:
    """Checks the paths of `best/` and `logs/` at the start; a later error would end the run."""
    for name in _FOLDERS:
        path = os.path.join(directory, name)
        if os.path.lexists(path) and not os.path.isdir(path):
            raise InputError(f"{path}: is not a directory, as in every run; move it away")


def require_run_or_free(directory: str) -> None:
    """Raises an `InputError` if a directory holds no run but files that look like a model's.

    It also does if TensorFlow cannot use the path. Call it before writing anything, even the lock.
    """
    files.require_utf8(directory)
    if is_run(directory):
        return
    if not os.path.isdir(directory):
        if os.path.exists(directory):
            raise InputError(f"{directory}: is not a directory")
        return
    for name in sorted(os.listdir(directory)):
        if name in ("saved_model.pb", "checkpoint") or name.endswith((".hdf5", ".index")):
            raise InputError(
                f"{directory}: holds {name} but no {TRAINING}, so it is not the "
                "directory of a run; choose another"
            )
