"""Dictionary input: ids of words and of characters, as in ELMoForManyLangs.

A character is a Unicode code point, not a byte. Invalid UTF-8 becomes the character U+FFFD.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.config.inputs import DictionaryInputConfig
from elmo_tf.errors import InputError
from elmo_tf.layers.dictionary_embedding import DictionaryEmbedding
from elmo_tf.model.inputs.token_input import InputCard, TokenInput
from elmo_tf.text import dictionaries, forms
from elmo_tf.text.dictionaries import Dictionaries, Dictionary

_SHIFT = 1  # 0 is padding


class DictionaryInput(TokenInput, tf.Module):
    """Represents a token by the id of its word, if the model has words, and of its characters.

    An id is the dictionary's id plus 1. The characters are enclosed in two markers and padded with
    the entry `<pad>`. ELMoForManyLangs puts the marker `<eow>` before a word and `<bow>` after it,
    in training and in use, and so does this class.

    It is a module so that its tables are saved with the functions that use them.

    Args:
      config: configuration of the input layer.
      vocabulary: the dictionaries, or their JSON form from `Dictionaries.to_json`.

    Raises:
      InputError: dictionaries are missing, or their sizes differ from the configuration.
    """

    units = "words and characters of dictionaries"
    ids_name = "token_ids"
    layer_name = "dictionary_embedding"
    boundary_tokens = (dictionaries.BEGIN.encode(), dictionaries.END.encode())

    config: DictionaryInputConfig

    def __init__(
        self, config: DictionaryInputConfig, vocabulary: Dictionaries | Mapping[str, Any] | None
    ) -> None:
        super().__init__(name=self.ids_name)
        if not isinstance(vocabulary, Dictionaries):
            if not isinstance(vocabulary, Mapping):
                raise InputError(
                    "ElmoEncoder: a model with dictionary_input needs its dictionaries, got "
                    f"{type(vocabulary).__name__}"
                )
            vocabulary = Dictionaries.from_json(vocabulary)
        self.config = config
        self.dictionaries = vocabulary
        sizes = [0 if part is None else len(part) for part in vocabulary]
        if sizes != [config.num_words, config.num_characters]:
            raise InputError(
                f"ElmoEncoder: dictionaries must have {config.num_words:,} words and "
                f"{config.num_characters:,} characters, as dictionary_input says, got "
                f"{sizes[0]:,} and {sizes[1]:,}"
            )
        num_characters = config.max_characters_per_token if config.char_dim else 0
        self.shape = (bool(config.word_dim) + num_characters,)
        self.num_ids = max(sizes)
        self.greatest_ids = np.repeat(sizes, [bool(config.word_dim), num_characters])
        with tf.init_scope():
            self._word_table = _table(vocabulary.words)
            self._character_table = _table(vocabulary.characters)
            # Compute eagerly, because tensors of a caller's graph cannot be used outside of it.
            self.boundaries = self(tf.constant(self.boundary_tokens)).numpy()

    def __call__(self, tokens: tf.Tensor) -> tf.Tensor:
        tokens = tf.convert_to_tensor(tokens, tf.string)
        flat = tf.reshape(tokens, [-1])
        characters = tf.strings.unicode_split(flat, "UTF-8", errors="replace")  # [tokens, (chars)]
        words = flat
        if self.config.cuts_words:
            characters = characters[:, : self.config.max_characters_per_token - 2]
            words = tf.strings.reduce_join(characters, axis=-1)
        parts = []
        if self._word_table is not None:
            parts.append(self._word_table.lookup(words)[:, tf.newaxis])
        if self._character_table is not None:
            parts.append(self._character_rows(flat, characters))
        ids = tf.concat(parts, axis=-1)
        return tf.reshape(ids, tf.concat([tf.shape(tokens), self.shape], axis=0))

    def _character_rows(self, tokens: tf.Tensor, characters: tf.RaggedTensor) -> tf.Tensor:
        """int32 `[tokens, max_characters]`: marker, characters, marker, padding."""
        assert self._character_table is not None
        codes = characters.with_values(self._character_table.lookup(characters.values))
        column = tf.ones([tf.shape(tokens)[0], 1], tf.int32)
        begin, end = (
            column * self._character(mark)
            for mark in (dictionaries.WORD_END, dictionaries.WORD_BEGIN)
        )
        rows = tf.concat([begin, codes, end], axis=1).to_tensor(
            self._character(dictionaries.PADDING),
            shape=[None, self.config.max_characters_per_token],
        )
        for boundary in (dictionaries.BEGIN, dictionaries.END):
            is_boundary = tf.equal(tokens, boundary)[:, tf.newaxis]
            rows = tf.where(is_boundary, self._boundary_row(boundary), rows)
        return rows

    def _boundary_row(self, boundary: str) -> np.ndarray:
        """The ids of a sentence boundary, which is one character between markers."""
        marked = (dictionaries.WORD_END, boundary, dictionaries.WORD_BEGIN)
        row = np.full(
            self.config.max_characters_per_token, self._character(dictionaries.PADDING), np.int32
        )
        row[: len(marked)] = [self._character(entry) for entry in marked]
        return row

    def _character(self, entry: str) -> int:
        assert self.dictionaries.characters is not None
        return self.dictionaries.characters.ids[entry] + _SHIFT

    def batch(self, sentences: Sequence[Sequence[str | bytes]]) -> np.ndarray:
        rows = forms.token_rows(sentences, "sentences")
        lengths = [len(row) for row in rows]
        ids = np.zeros((len(rows), max(lengths, default=0), *self.shape), np.int32)
        is_token = np.arange(ids.shape[1]) < np.array(lengths, np.int64)[:, np.newaxis]
        tokens = [token for row in rows for token in row]
        if tokens:
            ids[is_token] = self(tf.constant(tokens, tf.string)).numpy()
        return ids

    def make_layer(self, projection_dim: int, **options: Any) -> DictionaryEmbedding:
        config = self.config
        has_characters = self.dictionaries.characters is not None
        return DictionaryEmbedding(
            projection_dim,
            word_dim=config.word_dim,
            num_words=config.num_words,
            char_dim=config.char_dim,
            num_characters=config.num_characters,
            filters=config.filters,
            num_highway_layers=config.num_highway_layers,
            activation=config.activation,
            filler_id=self._character(dictionaries.PADDING) if has_characters else None,
            name=self.layer_name,
            **options,
        )

    def card(self) -> InputCard:
        config = self.config
        rows = []
        if config.word_dim:
            rows.append(
                f"| words | {config.num_words:,}, each with a vector of {config.word_dim} |"
            )
        if config.char_dim:
            filters = ", ".join(f"{width} x {count}" for width, count in config.filters)
            rows += [
                f"| characters | {config.num_characters:,}, {config.char_dim} wide, up to "
                f"{config.max_characters_per_token} positions a token |",
                f"| filters (width x number) | {filters} |",
                f"| highway layers | {config.num_highway_layers} |",
            ]
        return InputCard(
            source="words and characters of dictionaries",
            rows="\n".join(rows),
            tokens=(
                f"Tokens are looked up in `assets.extra/{dictionaries.WORDS_FILE}` and their "
                f"characters in `assets.extra/{dictionaries.CHARACTERS_FILE}`, whichever are there."
            ),
            ids="the id of the word, if there are words, and of each character, each plus one",
        )

    def word_list(self) -> Any:
        return self.dictionaries.to_json()

    def write_words(self, directory: str | os.PathLike) -> list[str]:
        named = zip(
            (dictionaries.WORDS_FILE, dictionaries.CHARACTERS_FILE), self.dictionaries, strict=True
        )
        there = {name: part for name, part in named if part is not None}
        for name, part in there.items():
            part.write(os.path.join(directory, name))
        return list(there)

    def identity(self) -> bytes:
        return repr(self.dictionaries.to_json()).encode()


def _table(dictionary: Dictionary | None) -> tf.lookup.StaticHashTable | None:
    """A table from entries to ids; everything else gets the id of `<oov>`."""
    if dictionary is None:
        return None
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            tf.constant([entry.encode() for entry in dictionary.entries]),
            tf.range(len(dictionary), dtype=tf.int32) + _SHIFT,
        ),
        default_value=dictionary.ids[dictionaries.UNKNOWN] + _SHIFT,
    )
