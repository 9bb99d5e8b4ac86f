"""The settings of a training run: one frozen dataclass, checked when it is made.

Each field is a flag of `elmo_tf.train` and a key of `training.json`. Standard library only, like
`config.model`, which describes the model.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from elmo_tf.config import checks
from elmo_tf.errors import InputError

# Optimizers of `keras.optimizers` that accept both dense and sparse gradients: lower-case names and
# default learning rates. Adagrad's rate is bilm-tf's, the others are Keras's. Excluded are
# optimizers that wrap another one, Muon (for hidden layers only) and ScheduleFreeAdamW (the weights
# it trains differ from those it is evaluated with).
OPTIMIZERS: Mapping[str, float] = {
    "adagrad": 0.2,
    "adadelta": 0.001,
    "adafactor": 0.001,
    "adam": 0.001,
    "adamax": 0.001,
    "adamw": 0.001,
    "ftrl": 0.001,
    "lamb": 0.001,
    "lion": 0.001,
    "nadam": 0.001,
    "rmsprop": 0.001,
    "sgd": 0.01,
}
PRECISIONS = ("none", "float16", "bfloat16")
SCHEDULES = ("constant", "linear", "cosine", "inverse_sqrt")
# Schedules that end at a given step, so they need `decay_steps`.
DECAYING_SCHEDULES = frozenset({"linear", "cosine"})
# Keys of `training.json` that earlier releases wrote, and their current names.
_FORMER_NAMES = {"restart_share": "state_reset_rate"}
# bilm-tf's runs had 128 * 20 tokens on each of three GPUs. This limit is 2,000 times as much: the
# logits for 8,192 samples would take 550 GB.
MOST_TOKENS_PER_STEP = 1 << 24


def _count(minimum: int) -> checks.Check:
    """A count of steps, words, sentences or files, which the graph stores as int32."""
    return checks.integer(minimum, limit=2**31 - 1)


def _learning_rate(value: Any, name: str) -> float | None:
    return None if value is None else checks.positive_number(value, name)


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """The settings of a training run; the defaults are those of bilm-tf.

    Attributes:
      batch_size: streams of text read in parallel, in each direction.
      unroll_steps: tokens of each stream in one step.
      num_epochs: passes over the training files.
      max_steps: upper limit of the number of steps; None for none.
      accumulation_steps: windows whose gradients are averaged for one update of the weights. Each
        window has `batch_size` streams of its own.
      optimizer: a name in `OPTIMIZERS`.
      learning_rate: peak learning rate of the schedule; None becomes the optimizer's default.
      learning_rate_schedule: how the rate changes over the run; see `training.learning_rates`.
      warmup_steps: steps over which the learning rate first rises from 0.
      decay_steps: the step at which "linear" and "cosine" reach 0; None becomes the length of the
        run when it starts, in steps.
      initial_accumulator: initial value of Adagrad's sums of squared gradients.
      mixed_precision: "float16" or "bfloat16" computes the matrix products of LSTMs and of the
        character CNN in half precision; "none" computes everything in float32.
      clip_norm: the gradient of (loss * unroll_steps) is scaled down to this global norm; None
        for no clip.
      dropout: fraction of values dropped at the input of each LSTM layer and at the output.
      num_negative_samples: words drawn per step for the sampled softmax; 0 for the full softmax.
      state_reset_rate: probability with which a stream's LSTM state is reset to zeros before a
        step, since inference reads each sentence from a zero state.
      seed: of initial weights, dropout, negative samples and the order of sentences.
      shuffle_buffer: sentences in the shuffle buffer; 0 reads files in order.
      tokenizer: name of the tokenizer that splits raw text.
      normalize: Unicode normalization of raw text.
      steps_per_report: steps between records for TensorBoard.
      steps_per_checkpoint: steps between checkpoints.
      minutes_per_checkpoint: minutes between checkpoints, in addition to `steps_per_checkpoint`;
        None for no time limit.
      steps_per_evaluation: steps between evaluations on held-out text; None for one at the end of
        each epoch.
      patience: consecutive evaluations without a new best held-out perplexity after which the run
        ends; None never ends it early.
      initial_optimizer: whether a run that starts from another model's weights also restores that
        model's optimizer state; None for the default of its format.
      num_checkpoints_kept: checkpoints to keep. At least two, since a power cut can damage the
        newest.
    """

    batch_size: int = checks.field(128, checks.integer(minimum=1, limit=MOST_TOKENS_PER_STEP))
    unroll_steps: int = checks.field(20, checks.integer(minimum=1, limit=MOST_TOKENS_PER_STEP))
    num_epochs: int = checks.field(10, _count(minimum=1))
    max_steps: int | None = checks.field(None, checks.optional(_count(minimum=1)))
    accumulation_steps: int = checks.field(1, checks.integer(minimum=1, limit=MOST_TOKENS_PER_STEP))
    optimizer: str = checks.field("adagrad", checks.one_of(*OPTIMIZERS))
    learning_rate: float | None = checks.field(None, _learning_rate)
    learning_rate_schedule: str = checks.field("constant", checks.one_of(*SCHEDULES))
    warmup_steps: int = checks.field(0, _count(minimum=0))
    decay_steps: int | None = checks.field(
        None, checks.optional(checks.integer(minimum=1, limit=2**63 - 1))
    )
    initial_accumulator: float = checks.field(1.0, checks.positive_number)
    mixed_precision: str = checks.field("none", checks.one_of(*PRECISIONS))
    clip_norm: float | None = checks.field(10.0, checks.optional(checks.positive_number))
    dropout: float = checks.field(0.1, checks.fraction)
    state_reset_rate: float = checks.field(0.0, checks.fraction)
    num_negative_samples: int = checks.field(8192, _count(minimum=0))
    seed: int = checks.field(0, checks.integer(minimum=0, maximum=2**31 - 1))
    shuffle_buffer: int = checks.field(0, _count(minimum=0))
    tokenizer: str = checks.field("whitespace", checks.text)
    normalize: str = checks.field("none", checks.one_of("none", "nfc", "nfkc"))
    steps_per_report: int = checks.field(100, _count(minimum=1))
    steps_per_checkpoint: int = checks.field(1000, _count(minimum=1))
    minutes_per_checkpoint: float | None = checks.field(
        None, checks.optional(checks.positive_number)
    )
    steps_per_evaluation: int | None = checks.field(None, checks.optional(_count(minimum=1)))
    patience: int | None = checks.field(None, checks.optional(_count(minimum=1)))
    initial_optimizer: bool | None = checks.field(None, checks.optional(checks.boolean))
    num_checkpoints_kept: int = checks.field(2, _count(minimum=2))

    def __post_init__(self) -> None:
        checks.check_fields(self, "")
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", OPTIMIZERS[self.optimizer])
        tokens = self.num_streams * self.unroll_steps
        if tokens > MOST_TOKENS_PER_STEP:
            raise InputError(
                "batch_size * accumulation_steps * unroll_steps (tokens of a step) must be an "
                f"integer <= {MOST_TOKENS_PER_STEP}, got {tokens}",
                "batch_size",
                "accumulation_steps",
                "unroll_steps",
            )
        if self.decay_steps is not None and self.decay_steps <= self.warmup_steps:
            raise InputError(
                f"decay_steps must be an integer > {self.warmup_steps} (warmup_steps), got "
                f"{self.decay_steps}",
                "decay_steps",
                "warmup_steps",
            )

    @property
    def num_streams(self) -> int:
        """Streams read by one step, in each direction."""
        return self.batch_size * self.accumulation_steps

    @property
    def dtype_policy(self) -> str:
        """The Keras dtype policy for `mixed_precision`."""
        return "float32" if self.mixed_precision == "none" else f"mixed_{self.mixed_precision}"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str = "training.json") -> Self:
        """Builds a configuration from the output of `to_dict`; missing keys take their defaults.

        Raises:
          InputError: an unknown key, or a value of the wrong type or out of its range.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        try:
            checks.mapping(values, "the training options")
            values = {_FORMER_NAMES.get(key, key): value for key, value in values.items()}
            for key in values:
                checks.one_of(*known)(key, "a key")
            return cls(**values)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values; the inverse of `from_dict`."""
        return dataclasses.asdict(self)
