"""The interface of all kinds of input layers."""

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
    """The parts of a model card about the input layer.

    Attributes:
      source: the source of token vectors, to follow "Contextual word vectors from".
      rows: rows of the card's table, in Markdown.
      tokens: sentences about tokens.
      ids: the meaning of ids, to follow "0 is padding,".
    """

    source: str
    rows: str
    tokens: str
    ids: str


class TokenInput:
    """Converts tokens to ids, and creates the layer that reads the ids.

    There is one subclass per kind of input layer. The object holds no weights: the encoder stores
    the layer from `make_layer` in its attribute `layer_name`, which is also its name in
    checkpoints. The id 0 always means padding, and nothing else does.

    Attributes:
      config: the input layer's configuration, with all sizes known.
      units: plural noun for the units that ids represent.
      ids_name: name of the signature for ids, and of its argument.
      layer_name: name of the encoder's attribute for the layer.
      shape: shape of the ids of one token.
      boundaries: int32 `[2, *shape]`, the ids of `<S>` and `</S>`.
      num_ids: the largest id.
      greatest_ids: the largest id at each position of `shape`; None if all are `num_ids`.
      boundary_tokens: the tokens before and after each sentence; their ids are `boundaries`.
      vocabulary: the vocabulary, or None.
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
        """Converts tokens in a graph: string of any shape to int32 `tokens.shape + shape`."""
        raise NotImplementedError

    def batch(self, sentences: Sequence[Sequence[str | bytes]]) -> np.ndarray:
        """Converts sentences in Python: int32 `[batch, max_tokens, *shape]`, no boundaries."""
        raise NotImplementedError

    def check_ids(self, ids: tf.Tensor, lengths: tf.Tensor | None, name: str) -> None:
        """Checks the range of ids; those past the lengths may have any value.

        In a graph it does nothing, because the layer's lookup checks ids there.

        Args:
          ids: int32 `[batch, max_tokens, *shape]`.
          lengths: int32 `[batch]`; None if padding is zeros at the end of a row.
          name: name of the argument in errors.

        Raises:
          InputError: an id is out of range; the message names its position.
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
        """Creates the layer: int32 `[..., *shape]` to float `[..., projection_dim]`.

        Args:
          projection_dim: width of a token's vector.
          **options: `seed`, `without_initialization` and `dtype`.
        """
        raise NotImplementedError

    def card(self) -> InputCard:
        """The parts of a model card about this input layer."""
        raise NotImplementedError

    def word_list(self) -> Any:
        """The vocabulary as a JSON value, or None."""
        return None

    def write_words(self, directory: str | os.PathLike) -> list[str]:
        """Writes the vocabulary; returns the names of the files, an empty list if it has none."""
        return []

    def identity(self) -> bytes:
        """Bytes that differ between inputs that convert words differently with equal weights."""
        return b""

    @property
    def ids_shape(self) -> str:
        """The shape of a batch of ids as text: "[batch, max_tokens, 50]"."""
        return f"[{', '.join(map(str, ['batch', 'max_tokens', *self.shape]))}]"

    @property
    def ids_spec(self) -> tf.TensorSpec:
        """The spec of a batch of ids, for a signature."""
        return tf.TensorSpec([None, None, *self.shape], tf.int32, self.ids_name)
