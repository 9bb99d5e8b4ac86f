"""Trains an ELMo language model on text, or resumes an earlier run.

    python -m elmo_tf.vocab --input_files='train/*.txt' --output_file=vocab.txt
    python -m elmo_tf.train --train_files='train/*.txt' --vocab_file=vocab.txt --model_dir=run \\
        --size=small --heldout_files='heldout/*.txt'

The text is UTF-8, one sentence per line. A run ends after --num_epochs passes over it or after
--max_steps. It can be stopped at any time: on SIGTERM and Ctrl-C it saves first, and the same
command resumes it with the result of an uninterrupted run. Flags that are omitted then keep the
run's stored values; flags that would make it a different run are refused.

Held-out perplexity is computed after each epoch and at the end, with the full softmax and with
each sentence independent of the others. With --patience it can end a run early. MODEL_DIR/best
holds the best model so far and can be used like MODEL_DIR itself. `tensorboard
--logdir=MODEL_DIR/logs` shows the curves.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from absl import flags

from elmo_tf.cli import command_line, tensorflow_start, train_flags
from elmo_tf.cli.signals import StoppedBySignal
from elmo_tf.config.model import ElmoConfig
from elmo_tf.config.training import TrainingConfig
from elmo_tf.errors import InputError, UsageError, counted
from elmo_tf.storage.lock import run_lock
from elmo_tf.text import lines
from elmo_tf.training.cluster import read_cluster

if TYPE_CHECKING:
    from elmo_tf.formats.opened_model import OpenedModel
    from elmo_tf.training.distributed import Distribution
    from elmo_tf.training.loop import Trainer
    from elmo_tf.training.run_directory import Request, Run

_DESCRIPTION = "training.json"  # marks a directory as a run
# Minimum fraction of the text's tokens that are in the vocabulary, below which we warn.
_LEAST_COVERAGE = 0.95

# With more parameters per token of text than this, the model can memorize the text.
_MOST_PARAMETERS_PER_TOKEN = 30
_FLAGS_OF_ARGUMENTS = {
    "config": "--size or --options_file",
    "directory": "--model_dir",
    "text_files": "--train_files",
    "vocabulary_file": "--vocab_file",
}

_FLAGS = train_flags.define()


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    return command_line.run(
        _FLAGS,
        _run,
        argv,
        __doc__,
        needs_tensorflow=False,
        flags_of_arguments=_FLAGS_OF_ARGUMENTS,
    )


def _run(options: flags.FlagValues) -> None:
    request_parts = _checked_flags(options)
    tensorflow_start.load_tensorflow()
    from elmo_tf.training import distributed, run_directory

    distribution = distributed.open_distribution(options.distribution)
    if distribution.is_chief:
        run_directory.require_run_or_free(request_parts["directory"])
    # Only the chief process writes to the directory.
    lock = run_lock(request_parts["directory"]) if distribution.is_chief else nullcontext()
    with distribution.failures(), lock:
        _train(options, request_parts, distribution)


def _train(
    options: flags.FlagValues, request_parts: dict[str, Any], distribution: "Distribution"
) -> None:
    from elmo_tf.cli.next_commands import next_commands
    from elmo_tf.training.heldout import HeldOut, check_text
    from elmo_tf.training.loop import Trainer
    from elmo_tf.training.run_directory import Request

    heldout_files = request_parts.pop("heldout_files")
    if heldout_files and distribution.is_chief:
        check_text(heldout_files)
    with distribution.chief_first():
        run = _open_run(Request(**request_parts), options.export_dir, distribution)
    if run.training.patience and not heldout_files:
        raise UsageError(f"--patience={run.training.patience} needs --heldout_files")
    heldout = HeldOut(run, heldout_files) if heldout_files else None
    trainer = Trainer(run, heldout, distribution)
    if distribution.is_chief and not trainer.is_complete:
        _check_export(options.export_dir)
    print(_describe(run, trainer, distribution), flush=True)
    if distribution.is_chief and not trainer.step:
        _warn_of_settings(run, trainer.num_parameters)
    first_step, begin = trainer.step, time.monotonic()
    outcome = trainer.train()
    if outcome.signal:
        raise StoppedBySignal(
            f"stopped by {outcome.signal} at step {outcome.step:,} of {run.num_steps:,}, saved in "
            f"{run.directory}; the same command resumes from there",
            outcome.signal,
        )
    if not distribution.is_chief:
        return
    seconds = time.monotonic() - begin
    print(_summary(run, outcome.step - first_step, seconds, heldout.best if heldout else None))
    _export(run, options.export_dir, takes_best=heldout is not None)
    print(next_commands(run, options.heldout_files, options.export_dir))


def _checked_flags(options: flags.FlagValues) -> dict[str, Any]:
    """Checks the flags before TensorFlow is imported, and returns the parts of the request."""
    if options.distribution == train_flags.MULTI_WORKER:
        read_cluster(os.environ)
    directory = os.path.expanduser(options.model_dir)
    settings = train_flags.settings(options)
    is_new = not os.path.isfile(os.path.join(directory, _DESCRIPTION))
    train_flags.check_effects(options, is_new)
    _check_apart(options.export_dir, directory)
    return {
        "settings": settings,
        "config": train_flags.model_config(options),
        "text_files": lines.expand_globs(options.train_files, "--train_files"),
        "heldout_files": options.heldout_files
        and lines.expand_globs(options.heldout_files, "--heldout_files"),
        "directory": directory,
        "vocabulary_file": os.path.expanduser(options.vocab_file),
        "initial_weights": options.initial_weights,
    }


def _check_apart(export_dir: str | None, model_dir: str) -> None:
    """Refuses an export directory inside the run's directory, or one that contains it."""
    if export_dir:
        exported, run = (os.path.realpath(os.path.expanduser(p)) for p in (export_dir, model_dir))
        if os.path.commonpath([exported, run]) in (exported, run):
            raise UsageError(
                f"--export_dir: {export_dir} has to be apart from --model_dir, {model_dir}"
            )


