"""What a model looks like: frozen dataclasses, checked when they are made.

`ElmoConfig` reads and writes `options.json` as bilm-tf and AllenNLP know it. Every field is
declared once, in this file, with its default, its key in `options.json` and the check it must
pass, so nothing after this file has to doubt a value. How a run trains is in `training_config`.

  config = ElmoConfig.from_file("options.json")
  config = ElmoConfig.from_size("small")
  config.lstm.projection_dim  # 128

Standard library only: `--help` and the checking of flags must not wait for TensorFlow.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Self

from elmo_tf.config import checks
from elmo_tf.errors import InputError
from elmo_tf.storage import files

DEFAULT_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclasses.dataclass(frozen=True)
class CharCnnConfig:
    """The character CNN that makes a vector of each token (Kim et al., arXiv:1508.06615).

    Attributes:
      embedding_dim: width of a character's vector.
      filters: pairs (width in characters, number of filters).
      num_highway_layers: highway layers over all filters, 0 for none.
      max_characters_per_token: positions for a token's bytes with its two word marks.
      activation: "relu" or "tanh", after the maximum over positions.
    """

    embedding_dim: int = checks.field(16, checks.integer(minimum=1), "embedding.dim")
    filters: tuple[tuple[int, int], ...] = checks.field(DEFAULT_FILTERS, checks.filters, "filters")
    num_highway_layers: int = checks.field(
        2, checks.integer(minimum=0), "n_highway", absent=0, null_is_absent=True
    )
    max_characters_per_token: int = checks.field(
        50, checks.integer(minimum=3), "max_characters_per_token"
    )
    activation: str = checks.field("relu", checks.one_of("relu", "tanh"), "activation")

    def __post_init__(self) -> None:
        checks.check_fields(self, "char_cnn.")
        if self.max_characters_per_token < self.widest_filter:
            raise InputError(
                "char_cnn.max_characters_per_token must be an integer >= "
                f"{self.widest_filter} (the widest of char_cnn.filters), got "
                f"{self.max_characters_per_token}"
            )

    @property
    def num_filters(self) -> int:
        """All filters of all widths together."""
        return sum(count for _, count in self.filters)

    @property
    def widest_filter(self) -> int:
        """The greatest filter width, in characters."""
        return max(width for width, _ in self.filters)


@dataclasses.dataclass(frozen=True)
class WordInputConfig:
    """A table of word vectors in the place of the character CNN, as bilm-tf has it.

    Attributes:
      vocabulary_size: words of the vocabulary, each a row of the table; None while it is open.
      share_softmax: whether the table is the kernel of the softmax too.
    """

    vocabulary_size: int | None = checks.field(
        None, checks.optional(checks.integer(minimum=1)), "n_tokens_vocab", absent=None
    )
    share_softmax: bool = checks.field(
        False, checks.boolean, "share_embedding_softmax", absent=False, null_is_absent=True
    )

    def __post_init__(self) -> None:
        checks.check_fields(self, "word_input.")


@dataclasses.dataclass(frozen=True)
class LstmConfig:
    """The two stacks of LSTM layers with projection (Sak et al., arXiv:1402.1128).

    Attributes:
      dim: units of a layer (the size of its cell).
      projection_dim: width of a layer's output, and of a token's vector. Equal to `dim`, the
        layers have no projection.
      num_layers: layers in each direction.
      use_skip_connections: whether layers from the second on add their input to their output.
      cell_clip: the cell is kept within [-cell_clip, cell_clip]; None for no clip.
      projection_clip: the same for the projected output.
    """

    dim: int = checks.field(4096, checks.integer(minimum=1), "dim")
    projection_dim: int = checks.field(512, checks.integer(minimum=1), "projection_dim")
    num_layers: int = checks.field(2, checks.integer(minimum=1), "n_layers", absent=1)
    use_skip_connections: bool = checks.field(
        True, checks.boolean, "use_skip_connections", absent=False, null_is_absent=True
    )
    cell_clip: float | None = checks.field(
        3.0, checks.optional(checks.positive_number), "cell_clip", absent=None
    )
    projection_clip: float | None = checks.field(
        3.0, checks.optional(checks.positive_number), "proj_clip", absent=None
    )

    def __post_init__(self) -> None:
        checks.check_fields(self, "lstm.")
        if self.projection_dim > self.dim:
            raise InputError(
                f"lstm.projection_dim must be an integer from 1 to {self.dim} (lstm.dim), "
                f"got {self.projection_dim}"
            )

    @property
    def has_projection(self) -> bool:
        """Whether a layer's output is projected down from its cell."""
        return self.dim != self.projection_dim


