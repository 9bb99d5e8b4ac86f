"""How a run trains: one frozen dataclass, checked when it is made, and ours alone.

Each field is a flag of `elmo_tf.train` and a key of `training.json`. Standard library only, as
`config`, which describes the model.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from elmo_tf.config import checks
from elmo_tf.errors import InputError

# Those of `keras.optimizers` that train with any gradient, dense or in rows, by their names in
# small letters, with their default learning rates. Adagrad's are bilm-tf's, the others Keras's.
# Left out are those that wrap others, and two that are not for this: Muon is for hidden layers
# only, and the weights that ScheduleFreeAdamW trains are not those it is evaluated with.
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
# Schedules that reach their end, and so must know where it is.
DECAYING_SCHEDULES = frozenset({"linear", "cosine"})
# Keys of `training.json` that earlier releases wrote, with their names of today.
_FORMER_NAMES = {"restart_share": "state_reset_rate"}
# Published runs have 128 * 20 on each of three GPUs; this is 2,000 times as much, and the logits of
# 8,192 samples would take 550 GB.
MOST_TOKENS_PER_STEP = 1 << 24


def _count(minimum: int) -> checks.Check:
    """Steps, words, sentences or files: the graph counts in int32."""
    return checks.integer(minimum, limit=2**31 - 1)


def _learning_rate(value: Any, name: str) -> float | None:
    return None if value is None else checks.positive_number(value, name)


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How a run trains; the defaults are those of bilm-tf's published runs.

    Attributes:
      batch_size: streams of text read side by side, in each direction.
      unroll_steps: tokens of each stream in one step.
      num_epochs: passes over the training files.
      max_steps: the run also ends after so many steps; None for no such limit.
      accumulation_steps: windows of `batch_size` streams for one step: each has its own streams,
        and their gradients are averaged before the weights change.
      optimizer: a name in `OPTIMIZERS`.
      learning_rate: of the optimizer, the highest that the schedule reaches; None becomes the
        optimizer's default.
      learning_rate_schedule: how it changes, see `training.learning_rates`.
      warmup_steps: steps over which the learning rate first rises from 0.
      decay_steps: the step at which "linear" and "cosine" reach 0; None becomes the number of
        steps that a run has when it is begun.
      initial_accumulator: what Adagrad's sums of squared gradients start from.
      mixed_precision: "float16" or "bfloat16" computes the products of LSTMs and of the character
        CNN in half precision; "none" all in float32.
      clip_norm: the gradient of (loss * unroll_steps) is scaled down to this global norm; None
        for no clip.
      dropout: fraction of values dropped at the input of each LSTM layer and at the output.
      num_negative_samples: words drawn per step for the sampled softmax; 0 for the full softmax.
      state_reset_rate: fraction of the streams whose LSTM state is reset to zeros before a step,
        drawn anew for each step; sentences read by themselves start from zeros.
      seed: of the weights, of dropout, of the samples and of the order of sentences.
      shuffle_buffer: sentences to shuffle among; 0 reads files in order.
      tokenizer: how raw text is cut into tokens.
      normalize: Unicode normalisation of raw text.
      steps_per_report: steps from one record for TensorBoard to the next.
      steps_per_checkpoint: steps from one checkpoint to the next.
      minutes_per_checkpoint: minutes from one checkpoint to the next, beside
        `steps_per_checkpoint`; None for no such limit.
      steps_per_evaluation: steps from one held-out perplexity to the next; None for one at each
        epoch's end.
      patience: the run also ends after so many evaluations in a row without a better held-out
        perplexity than before; None for no such end.
      initial_optimizer: whether a run that starts from the weights of another model continues with
        what the optimizer of that model's training stored; None for what is usual with its format.
      num_checkpoints_kept: older ones are deleted. At least two, since the newest may be cut off by
        a power cut.
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
    dropout: float = checks.field(0.1, checks.share)
    state_reset_rate: float = checks.field(0.0, checks.share)
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
        """Streams that one step reads, in each direction."""
        return self.batch_size * self.accumulation_steps

    @property
    def dtype_policy(self) -> str:
        """The dtype policy of Keras that `mixed_precision` stands for."""
        return "float32" if self.mixed_precision == "none" else f"mixed_{self.mixed_precision}"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str = "training.json") -> Self:
        """Builds a configuration from what `to_dict` gave; keys left out take their defaults.

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
        """The fields as JSON values; `from_dict` gives an equal configuration back."""
        return dataclasses.asdict(self)
