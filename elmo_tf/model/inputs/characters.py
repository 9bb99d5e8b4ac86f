"""Character input: tokens as rows of character ids for a character CNN."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.config.inputs import CharCnnConfig
from elmo_tf.layers.char_cnn import CharCnn
from elmo_tf.model.inputs.token_input import InputCard, TokenInput
from elmo_tf.text import characters
from elmo_tf.text.vocabulary import Vocabulary


class CharacterInput(TokenInput):
    """Represents a token by its character ids; see `text.characters`.

    Args:
      config: configuration of the character CNN.
      vocabulary: not used; characters need no vocabulary.
    """

    units = "characters"
    ids_name = "char_ids"
    layer_name = "char_cnn"
    num_ids = characters.NUM_CHARACTERS

    config: CharCnnConfig

    def __init__(self, config: CharCnnConfig, vocabulary: Vocabulary | None = None) -> None:
        self.config = config
        self.shape = (config.max_characters_per_token,)
        self.boundaries = characters.boundary_characters(*self.shape)

    def __call__(self, tokens: tf.Tensor) -> tf.Tensor:
        return characters.characters_of_tokens(tokens, *self.shape)

    def batch(self, sentences: Sequence[Sequence[str | bytes]]) -> np.ndarray:
        return characters.batch_to_ids(sentences, *self.shape)

    def make_layer(self, projection_dim: int, **options: Any) -> CharCnn:
        return CharCnn(
            embedding_dim=self.config.embedding_dim,
            filters=self.config.filters,
            num_highway_layers=self.config.num_highway_layers,
            projection_dim=projection_dim,
            activation=self.config.activation,
            num_characters=characters.NUM_CHARACTERS,
            filler_id=characters.FILLER,
            name=self.layer_name,
            **options,
        )

    def card(self) -> InputCard:
        positions = self.config.max_characters_per_token
        filters = ", ".join(f"{width} x {count}" for width, count in self.config.filters)
        return InputCard(
            source="characters: a character CNN",
            rows=(
                f"| character embeddings | {self.config.embedding_dim} wide, up to {positions} "
                f"positions a token |\n| filters (width x number) | {filters} |\n"
                f"| highway layers | {self.config.num_highway_layers} |"
            ),
            tokens=(
                f"Tokens are UTF-8 bytes, of which the first {positions - 2} count. There is no "
                "vocabulary."
            ),
            ids=(
                "1 to 256 are bytes plus one, and each token has its begin (259) and end (260) of "
                "word, then filler (261)"
            ),
        )
