"""Tokens to what the lowest layer of a model reads: the ids of a token's characters.

An object of a class here is a function from tokens to ids, in the graph, and knows the ids of the
boundaries that a model puts around each sentence. In all ids 0 is padding, and only padding.
"""

import numpy as np
import tensorflow as tf

from elmo_tf.text import characters


class CharacterIds:
    """A token is the row of its characters; see `characters`.

    Args:
      max_characters: ids per token.

    Attributes:
      shape: of the ids of one token, `(max_characters,)`.
      boundaries: int32 `[2, *shape]`, of `<S>` and `</S>`.
    """

    def __init__(self, max_characters: int) -> None:
        self.shape = (max_characters,)
        self.boundaries: np.ndarray = characters.boundary_characters(max_characters)

    def __call__(self, tokens: tf.Tensor) -> tf.Tensor:
        """String of any shape to int32 `tokens.shape + shape`."""
        return characters.characters_of_tokens(tokens, *self.shape)
