"""How a model reads its words: one frozen dataclass per kind of input layer.

`ElmoConfig.input` is an instance of one of them. All have the same members, so no other module
needs to distinguish the kinds:

  needs_vocabulary       whether the model maps words to ids by a vocabulary
  needs_dictionaries     whether it maps words and characters to ids by dictionaries
  share_softmax          whether the softmax kernel is the input's word table
  check_width            rejects a `projection_dim` that the kind can't have
  num_parameters         number of values in the input layer's weights
  with_vocabulary_size   a copy with the vocabulary size set, if the kind has one
  fits                   whether another input is equal, ignoring a size that is not set yet
  numbers_per_token      upper bound on the intermediate values computed per token
  from_options           reads its part of `options.json`; `to_options` writes it

`model.inputs` has the class that computes each kind, and `formats.bilm_tf` the names of its arrays
in a file. Standard library only.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from elmo_tf.config import checks
from elmo_tf.errors import InputError

DEFAULT_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
_LONGEST_TOKEN = 10_000  # limit of max_characters_per_token
_MOST_WORDS = 2**31 - 2  # word ids are int32 and start at 1


@dataclasses.dataclass(frozen=True)
class CharCnnConfig:
    """A character CNN that computes a vector for each token (Kim et al. 2016, arXiv:1508.06615).

    Attributes:
      embedding_dim: width of a character's vector.
      filters: pairs (width in characters, number of filters).
      num_highway_layers: highway layers after the convolutions; 0 for none.
      max_characters_per_token: positions for a token's bytes and its two word boundary marks.
      activation: "relu" or "tanh", applied after the maximum over positions.
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
        """Total number of filters, over all widths."""
        return sum(count for _, count in self.filters)

    @property
    def widest_filter(self) -> int:
        """The largest filter width, in characters."""
        return max(width for width, _ in self.filters)

    @property
    def numbers_per_token(self) -> int:
        """Upper bound on the intermediate values per token: every filter at every position.

        The factor 2 counts them before and after the activation. Batches of short words are
        cropped and need less.
        """
        return 2 * self.max_characters_per_token * self.num_filters

    def check_width(self, projection_dim: int) -> None:
        """Raises an `InputError` if there are fewer filters than `projection_dim`."""
        if self.num_filters < projection_dim:
            raise InputError(
                f"char_cnn.filters must hold at least {projection_dim} filters in all "
                "(lstm.projection_dim; bilm-tf format only projects down), got "
                f"{self.num_filters}"
            )

    def num_parameters(self, projection_dim: int) -> int:
        """Number of values in all weights, with a projection to `projection_dim`."""
        width = self.num_filters
        convolutions = sum(
            (positions * self.embedding_dim + 1) * count for positions, count in self.filters
        )
        highways = self.num_highway_layers * 2 * width * (width + 1)
        projection = (width + 1) * projection_dim if width != projection_dim else 0
        return 261 * self.embedding_dim + convolutions + highways + projection

    def with_vocabulary_size(self, size: int) -> Self:
        """Returns itself: this kind has no vocabulary."""
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
            # bilm-tf requires 261 for training and 262 for inference, with the same weights.
            checks.one_of(261, 262)(char_cnn["n_characters"], "char_cnn.n_characters")
        return checks.read_section(cls, options, "char_cnn")

    def to_options(self) -> dict[str, Any]:
        """A dict with the section `char_cnn`."""
        # For inference, bilm-tf counts the weight file's 261 rows and a row of zeros for padding.
        return {"char_cnn": {**checks.write_section(self), "n_characters": 262}}


