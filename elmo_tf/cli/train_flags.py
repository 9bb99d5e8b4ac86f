"""The flags of `elmo_tf.train`, and their conversion to settings and a model configuration."""

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

    define("train_files", "Training text: comma-separated files or globs.", required=True)
    define("vocab_file", "File of words to predict, one per line; elmo-vocab makes it.", True)
    define("model_dir", "Directory of the run; created if it does not exist.", required=True)
    flags.DEFINE_enum(
        "size",
        None,
        list(model.SIZES),
        "Name of a preset for the model's architecture. Default: the architecture of "
        f"--initial_weights, or {DEFAULT_SIZE}.",
        flag_values,
    )
    define(
        "options_file",
        "An options.json with the model's architecture, instead of --size. A file without char_cnn "
        "defines a model with word input.",
    )
    flags.DEFINE_bool(
        "word_input",
        False,
        "With --size: use an embedding table over the vocabulary as input instead of the character "
        "CNN. Every word outside the vocabulary becomes <UNK>.",
        flag_values,
    )
    flags.DEFINE_bool(
        "share_embedding_softmax",
        False,
        "With --word_input: share one table between the word embedding and the softmax.",
        flag_values,
    )
    define("heldout_files", "Text for held-out perplexity: comma-separated files or globs.")
    define(
        "initial_weights",
        "Model whose weights replace the random initial weights: OPTIONS.json,WEIGHTS.hdf5, a zip, "
        "a bilm-tf checkpoint, the directory of another run, or an exported model. Its softmax is "
        "used if it has one for the same vocabulary; otherwise the softmax starts from random "
        "weights.",
    )
    command_line.define_cache_dir(flag_values)
    define(
        "export_dir",
        "Directory for a SavedModel, exported when the run ends. It holds the model with the "
        "lowest perplexity on --heldout_files or, without them, the last one.",
    )
    flags.DEFINE_enum(
        "distribution",
        NONE,
        [NONE, MIRRORED, MULTI_WORKER],
        "Devices to train on. none: one device. mirrored: all GPUs of this machine or, if it has "
        "none, its logical CPUs. multi_worker: the devices of all processes in the environment "
        "variable TF_CONFIG; start each with the same command, with the same files at the same "
        "paths; worker 0 writes and reports. The batch is split evenly between devices, so losses "
        "equal those of one device, and a run may resume with a different distribution.",
        flag_values,
    )


