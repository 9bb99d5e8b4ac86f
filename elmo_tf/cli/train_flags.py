"""The flags of `elmo_tf.train`, and what they say of the run and of the model."""

import dataclasses
from typing import Any

from absl import flags

from elmo_tf.cli import command_line, text_flags
from elmo_tf.config import inputs, model
from elmo_tf.config.training import (
    DECAYING_SCHEDULES,
    OPTIMIZERS,
    PRECISIONS,
    SCHEDULES,
    TrainingConfig,
)
from elmo_tf.errors import InputError, UsageError

DEFAULT_SIZE = "original"
NONE, MIRRORED, MULTI_WORKER = "none", "mirrored", "multi_worker"  # distributions


def define() -> flags.FlagValues:
    """All flags of the command."""
    flag_values = flags.FlagValues()
    _define_run_flags(flag_values)
    _define_setting_flags(flag_values)
    return flag_values


def _define_run_flags(flag_values: flags.FlagValues) -> None:
    def define(name: str, meaning: str, required: bool = False) -> None:
        flags.DEFINE_string(name, None, meaning, flag_values, required=required)

    define("train_files", "The text: files or globs, separated by commas.", required=True)
    define("vocab_file", "The words to predict, a word on each line; see elmo-vocab.", True)
    define("model_dir", "The directory of the run; made if it is not there.", required=True)
    flags.DEFINE_enum(
        "size",
        None,
        list(model.SIZES),
        f"The shape of the model, by name. Default: that of --initial_weights, or {DEFAULT_SIZE}.",
        flag_values,
    )
    define(
        "options_file",
        "The shape of the model, as an options.json, in place of --size. Without char_cnn in it "
        "the model has word input.",
    )
    flags.DEFINE_bool(
        "word_input",
        False,
        "With --size: whether words are looked up in a table of the vocabulary, in place of being "
        "read by their characters. Words that are not in it are all read as <UNK>.",
        flag_values,
    )
    flags.DEFINE_bool(
        "share_embedding_softmax",
        False,
        "With --word_input: whether the table is that of the softmax too.",
        flag_values,
    )
    define("heldout_files", "Text to measure perplexity on: files or globs, separated by commas.")
    define(
        "initial_weights",
        "A model to start from in place of random weights: OPTIONS.json,WEIGHTS.hdf5, a zip, a "
        "checkpoint of bilm-tf, another run's directory or an exported model. The softmax is taken "
        "over if the model has one for the same vocabulary, and is new otherwise.",
    )
    command_line.define_cache_dir(flag_values)
    define(
        "export_dir",
        "Where to export the model to at the end, as a SavedModel: the best one on "
        "--heldout_files, or without them the last.",
    )
    flags.DEFINE_enum(
        "distribution",
        NONE,
        [NONE, MIRRORED, MULTI_WORKER],
        "Devices to train on. none: one. mirrored: all GPUs of this machine, or without any its "
        "logical CPUs. multi_worker: those of all processes that the environment variable "
        "TF_CONFIG names; each is started with the same command, sees the same files under the "
        "same names, and worker 0 writes and reports. The batch is split evenly; losses are those "
        "of one device, and a run may go on with another distribution.",
        flag_values,
    )


