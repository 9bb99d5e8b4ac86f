"""How a model reads its words: one frozen dataclass per kind of input layer.

`ElmoConfig.input` is one of them. Each kind answers the same questions, so that no other module
has to ask which kind it has:

  needs_vocabulary       whether the model reads words by a vocabulary of its own
  needs_dictionaries     whether it reads words and characters by dictionaries of its own
  share_softmax          whether the input's table is the kernel of the softmax too
  check_width            refuses a projection that the kind can't have
  num_parameters         how many values its weights have
  with_vocabulary_size   the same with the size of its vocabulary, where it has one
  fits                   whether another one is the same, up to what is still open
  numbers_per_token      the most intermediate numbers that reading a token takes
  from_options           reads, and `to_options` writes, its part of `options.json`

`model.inputs` has the object that computes for each kind, and `formats.bilm_tf` its stored arrays.
Standard library only.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from elmo_tf.config import checks
from elmo_tf.errors import InputError

DEFAULT_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
_LONGEST_TOKEN = 10_000  # bytes; each token of a batch is padded to it
_MOST_WORDS = 2**31 - 2  # word ids are int32 from 1 on


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

    needs_vocabulary: ClassVar[bool] = False
    needs_dictionaries: ClassVar[bool] = False
    share_softmax: ClassVar[bool] = False

    embedding_dim: int = checks.field(
        16, checks.integer(minimum=1, limit=checks.WIDEST), "embedding.dim"
    )
    filters: tuple[tuple[int, int], ...] = checks.field(DEFAULT_FILTERS, checks.filters, "filters")
    num_highway_layers: int = checks.field(
        2,
        checks.integer(minimum=0, limit=checks.MOST_LAYERS),
        "n_highway",
        absent=0,
        null_is_absent=True,
    )
    max_characters_per_token: int = checks.field(
        50, checks.integer(minimum=3, limit=_LONGEST_TOKEN), "max_characters_per_token"
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

    @property
    def numbers_per_token(self) -> int:
        """The most intermediate numbers that reading a token takes: all filters at each position.

        Twice, before and after the activation. Short words are cropped and take less.
        """
        return 2 * self.max_characters_per_token * self.num_filters

    def check_width(self, projection_dim: int) -> None:
        """Raises an `InputError` if the filters can't be projected to `projection_dim`."""
        if self.num_filters < projection_dim:
            raise InputError(
                f"char_cnn.filters must hold at least {projection_dim} filters in all "
                "(lstm.projection_dim; bilm-tf format only projects down), got "
                f"{self.num_filters}"
            )

    def num_parameters(self, projection_dim: int) -> int:
        """Values of all weights, for a projection to `projection_dim`."""
        width = self.num_filters
        convolutions = sum(
            (positions * self.embedding_dim + 1) * count for positions, count in self.filters
        )
        highways = self.num_highway_layers * 2 * width * (width + 1)
        projection = (width + 1) * projection_dim if width != projection_dim else 0
        return 261 * self.embedding_dim + convolutions + highways + projection

    def with_vocabulary_size(self, size: int) -> Self:
        """Itself: characters are read without a vocabulary."""
        return self

    def fits(self, other: "InputConfig") -> bool:
        """Whether `other` is equal."""
        return self == other

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Reads the section `char_cnn`."""
        if options.get("share_embedding_softmax"):
            raise InputError(
                "share_embedding_softmax is for models with word input, which have no char_cnn"
            )
        char_cnn = checks.mapping(options["char_cnn"], "char_cnn")
        if "n_characters" in char_cnn:
            # bilm-tf wants 261 while training and 262 afterwards, for the same weights.
            checks.one_of(261, 262)(char_cnn["n_characters"], "char_cnn.n_characters")
        return checks.read_section(cls, options, "char_cnn")

    def to_options(self) -> dict[str, Any]:
        """The section `char_cnn`, under its name."""
        # 261 rows are in the weight file, one more is made for padding: inference counts both.
        return {"char_cnn": {**checks.write_section(self), "n_characters": 262}}


@dataclasses.dataclass(frozen=True)
class WordInputConfig:
    """A table of word vectors in place of the character CNN, as bilm-tf has it.

    Attributes:
      vocabulary_size: words of the vocabulary, each a row of the table; None while it is open.
      share_softmax: whether the table is the kernel of the softmax too.
    """

    needs_vocabulary: ClassVar[bool] = True
    needs_dictionaries: ClassVar[bool] = False
    numbers_per_token: ClassVar[int] = 0  # a row is copied, and nothing computed

    vocabulary_size: int | None = checks.field(
        None,
        checks.optional(checks.integer(minimum=1, limit=_MOST_WORDS)),
        "n_tokens_vocab",
        absent=None,
    )
    share_softmax: bool = checks.field(
        False, checks.boolean, "share_embedding_softmax", absent=False, null_is_absent=True
    )

    def __post_init__(self) -> None:
        checks.check_fields(self, "word_input.")

    def check_width(self, projection_dim: int) -> None:
        """Accepts every width: the table's rows are made as wide as the projection."""

    def num_parameters(self, projection_dim: int) -> int:
        """Values of the table, for words as wide as `projection_dim`; 0 while the size is open."""
        return (self.vocabulary_size or 0) * projection_dim

    def with_vocabulary_size(self, size: int) -> Self:
        """The same with the size of its vocabulary.

        Raises:
          InputError: it has another size already.
        """
        if self.vocabulary_size not in (None, size):
            raise InputError(
                f"n_tokens_vocab is {self.vocabulary_size}, but the vocabulary has {size} words"
            )
        return dataclasses.replace(self, vocabulary_size=size)

    def fits(self, other: "InputConfig") -> bool:
        """Whether `other` is equal, up to the size of the vocabulary where it is open here."""
        if self.vocabulary_size is None and isinstance(other, WordInputConfig):
            other = dataclasses.replace(other, vocabulary_size=None)
        return self == other

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Reads the keys `n_tokens_vocab` and `share_embedding_softmax` of the top level."""
        return checks.read_section(cls, options, "")

    def to_options(self) -> dict[str, Any]:
        """Its keys of the top level."""
        return checks.write_section(self)


@dataclasses.dataclass(frozen=True)
class DictionaryInputConfig:
    """Characters and words of dictionaries, joined, as ELMoForManyLangs has it.

    A token is looked up in a table of words and, character by character, in a table of characters,
    over which a character CNN runs. Both vectors are joined and projected. Either may be missing.

    Attributes:
      word_dim: width of a word's vector; 0 for a model without words.
      num_words: entries of the dictionary of words; 0 without words.
      char_dim: width of a character's vector; 0 for a model without characters.
      num_characters: entries of the dictionary of characters; 0 without characters.
      filters: pairs (width in characters, number of filters).
      num_highway_layers: highway layers over all filters, 0 for none.
      max_characters_per_token: characters of a token with its two word marks. Longer tokens are
        cut, for both dictionaries.
      cuts_words: whether tokens are cut in a model without characters too.
      activation: "relu" or "tanh", after the maximum over positions.
    """

    needs_vocabulary: ClassVar[bool] = False
    needs_dictionaries: ClassVar[bool] = True
    share_softmax: ClassVar[bool] = False

    word_dim: int = checks.field(
        100, checks.integer(minimum=0, limit=checks.WIDEST), "word_dim", absent=0
    )
    num_words: int = checks.field(
        0, checks.integer(minimum=0, limit=_MOST_WORDS), "num_words", absent=0
    )
    char_dim: int = checks.field(
        50, checks.integer(minimum=0, limit=checks.WIDEST), "char_dim", absent=0
    )
    num_characters: int = checks.field(
        0, checks.integer(minimum=0, limit=_MOST_WORDS), "num_characters", absent=0
    )
    filters: tuple[tuple[int, int], ...] = checks.field(
        DEFAULT_FILTERS, checks.filters, "filters", absent=DEFAULT_FILTERS
    )
    num_highway_layers: int = checks.field(
        2, checks.integer(minimum=0, limit=checks.MOST_LAYERS), "n_highway", absent=0
    )
    max_characters_per_token: int = checks.field(
        50,
        checks.integer(minimum=3, limit=_LONGEST_TOKEN),
        "max_characters_per_token",
        absent=50,
    )
    cuts_words: bool = checks.field(True, checks.boolean, "cuts_words", absent=True)
    activation: str = checks.field(
        "relu", checks.one_of("relu", "tanh"), "activation", absent="relu"
    )

    def __post_init__(self) -> None:
        checks.check_fields(self, "dictionary_input.")
        for dim, size in (("word_dim", "num_words"), ("char_dim", "num_characters")):
            if bool(getattr(self, dim)) != bool(getattr(self, size)):
                raise InputError(
                    f"dictionary_input.{dim} is {getattr(self, dim)} and {size} is "
                    f"{getattr(self, size)}: both must be 0, or neither"
                )
        if not self.word_dim and not self.char_dim:
            raise InputError("dictionary_input: word_dim or char_dim must be above 0")
        widest = max(width for width, _ in self.filters)
        if self.char_dim and self.max_characters_per_token < widest:
            raise InputError(
                f"dictionary_input.max_characters_per_token must be an integer >= {widest} (the "
                f"widest of filters), got {self.max_characters_per_token}"
            )

    @property
    def num_filters(self) -> int:
        """All filters of all widths together; 0 without characters."""
        return sum(count for _, count in self.filters) if self.char_dim else 0

    @property
    def numbers_per_token(self) -> int:
        """The most intermediate numbers that reading a token takes; as for `CharCnnConfig`."""
        return 2 * self.max_characters_per_token * self.num_filters

    def check_width(self, projection_dim: int) -> None:
        """Accepts every width: there is a projection always."""

    def num_parameters(self, projection_dim: int) -> int:
        """Values of all weights, for a projection to `projection_dim`."""
        width = self.num_filters
        convolutions = sum((size * self.char_dim + 1) * count for size, count in self.filters)
        highways = self.num_highway_layers * 2 * width * (width + 1)
        characters = self.num_characters * self.char_dim + convolutions + highways
        projection = (width + self.word_dim + 1) * projection_dim
        words = self.num_words * self.word_dim
        return words + (characters if self.char_dim else 0) + projection

    def with_vocabulary_size(self, size: int) -> Self:
        """Refuses: a vocabulary is for training, which this kind has no part in.

        Raises:
          InputError: always.
        """
        raise InputError(
            "a model with dictionary_input can't be trained as a language model: it reads the "
            "dictionaries of the model it was made from, and no vocabulary"
        )

    def fits(self, other: "InputConfig") -> bool:
        """Whether `other` is equal."""
        return self == other

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Reads the section `dictionary_input`."""
        checks.mapping(options["dictionary_input"], "dictionary_input")
        return checks.read_section(cls, options, "dictionary_input")

    def to_options(self) -> dict[str, Any]:
        """The section `dictionary_input`, under its name."""
        return {"dictionary_input": checks.write_section(self)}


InputConfig = CharCnnConfig | WordInputConfig | DictionaryInputConfig


def read_input(options: Mapping[str, Any]) -> InputConfig:
    """The input of parsed options: those without `char_cnn` are of a model with word input.

    Raises:
      InputError: a key is missing, of the wrong type or out of its range.
    """
    if "dictionary_input" in options:
        return DictionaryInputConfig.from_options(options)
    kind = CharCnnConfig if "char_cnn" in options else WordInputConfig
    return kind.from_options(options)