def _check_export(path: str | None) -> None:
    """Checks before training that the export can be written after it."""
    from elmo_tf.storage import directories

    if path:
        if os.path.lexists(os.path.expanduser(path)):
            raise InputError(f"--export_dir: {path} already exists; name another directory")
        directories.check_directory_target(path, False, directories.SAVED_MODEL)


def _open_run(request: "Request", export_dir: str | None, distribution: "Distribution") -> "Run":
    from elmo_tf.text.vocabulary import Vocabulary
    from elmo_tf.training import initial_weights, run_directory

    if run_directory.is_run(request.directory):
        run = run_directory.resume_run(request)
        distribution.check_settings(run.training)
        return run
    if not distribution.is_chief:
        raise InputError(
            f"--model_dir: {request.directory} holds no run, but the first process has begun one; "
            "all processes need the same directory, as on a shared file system"
        )
    distribution.check_settings(TrainingConfig(**request.settings))
    _check_export(export_dir)
    model_config = request.config
    if request.initial_weights:
        with initial_weights.open_initial_weights(request.initial_weights) as weights:
            if model_config is not None and not model_config.fits(weights.config):
                raise UsageError("--size or --options_file: not the shape of --initial_weights")
            weights.check_words(Vocabulary.from_file(request.vocabulary_file))
            model_config = weights.config
            settings = _with_text_settings(request.settings, weights.model)
            request = request._replace(settings=settings)
    print(f"counting the tokens of {counted(len(request.text_files), 'file')}", flush=True)
    run = run_directory.begin_run(
        request, model_config or ElmoConfig.from_size(train_flags.DEFAULT_SIZE)
    )
    if run.coverage is not None and run.coverage < _LEAST_COVERAGE:
        command_line.warn(
            f"{1 - run.coverage:.1%} of the text's words are not in --vocab_file and are trained "
            "as <UNK>; use the vocabulary's own --tokenizer and --normalize"
        )
    return run