def _define_setting_flags(flag_values: flags.FlagValues) -> None:
    """A flag for each setting; ranges are checked by `TrainingConfig`, in one place."""
    integers = {
        "batch_size": "Streams of text read side by side, in each direction.",
        "unroll_steps": "Tokens of each stream in one step.",
        "accumulation_steps": "Windows of --batch_size streams in one step: their gradients are "
        "averaged for one update, in the memory that one of them takes. Streams, losses and "
        "weights are those of a --batch_size so many times as large.",
        "num_epochs": "Passes over the text.",
        "max_steps": "Steps: the run ends after so many even if epochs are left.",
        "warmup_steps": "Steps over which the learning rate first rises from 0.",
        "decay_steps": "Steps after which the schedules linear and cosine have come down to 0. "
        "Default: all those of the run when it is begun.",
        "num_negative_samples": "Words drawn for each step's sampled softmax. 0, or as many as the "
        "vocabulary has, means the full softmax.",
        "seed": "Decides the first weights, dropout, the words drawn and the order of sentences.",
        "shuffle_buffer": "Sentences to shuffle among, which are held in memory; files are "
        "shuffled too. 0 keeps the order of the text, so that sentences follow each other.",
        "steps_per_checkpoint": "Steps from one checkpoint to the next.",
        "steps_per_evaluation": "Steps from one held-out perplexity to the next. Default: an "
        "epoch's steps.",
        "patience": "Held-out perplexities: the run ends early after so many in a row that are no "
        "better than the best before them.",
        "steps_per_report": "Steps from one record for TensorBoard to the next.",
        "num_checkpoints_kept": "Checkpoints: older ones are deleted.",
    }
    floats = {
        "learning_rate": f"The highest of the schedule. Default: {_default_learning_rates()}.",
        "initial_accumulator": "What Adagrad's sums of squared gradients start from.",
        "minutes_per_checkpoint": "Minutes from one checkpoint to the next, where "
        "--steps_per_checkpoint would take longer.",
        "clip_norm": "Largest norm of the gradient of a row's summed loss; larger ones are "
        "scaled down to it.",
        "dropout": "Fraction of values dropped at each LSTM layer's input and at the output.",
        "state_reset_rate": "Fraction of the streams whose LSTM state is reset to zeros before a "
        "step, drawn anew for each step. Sentences read by themselves start from zeros; 0.1 keeps "
        "a model from depending on the text before a sentence.",
    }
    choices = {
        "optimizer": (
            OPTIMIZERS,
            "How gradients change weights. adagrad is bilm-tf's, and the others are those of "
            "keras.optimizers with their defaults. The time of a step with adagrad or sgd does not "
            "depend on the size of the vocabulary; the others work through the whole softmax.",
        ),
        "learning_rate_schedule": (
            SCHEDULES,
            "How the learning rate goes on after --warmup_steps. inverse_sqrt: with the inverse of "
            "the square root of the step.",
        ),
        "mixed_precision": (
            PRECISIONS,
            "Precision of the products in LSTMs and character CNN, for devices that are quicker at "
            "half of it. Weights, states, clips, softmax and losses stay float32, and so do what "
            "is exported and the figures of elmo-evaluate. float16 comes with loss scaling.",
        ),
    }
    defaults: dict[str, Any] = {
        field.name: field.default for field in dataclasses.fields(TrainingConfig)
    }
    for name, (values, meaning) in choices.items():
        flags.DEFINE_enum(name, defaults[name], list(values), meaning, flag_values)
    for name, meaning in integers.items():
        flags.DEFINE_integer(name, defaults[name], meaning, flag_values=flag_values)
    for name, meaning in floats.items():
        flags.DEFINE_float(name, defaults[name], meaning, flag_values=flag_values)
    flags.DEFINE_bool(
        "initial_optimizer",
        None,
        "Whether the optimizer continues with what --initial_weights has stored for it, such as "
        "Adagrad's sums of squared gradients, or begins anew. Default: it continues from a "
        "checkpoint of bilm-tf, and begins anew from any other model.",
        flag_values,
    )
    command_line.accept_former_name(flag_values, "restart_share", "state_reset_rate")
    text_flags.define(flag_values)


def _default_learning_rates() -> str:
    """Such as "0.2 for adagrad, 0.01 for sgd, 0.001 for the others"."""
    *_, common = sorted(OPTIMIZERS.values(), key=list(OPTIMIZERS.values()).count)
    special = [f"{rate} for {name}" for name, rate in OPTIMIZERS.items() if rate != common]
    return f"{', '.join(special)}, {common} for the others"


def settings(options: flags.FlagValues) -> dict[str, Any]:
    """The settings that were given; the others are the run's own, or the defaults."""
    names = [field.name for field in dataclasses.fields(TrainingConfig)]
    chosen: dict[str, Any] = {name: options[name].value for name in names if options[name].present}
    try:
        TrainingConfig(**chosen)
    except InputError as error:
        raise UsageError(str(error), *error.arguments) from error
    if "initial_accumulator" in chosen and chosen.get("optimizer", "adagrad") != "adagrad":
        raise UsageError(
            f"--initial_accumulator: --optimizer={chosen['optimizer']} has none, only adagrad"
        )
    if chosen.get("initial_optimizer") and not options.initial_weights:
        raise UsageError("--initial_optimizer needs --initial_weights")
    return chosen


def check_effects(options: flags.FlagValues, is_new: bool) -> None:
    """Refuses flags that others leave without any effect.

    Args:
      options: the command's flags.
      is_new: whether a run is begun; one that is resumed has settings of its own.

    Raises:
      UsageError: names both flags.
    """
    schedule = options["learning_rate_schedule"]
    is_known = is_new or schedule.present
    if options["decay_steps"].present and is_known and schedule.value not in DECAYING_SCHEDULES:
        raise UsageError(
            f"--decay_steps: --learning_rate_schedule={schedule.value} has no end, only "
            f"{' and '.join(sorted(DECAYING_SCHEDULES))} have"
        )
    for name in ("patience", "steps_per_evaluation"):
        if options[name].value and not options.heldout_files:
            raise UsageError(f"--{name}={options[name].value} needs --heldout_files")


def model_config(options: flags.FlagValues) -> model.ElmoConfig | None:
    """The model that was asked for, or None if no flag says."""
    if options.size and options.options_file:
        raise UsageError("--size and --options_file both say what the model is; give one of them")
    if options.share_embedding_softmax and not options.word_input:
        raise UsageError("--share_embedding_softmax: is for --word_input")
    if options.word_input:
        return _with_word_input(options)
    if options.options_file:
        return model.ElmoConfig.from_file(options.options_file)
    return model.ElmoConfig.from_size(options.size) if options.size else None


def _with_word_input(options: flags.FlagValues) -> model.ElmoConfig:
    if options.options_file:
        raise UsageError(
            "--word_input: goes with --size; an --options_file says it by having no char_cnn"
        )
    return dataclasses.replace(
        model.ElmoConfig.from_size(options.size or DEFAULT_SIZE),
        input=inputs.WordInputConfig(share_softmax=options.share_embedding_softmax),
    )
