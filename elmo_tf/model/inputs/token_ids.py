"""Tokens to what the lowest layer of a model reads: ids of their characters, or of words.

An object of a class here is a function from tokens to ids, in the graph, and knows the ids of the
boundaries that a model puts around each sentence. In all ids 0 is padding, and only padding.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from elmo_tf.text import characters
from elmo_tf.text.vocabulary import Vocabulary

_WORD_SHIFT = 1


class CharacterIds:
    """A token is the row of its characters; see `characters`.

    Args:
      max_characters: ids per token.

    Attributes:
      shape: of the ids of one token, `(max_characters,)`.
      boundaries: int32 `[2, *shape]`, of `<S>` and `</S>`.
    """

    def __init__(self, max_characters: int) -> None:
        self.shape: tuple[int, ...] = (max_characters,)
        self.boundaries: np.ndarray = characters.boundary_characters(max_characters)

    def __call__(self, tokens: tf.Tensor) -> tf.Tensor:
        """String of any shape to int32 `tokens.shape + shape`."""
        return characters.characters_of_tokens(tokens, *self.shape)

    def batch(self, sentences: Sequence[Sequence[str | bytes]]) -> np.ndarray:
        """int32 `[batch, max_tokens, *shape]`; see `elmo_tf.batch_to_ids`."""
        return characters.batch_to_ids(sentences, *self.shape)


class WordIds(tf.Module):
    """A token is one id: the number of its line in the vocabulary, from 1 on.

    That is the id in the vocabulary plus 1, as bilm-tf's `TokenBatcher` has it. A token that is not
    in the vocabulary has the id of `<UNK>`.

    A module, so that the table is saved with functions that use it.

    Args:
      vocabulary: the words.

    Attributes:
      shape: of the ids of one token, `()`.
      boundaries: int32 `[2]`, of `<S>` and `</S>`.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(name="word_ids")
        self.shape: tuple[int, ...] = ()
        self.boundaries = np.array([vocabulary.begin_id, vocabulary.end_id], np.int32) + _WORD_SHIFT
        self._vocabulary = vocabulary
        with tf.init_scope():
            self._table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(
                    tf.constant(vocabulary.words),
                    tf.range(len(vocabulary), dtype=tf.int32) + _WORD_SHIFT,
                ),
                default_value=vocabulary.unknown_id + _WORD_SHIFT,
            )

    def __call__(self, tokens: tf.Tensor) -> tf.Tensor:
        """String of any shape to int32 of the same shape."""
        return self._table.lookup(tf.convert_to_tensor(tokens, tf.string))

    def batch(self, sentences: Sequence[Sequence[str | bytes]]) -> np.ndarray:
        """Tokenized sentences to int32 `[batch, max_tokens]`, zeros at the end; no boundaries."""
        width = max(map(len, sentences), default=0)
        ids = np.full((len(sentences), width), characters.PADDING, np.int32)
        for row, sentence in zip(ids, sentences, strict=True):
            words = [characters.token_bytes(token) for token in sentence]
            row[: len(words)] = self._vocabulary.ids(words) + _WORD_SHIFT
        return ids


TokenIds = CharacterIds | WordIds
