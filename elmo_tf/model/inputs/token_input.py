"""What all kinds of input layer have in common: the questions that the rest of a model asks."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from elmo_tf.config.inputs import InputConfig
from elmo_tf.errors import InputError
from elmo_tf.text import characters
from elmo_tf.text.vocabulary import Vocabulary


class InputCard(NamedTuple):
    """What a model card says of an input layer.

    Attributes:
      source: what token vectors are made from, after "Contextual word vectors from".
      rows: rows of the card's table, Markdown.
      tokens: sentences about what a token is.
      ids: what ids mean, after "0 is padding,".
    """

    source: str
    rows: str
    tokens: str
    ids: str


class TokenInput:
    """How a model reads tokens: a function from tokens to ids, and the layer that reads the ids.

    There is one class per kind of input layer. The object holds no weights: the layer that
    `make_layer` returns is an attribute of the encoder, named `layer_name`, as checkpoints have it.
    In all ids 0 is padding, and only padding.

    Attributes:
      config: the part of the configuration that it was made from, completed.
      units: what ids stand for, in the plural.
      ids_name: of the signature that takes ids, and of its argument.
      layer_name: of the encoder's attribute that holds the layer.
      shape: of the ids of one token.
      boundaries: int32 `[2, *shape]`, the ids of `<S>` and `</S>`.
      num_ids: the greatest id.
      greatest_ids: the greatest id at each position of `shape`; `num_ids` everywhere if it is None.
      boundary_tokens: the tokens around each sentence, whose ids are `boundaries`.
      vocabulary: the words that it reads by, or None.
    """

    units: ClassVar[str]
    ids_name: ClassVar[str]
    layer_name: ClassVar[str]

    config: InputConfig
    shape: tuple[int, ...]
    boundaries: np.ndarray
    num_ids: int
    greatest_ids: np.ndarray | None = None
    boundary_tokens: ClassVar[tuple[bytes, bytes]] = (characters.BEGIN_TOKEN, characters.END_TOKEN)
    vocabulary: Vocabulary | None = None

    def __call__(self, tokens: tf.Tensor) -> tf.Tensor:
        """In the graph: string of any shape to int32 `tokens.shape + shape`."""
        raise NotImplementedError

    def batch(self, sentences: Sequence[Sequence[str | bytes]]) -> np.ndarray:
        """In Python: tokenized sentences to int32 `[batch, max_tokens, *shape]`, no boundaries."""
        raise NotImplementedError

    def check_ids(self, ids: tf.Tensor, lengths: tf.Tensor | None, name: str) -> None:
        """Refuses ids that stand for nothing; padding past the lengths may hold anything.

        Within a graph nothing is checked here: there the layer's lookup refuses them.

        Args:
          ids: int32 `[batch, max_tokens, *shape]`.
          lengths: int32 `[batch]`; None where padding is what is 0 to the end of a row.
          name: of the argument, to show in errors.

        Raises:
          InputError: an id is out of range; it is named by its position.
        """
        if not (tf.is_tensor(ids) and hasattr(ids, "numpy")):
            return
        values = ids.numpy()
        greatest = np.broadcast_to(
            self.num_ids if self.greatest_ids is None else self.greatest_ids, self.shape
        )
        is_wrong = (values < 0) | (values > greatest)
        if not is_wrong.any():
            return
        if lengths is not None and np.shape(lengths) == values.shape[:1]:
            is_token = np.arange(values.shape[1]) < np.asarray(lengths)[:, np.newaxis]
            is_wrong &= is_token.reshape(*is_token.shape, *[1] * len(self.shape))
        for position in map(tuple, np.argwhere(is_wrong)):
            raise InputError(
                f"{name}{list(map(int, position))} must be from 0 to {greatest[position[2:]]} "
                f"({self.ids_name}, where 0 is padding), got {values[position]}"
            )

    def make_layer(self, projection_dim: int, **options: Any) -> keras.layers.Layer:
        """The layer from ids to vectors: int32 `[..., *shape]` to `[..., projection_dim]`.

        Args:
          projection_dim: width of a token's vector.
          **options: `seed`, `without_initialization` and `dtype`, which all kinds of layer take.
        """
        raise NotImplementedError

    def card(self) -> InputCard:
        """What a model card says of it."""
        raise NotImplementedError

    def word_list(self) -> Any:
        """The words that it reads by, as a JSON value; None if there are none."""
        return None

    def write_words(self, directory: str | os.PathLike) -> list[str]:
        """Writes the words that it reads by; returns the names of the files, which may be none."""
        return []

    def identity(self) -> bytes:
        """Bytes that differ where equal weights and options would still read words differently."""
        return b""

    @property
    def ids_shape(self) -> str:
        """The shape of a batch of ids in words: "[batch, max_tokens, 50]"."""
        return f"[{', '.join(map(str, ['batch', 'max_tokens', *self.shape]))}]"

    @property
    def ids_spec(self) -> tf.TensorSpec:
        """A batch of ids as the argument of a signature."""
        return tf.TensorSpec([None, None, *self.shape], tf.int32, self.ids_name)