def _with_text_settings(settings: Mapping[str, Any], model: "OpenedModel") -> dict[str, Any]:
    """The settings, with the model's tokenizer and normalization as defaults."""
    own = {"tokenizer": model.tokenizer, "normalize": model.normalize}
    known = {name: value for name, value in own.items() if value is not None}
    for name, value in known.items():
        if settings.get(name, value) != value:
            command_line.warn(f"--{name}={settings[name]}: --initial_weights has {value}")
    return {**known, **settings}


def _describe(run: "Run", trainer: "Trainer", distribution: "Distribution") -> str:
    if not distribution.is_chief:
        return f"{distribution}; the first process reports and saves"
    training, text = run.training, run.text
    softmax = "full softmax"
    if trainer.is_sampled:
        softmax = f"softmax sampled with {training.num_negative_samples:,} words"
    begin = f"starting from {f'step {trainer.step:,}' if trainer.step else trainer.origin}"
    if trainer.is_complete:
        begin = trainer.ending
    size = f"{training.batch_size} x {training.unroll_steps}"
    if training.accumulation_steps > 1:
        size = f"{training.accumulation_steps} x {size}"
    known = "" if run.coverage is None else f", which has {run.coverage:.2%} of the text's"
    return (
        f"{counted(text['num_tokens'], 'token')} in {counted(text['num_sentences'], 'sentence')} "
        f"(a boundary each counted), vocabulary of {len(run.vocabulary):,} words{known}\n"
        f"{trainer.num_parameters:,} parameters, {softmax}, {distribution}\n"
        f"{counted(run.num_steps, 'step')} of {size} tokens, "
        f"{run.steps_per_epoch:,} an epoch; {begin}"
    )


def _warn_of_settings(run: "Run", num_parameters: int) -> None:
    """Warns of settings that are likely mistakes, before hours of training."""
    num_tokens, training = run.text["num_tokens"], run.training
    if num_parameters > _MOST_PARAMETERS_PER_TOKEN * num_tokens and not run.initial_weights:
        command_line.warn(
            f"{num_parameters:,} parameters for {num_tokens:,} tokens: the model can learn such a "
            "text by heart; take a smaller --size or more text"
        )
    if training.warmup_steps >= run.num_steps:
        command_line.warn(
            f"--warmup_steps={training.warmup_steps:,}: the run ends after {run.num_steps:,} "
            "steps, before --learning_rate is reached"
        )


def _summary(run: "Run", num_steps: int, seconds: float, best: Mapping[str, Any] | None) -> str:
    """One line at the end of a run: duration, best perplexity, and the model's directory."""
    from elmo_tf.training.heldout import BEST
    from elmo_tf.training.progress import show_duration

    steps = f"{counted(num_steps, 'step')} in {show_duration(seconds)}"
    if best is None:
        return f"{steps}; the model is in {run.directory}"
    return (
        f"{steps}; the best held-out perplexity, {best['perplexity']:,.2f} at step "
        f"{best['step']:,}, is that of {os.path.join(run.directory, BEST)}"
    )


def _export(run: "Run", path: str | None, takes_best: bool) -> None:
    from elmo_tf.export import saved_model
    from elmo_tf.formats import locate
    from elmo_tf.model.encoder import ElmoEncoder
    from elmo_tf.training.heldout import BEST

    if not path:
        return
    if os.path.exists(os.path.expanduser(path)):  # possible only if the run was already complete
        print(f"{path} already exists and was not changed")
        return
    # Load the model from the directory: in memory it may compute in half precision.
    model = os.path.join(run.directory, BEST) if takes_best else run.directory
    with locate.open_model(model) as opened:
        saved_model.export(
            ElmoEncoder.from_model(opened),
            path,
            vocabulary_file=opened.vocabulary_file,
            provenance=opened.provenance,
        )
    print(f"exported {model} to {path}")


if __name__ == "__main__":
    sys.exit(main())