@dataclasses.dataclass(frozen=True)
class ElmoConfig:
    """A whole biLM: everything `options.json` says of it.

    Attributes:
      char_cnn: how words are read by their characters; None with word input.
      lstm: the language model.
      word_input: how words are looked up in a table, or None.
    """

    char_cnn: CharCnnConfig | None = CharCnnConfig()
    lstm: LstmConfig = LstmConfig()
    word_input: WordInputConfig | None = None

    def __post_init__(self) -> None:
        kinds: dict[str, type] = {"lstm": LstmConfig, "char_cnn": CharCnnConfig}
        if self.word_input is not None:
            kinds = {"lstm": LstmConfig, "char_cnn": type(None), "word_input": WordInputConfig}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise checks.refusal(name, f"a {kind.__name__}", getattr(self, name))
        if self.char_cnn and self.char_cnn.num_filters < self.lstm.projection_dim:
            raise InputError(
                f"char_cnn.filters must hold at least {self.lstm.projection_dim} filters in all "
                "(lstm.projection_dim; the published format only projects down), got "
                f"{self.char_cnn.num_filters}"
            )

    @classmethod
    def from_size(cls, name: str) -> Self:
        """The configuration of a size by its published name; see `SIZES`."""
        return SIZES[checks.one_of(*SIZES)(name, "size")]

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> Self:
        """Reads an `options.json`.

        Raises:
          InputError: the file can't be read or parsed, or as `from_options`.
        """
        return cls.from_options(files.read_json(path), str(path))

    @classmethod
    def from_options(cls, options: Mapping[str, Any], source: str = "options.json") -> Self:
        """Builds a configuration from parsed options, of inference or of training.

        Options without `char_cnn` are those of a model with word input. Keys that do not shape the
        model (`dropout`, `batch_size`, ...) are left aside.

        Args:
          options: the parsed JSON object.
          source: the file name to show in errors.

        Raises:
          InputError: a key is missing, of the wrong type or out of its range. The message names
            the key, what is allowed and what came.
        """
        try:
            _check_kind_of_model(checks.mapping(options, "the options"))
            lstm = checks.read_section(LstmConfig, options, "lstm")
            if "char_cnn" in options:
                return cls(checks.read_section(CharCnnConfig, options, "char_cnn"), lstm)
            return cls(None, lstm, checks.read_section(WordInputConfig, options, ""))
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    def to_options(self) -> dict[str, Any]:
        """The object to write as `options.json`; bilm-tf and AllenNLP read it unchanged."""
        lstm = checks.write_section(self.lstm)
        if self.word_input:
            return {"lstm": lstm, **checks.write_section(self.word_input)}
        char_cnn = checks.write_section(self.char_cnn)
        # 261 rows are in the weight file, one more is made for padding: inference counts both.
        char_cnn["n_characters"] = 262
        return {"lstm": lstm, "char_cnn": char_cnn}

    def with_vocabulary_size(self, size: int) -> Self:
        """The same with the size of its vocabulary; without word input, itself.

        Raises:
          InputError: it has another size already.
        """
        if self.word_input is None or self.word_input.vocabulary_size == size:
            return self
        if self.word_input.vocabulary_size is not None:
            raise InputError(
                f"n_tokens_vocab is {self.word_input.vocabulary_size}, but the vocabulary has "
                f"{size} words"
            )
        word_input = dataclasses.replace(self.word_input, vocabulary_size=size)
        return dataclasses.replace(self, word_input=word_input)

    def fits(self, other: Self) -> bool:
        """Whether `other` is the same, up to the size of the vocabulary where it is open here."""
        if self.word_input and other.word_input and self.word_input.vocabulary_size is None:
            return self.with_vocabulary_size(other.word_input.vocabulary_size) == other
        return self == other

    def write(self, path: str | os.PathLike) -> None:
        """Writes `options.json`, whole or not at all."""
        files.write_json(path, self.to_options())


def _check_kind_of_model(options: Mapping[str, Any]) -> None:
    if options.get("bidirectional", True) is not True:
        raise checks.refusal("bidirectional", "true, or left out", options["bidirectional"])
    if "char_cnn" not in options:
        return
    if options.get("share_embedding_softmax"):
        raise InputError(
            "share_embedding_softmax is for models with word input, which have no char_cnn"
        )
    char_cnn = checks.mapping(options["char_cnn"], "char_cnn")
    if "n_characters" in char_cnn:
        # bilm-tf wants 261 while training and 262 afterwards, for the same weights.
        checks.one_of(261, 262)(char_cnn["n_characters"], "char_cnn.n_characters")


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