@dataclasses.dataclass(frozen=True)
class WordInputConfig:
    """A table of word vectors instead of the character CNN, as in bilm-tf.

    Attributes:
      vocabulary_size: words of the vocabulary, which is the number of rows; None if not set yet.
      share_softmax: whether the softmax kernel is the same table.
    """

    needs_vocabulary: ClassVar[bool] = True
    needs_dictionaries: ClassVar[bool] = False
    numbers_per_token: ClassVar[int] = 0  # a lookup computes nothing

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
        """Accepts every width, since the rows of the table are as wide as the projection."""

    def num_parameters(self, projection_dim: int) -> int:
        """Number of values in the table; 0 if the vocabulary size is not set."""
        return (self.vocabulary_size or 0) * projection_dim

    def with_vocabulary_size(self, size: int) -> Self:
        """A copy with the vocabulary size set.

        Raises:
          InputError: a different size is set already.
        """
        if self.vocabulary_size not in (None, size):
            raise InputError(
                f"n_tokens_vocab is {self.vocabulary_size}, but the vocabulary has {size} words"
            )
        return dataclasses.replace(self, vocabulary_size=size)

    def fits(self, other: "InputConfig") -> bool:
        """Whether `other` is equal, ignoring the vocabulary size if it is not set here."""
        if self.vocabulary_size is None and isinstance(other, WordInputConfig):
            other = dataclasses.replace(other, vocabulary_size=None)
        return self == other

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Reads the keys `n_tokens_vocab` and `share_embedding_softmax` of the top level."""
        return checks.read_section(cls, options, "")

    def to_options(self) -> dict[str, Any]:
        """A dict with its keys of the top level."""
        return checks.write_section(self)


@dataclasses.dataclass(frozen=True)
class DictionaryInputConfig:
    """Word and character vectors, concatenated, as in ELMoForManyLangs.

    Each token has a vector from a word table, and one from a character CNN whose characters have
    vectors from a character table. Both are concatenated and projected. One of the two can be
    absent. Dictionaries map words and characters to ids.

    Attributes:
      word_dim: width of a word's vector; 0 for a model without words.
      num_words: entries of the dictionary of words; 0 without words.
      char_dim: width of a character's vector; 0 for a model without characters.
      num_characters: entries of the dictionary of characters; 0 without characters.
      filters: pairs (width in characters, number of filters).
      num_highway_layers: highway layers after the convolutions; 0 for none.
      max_characters_per_token: positions for a token's characters and its two word boundary marks.
        Longer tokens are truncated before both dictionaries are consulted.
      cuts_words: whether tokens are truncated in a model without characters too.
      activation: "relu" or "tanh", applied after the maximum over positions.
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
        """Total number of filters, over all widths; 0 without characters."""
        return sum(count for _, count in self.filters) if self.char_dim else 0

    @property
    def numbers_per_token(self) -> int:
        """Upper bound on the intermediate values per token, as for `CharCnnConfig`."""
        return 2 * self.max_characters_per_token * self.num_filters

    def check_width(self, projection_dim: int) -> None:
        """Accepts every width, since this kind always projects."""

    def num_parameters(self, projection_dim: int) -> int:
        """Number of values in all weights, with a projection to `projection_dim`."""
        width = self.num_filters
        convolutions = sum((size * self.char_dim + 1) * count for size, count in self.filters)
        highways = self.num_highway_layers * 2 * width * (width + 1)
        characters = self.num_characters * self.char_dim + convolutions + highways
        projection = (width + self.word_dim + 1) * projection_dim
        words = self.num_words * self.word_dim
        return words + (characters if self.char_dim else 0) + projection

    def with_vocabulary_size(self, size: int) -> Self:
        """Raises an `InputError`: only training needs a vocabulary, and this kind can't train."""
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
        """A dict with the section `dictionary_input`."""
        return {"dictionary_input": checks.write_section(self)}


InputConfig = CharCnnConfig | WordInputConfig | DictionaryInputConfig


def read_input(options: Mapping[str, Any]) -> InputConfig:
    """The input described by parsed options; without `char_cnn` it is word input.

    Raises:
      InputError: a key is missing, of the wrong type or out of its range.
    """
    if "dictionary_input" in options:
        return DictionaryInputConfig.from_options(options)
    kind = CharCnnConfig if "char_cnn" in options else WordInputConfig
    return kind.from_options(options)
