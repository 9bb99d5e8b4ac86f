"""The configuration of a model: frozen dataclasses, checked when they are made.

`ElmoConfig` reads and writes `options.json` in the format of bilm-tf and AllenNLP. Each field is
declared once, with its default, its key in `options.json` and its check, so the rest of the code
need not validate it again. `inputs` describes the input layer, `training` a training run.

  config = ElmoConfig.from_file("options.json")
  config = ElmoConfig.from_size("small")
  config.lstm.projection_dim  # 128

Standard library only: `--help` and flag checks must not wait for TensorFlow.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Self, get_args

from elmo_tf.config import checks
from elmo_tf.config.inputs import CharCnnConfig, InputConfig, read_input
from elmo_tf.errors import InputError
from elmo_tf.storage import files

LARGEST_OPTIONS = 1 << 20  # bytes; an options.json has about 600


@dataclasses.dataclass(frozen=True)
class LstmConfig:
    """The two stacks of LSTM layers with projection (Sak et al. 2014, arXiv:1402.1128).

    Attributes:
      dim: units of a layer (the size of its cell).
      projection_dim: width of a layer's output, and of a token's vector. If it equals `dim`, the
        layers have no projection, unless `always_projects`.
      num_layers: layers in each direction.
      use_skip_connections: whether layers from the second on add their input to their output.
      cell_clip: clips the cell to [-cell_clip, cell_clip]; None for no clip.
      projection_clip: the same for the projected output.
      always_projects: whether layers have a projection even if it is as wide as the cell or wider,
        as in ELMoForManyLangs.
    """

    dim: int = checks.field(4096, checks.integer(minimum=1, limit=checks.WIDEST), "dim")
    projection_dim: int = checks.field(
        512, checks.integer(minimum=1, limit=checks.WIDEST), "projection_dim"
    )
    num_layers: int = checks.field(
        2, checks.integer(minimum=1, limit=checks.MOST_LAYERS), "n_layers", absent=1
    )
    use_skip_connections: bool = checks.field(
        True, checks.boolean, "use_skip_connections", absent=False, null_is_absent=True
    )
    cell_clip: float | None = checks.field(
        3.0, checks.optional(checks.positive_number), "cell_clip", absent=None
    )
    projection_clip: float | None = checks.field(
        3.0, checks.optional(checks.positive_number), "proj_clip", absent=None
    )

    always_projects: bool = checks.field(
        False, checks.boolean, "always_projects", absent=False, omit_absent=True
    )

    def __post_init__(self) -> None:
        checks.check_fields(self, "lstm.")
        if self.projection_dim > self.dim and not self.always_projects:
            raise InputError(
                f"lstm.projection_dim must be an integer from 1 to {self.dim} (lstm.dim), "
                f"got {self.projection_dim}"
            )

    @property
    def has_projection(self) -> bool:
        """Whether the layers have a projection."""
        return self.always_projects or self.dim != self.projection_dim

    @property
    def num_parameters(self) -> int:
        """Number of values in all weights of both directions."""
        kernels = 2 * self.projection_dim * 4 * self.dim + 4 * self.dim
        projection = self.dim * self.projection_dim if self.has_projection else 0
        return 2 * self.num_layers * (kernels + projection)


@dataclasses.dataclass(frozen=True)
class ElmoConfig:
    """The architecture of a biLM, as `options.json` describes it.

    Attributes:
      input: the kind and size of the input layer; see `config.inputs`.
      lstm: the size of the LSTM layers.
    """

    input: InputConfig = dataclasses.field(default_factory=CharCnnConfig)
    lstm: LstmConfig = LstmConfig()

    def __post_init__(self) -> None:
        for name, kind in (("input", InputConfig), ("lstm", LstmConfig)):
            if not isinstance(getattr(self, name), kind):
                kinds = " or ".join(f"a {each.__name__}" for each in get_args(kind) or (kind,))
                raise checks.refusal(name, kinds, getattr(self, name))
        self.input.check_width(self.lstm.projection_dim)

    @property
    def num_parameters(self) -> int:
        """Number of values in the biLM's weights, without softmax and scalar mix."""
        return self.input.num_parameters(self.lstm.projection_dim) + self.lstm.num_parameters

    @classmethod
    def from_size(cls, name: str) -> "ElmoConfig":
        """The configuration of a named size; see `SIZES`."""
        return SIZES[checks.one_of(*SIZES)(name, "size")]

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> Self:
        """Reads an `options.json`.

        Raises:
          InputError: the file can't be read or parsed, or as `from_options`.
        """
        return cls.from_options(files.read_json(path, most_bytes=LARGEST_OPTIONS), str(path))

    @classmethod
    def from_options(cls, options: Mapping[str, Any], source: str = "options.json") -> Self:
        """Builds a configuration from parsed options of bilm-tf, for training or inference.

        Options without `char_cnn` describe a model with word input. Keys that do not affect the
        architecture (`dropout`, `batch_size`, ...) are ignored.

        Args:
          options: the parsed JSON object.
          source: the file name to show in errors.

        Raises:
          InputError: a key is missing, of the wrong type or out of its range. The message has the
            key, what is allowed and the value.
        """
        try:
            checks.mapping(options, "the options")
            if options.get("bidirectional", True) is not True:
                raise checks.refusal("bidirectional", "true, or left out", options["bidirectional"])
            lstm = checks.read_section(LstmConfig, options, "lstm")
            return cls(read_input(options), lstm)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    def to_options(self) -> dict[str, Any]:
        """The object to write as `options.json`; bilm-tf and AllenNLP can read it."""
        return {"lstm": checks.write_section(self.lstm), **self.input.to_options()}

    def with_vocabulary_size(self, size: int) -> Self:
        """A copy with the vocabulary size set, if the input has a vocabulary.

        Raises:
          InputError: a different size is set already, or the input is by dictionaries.
        """
        return self.with_input(self.input.with_vocabulary_size(size))

    def with_input(self, new: InputConfig) -> Self:
        """A copy with another input; itself if the input is equal."""
        return self if new == self.input else dataclasses.replace(self, input=new)

    def fits(self, other: Self) -> bool:
        """Whether `other` is equal, ignoring the vocabulary size if it is not set here."""
        return self.lstm == other.lstm and self.input.fits(other.input)

    def write(self, path: str | os.PathLike) -> None:
        """Writes `options.json`, whole or not at all."""
        files.write_json(path, self.to_options())


def _published_size(dim: int, projection_dim: int, num_highway_layers: int) -> ElmoConfig:
    return ElmoConfig(
        CharCnnConfig(num_highway_layers=num_highway_layers),
        LstmConfig(dim=dim, projection_dim=projection_dim),
    )


SIZES: Mapping[str, ElmoConfig] = {
    "tiny": ElmoConfig(
        CharCnnConfig(filters=((1, 16), (2, 16), (3, 32), (4, 64), (5, 128)), num_highway_layers=1),
        LstmConfig(dim=256, projection_dim=64),
    ),
    "small": _published_size(1024, 128, num_highway_layers=1),
    "medium": _published_size(2048, 256, num_highway_layers=1),
    "original": _published_size(4096, 512, num_highway_layers=2),
    "original_5.5b": _published_size(4096, 512, num_highway_layers=2),
}
