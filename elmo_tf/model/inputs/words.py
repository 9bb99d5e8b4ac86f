"""Word input: tokens as ids of a vocabulary for an embedding table."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.config.inputs import WordInputConfig
from elmo_tf.errors import InputError
from elmo_tf.layers.word_embedding import WordEmbedding
from elmo_tf.model.inputs.token_input import InputCard, TokenInput
from elmo_tf.text import characters, forms
from elmo_tf.text.vocabulary import VOCABULARY_FILE, Vocabulary

_WORD_SHIFT = 1


class WordInput(TokenInput, tf.Module):
    """Represents a token by one id: its line number in the vocabulary, from 1 on.

    This is the vocabulary's id plus 1, as in bilm-tf's `TokenBatcher`. A token outside the
    vocabulary gets the id of `<UNK>`.

    It is a module so that its table is saved with the functions that use it.

    Args:
      config: configuration of the input layer; its number of words may be unknown.
      vocabulary: the vocabulary, or a list of its words.

    Raises:
      InputError: the vocabulary is missing, or its size differs from the configuration.
    """

    units = "words"
    ids_name = "word_ids"
    layer_name = "word_embedding"

    config: WordInputConfig
    vocabulary: Vocabulary

    def __init__(
        self, config: WordInputConfig, vocabulary: Vocabulary | Sequence[str | bytes] | None
    ) -> None:
        super().__init__(name=self.ids_name)
        if vocabulary is None:
            raise InputError("ElmoEncoder: a model with word input needs its vocabulary, got None")
        if not isinstance(vocabulary, Vocabulary):
            vocabulary = Vocabulary(forms.words(vocabulary, "vocabulary"))
        self.config = config.with_vocabulary_size(len(vocabulary))
        self.vocabulary = vocabulary
        self.shape: tuple[int, ...] = ()
        self.num_ids = len(vocabulary)
        self.boundaries = np.array([vocabulary.begin_id, vocabulary.end_id], np.int32) + _WORD_SHIFT
        with tf.init_scope():
            self._table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(
                    tf.constant(vocabulary.words),
                    tf.range(len(vocabulary), dtype=tf.int32) + _WORD_SHIFT,
                ),
                default_value=vocabulary.unknown_id + _WORD_SHIFT,
            )

    def __call__(self, tokens: tf.Tensor) -> tf.Tensor:
        return self._table.lookup(tf.convert_to_tensor(tokens, tf.string))

    def batch(self, sentences: Sequence[Sequence[str | bytes]]) -> np.ndarray:
        rows = forms.token_rows(sentences, "sentences")
        ids = np.full((len(rows), max(map(len, rows), default=0)), characters.PADDING, np.int32)
        for row, words in zip(ids, rows, strict=True):
            row[: len(words)] = self.vocabulary.ids(words) + _WORD_SHIFT
        return ids

    def make_layer(self, projection_dim: int, **options: Any) -> WordEmbedding:
        return WordEmbedding(self.num_ids, projection_dim, name=self.layer_name, **options)

    def card(self) -> InputCard:
        return InputCard(
            source="a table of words",
            rows=f"| words | {self.num_ids:,}, each with a vector |",
            tokens=(
                f"Tokens are looked up in `assets.extra/{VOCABULARY_FILE}`, and are `<UNK>` if "
                "they are not there."
            ),
            ids=(
                f"1 to {self.num_ids} are the numbers of the lines of "
                f"`assets.extra/{VOCABULARY_FILE}`"
            ),
        )

    def word_list(self) -> list[str]:
        return [word.decode("utf-8") for word in self.vocabulary.words]

    def write_words(self, directory: str | os.PathLike) -> list[str]:
        self.vocabulary.write(os.path.join(directory, VOCABULARY_FILE))
        return [VOCABULARY_FILE]

    def identity(self) -> bytes:
        return repr(self.vocabulary.words).encode()  # the words determine the rows