def _define_setting_flags(flag_values: flags.FlagValues) -> None:
    """Defines a flag for each setting of `TrainingConfig`, which checks all ranges."""
    integers = {
        "batch_size": "Number of text streams in a batch, in each direction.",
        "unroll_steps": "Number of tokens that a step takes from each stream: the length of "
        "truncated backpropagation.",
        "accumulation_steps": "Number of batches whose gradients are averaged for one update. The "
        "result is that of a --batch_size this many times as large, in the memory of one batch.",
        "num_epochs": "Number of passes over the training text.",
        "max_steps": "Maximum number of steps; the run ends there even if epochs are left.",
        "warmup_steps": "Number of steps in which the learning rate rises linearly from 0.",
        "decay_steps": "Number of steps after which the linear and cosine schedules reach 0. "
        "Default: the length of the run when it starts.",
        "num_negative_samples": "Number of words drawn for the sampled softmax of each step. 0, or "
        "the size of the vocabulary or more, selects the full softmax.",
        "seed": "Seed for the initial weights, dropout, negative samples and sentence order.",
        "shuffle_buffer": "Number of sentences in the shuffle buffer, which is held in memory; the "
        "order of files is shuffled too. 0 keeps the order of the text.",
        "steps_per_checkpoint": "Number of steps between checkpoints.",
        "steps_per_evaluation": "Number of steps between measurements of held-out perplexity. "
        "Default: one epoch.",
        "patience": "Number of consecutive held-out perplexities without improvement after which "
        "the run ends early.",
        "steps_per_report": "Number of steps between records for TensorBoard.",
        "num_checkpoints_kept": "Number of checkpoints to keep; older ones are deleted.",
    }
    floats = {
        "learning_rate": "Maximum learning rate of the schedule. Default: "
        f"{_default_learning_rates()}.",
        "initial_accumulator": "Initial value of Adagrad's sums of squared gradients.",
        "minutes_per_checkpoint": "Maximum time between checkpoints, in minutes; it applies where "
        "--steps_per_checkpoint takes longer.",
        "clip_norm": "Maximum gradient norm, of the loss summed over a stream's tokens; larger "
        "gradients are scaled down to it.",
        "dropout": "Dropout rate at the input of each LSTM layer and at the output.",
        "state_reset_rate": "Probability, for each stream and step, that the LSTM state is reset "
        "to zeros. A sentence that is embedded alone starts from zeros; with 0.1 the model learns "
        "not to depend on the text before it.",
    }
    choices = {
        "optimizer": (
            OPTIMIZERS,
            "Optimizer. adagrad is bilm-tf's; the others are those of keras.optimizers with their "
            "default arguments. With adagrad and sgd the time of a step does not depend on the "
            "size of the vocabulary; the others update the whole softmax at each step.",
        ),
        "learning_rate_schedule": (
            SCHEDULES,
            "Learning rate after --warmup_steps. inverse_sqrt: proportional to the inverse square "
            "root of the step.",
        ),
        "mixed_precision": (
            PRECISIONS,
            "Precision of the matrix products in the LSTMs and the character CNN, for devices that "
            "are faster in half precision. Weights, states, clipping, softmax and losses stay "
            "float32, as do exports and the results of elmo-evaluate. float16 uses loss scaling.",
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
        "Restore the optimizer's state, such as Adagrad's sums of squared gradients, from "
        "--initial_weights. Default: restore it from a bilm-tf checkpoint, start with a new state "
        "for any other model.",
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
    """The settings that were given as flags; a run's own values or the defaults fill the rest."""
    names = [field.name for field in dataclasses.fields(TrainingConfig)]
    chosen: dict[str, Any] = {name: options[name].value for name in names if options[name].present}
    try:
        TrainingConfig(**chosen)
    except InputError as error:
        raise UsageError(str(error), *error.arguments) from error
    if "initial_accumulator" in chosen and chosen.get("optimizer", "adagrad") != "adagrad":
        raise UsageError(
            f"--initial_accumulator: applies only to --optimizer=adagrad, not {chosen['optimizer']}"
        )
    if chosen.get("initial_optimizer") and not options.initial_weights:
        raise UsageError("--initial_optimizer needs --initial_weights")
    return chosen


def check_effects(options: flags.FlagValues, is_new: bool) -> None:
    """Refuses a flag that has no effect because of another flag.

    Args:
      options: the command's flags.
      is_new: whether the run is new; a resumed run has stored settings.

    Raises:
      UsageError: such a flag was given; the message names both.
    """
    schedule = options["learning_rate_schedule"]
    is_known = is_new or schedule.present
    if options["decay_steps"].present and is_known and schedule.value not in DECAYING_SCHEDULES:
        raise UsageError(
            "--decay_steps: applies only to --learning_rate_schedule="
            f"{' and '.join(sorted(DECAYING_SCHEDULES))}, not {schedule.value}"
        )
    for name in ("patience", "steps_per_evaluation"):
        if options[name].value and not options.heldout_files:
            raise UsageError(f"--{name}={options[name].value} needs --heldout_files")


def model_config(options: flags.FlagValues) -> model.ElmoConfig | None:
    """The model configuration that the flags define, or None if they define none."""
    if options.size and options.options_file:
        raise UsageError("--size and --options_file both define the model; give one of them")
    if options.share_embedding_softmax and not options.word_input:
        raise UsageError("--share_embedding_softmax: needs --word_input")
    if options.word_input:
        return _with_word_input(options)
    if options.options_file:
        return model.ElmoConfig.from_file(options.options_file)
    return model.ElmoConfig.from_size(options.size) if options.size else None


def _with_word_input(options: flags.FlagValues) -> model.ElmoConfig:
    if options.options_file:
        raise UsageError(
            "--word_input: use it with --size; an --options_file without char_cnn has word input"
        )
    return dataclasses.replace(
        model.ElmoConfig.from_size(options.size or DEFAULT_SIZE),
        input=inputs.WordInputConfig(share_softmax=options.share_embedding_softmax),
    )
