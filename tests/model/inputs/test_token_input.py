"""Tokens to ids of characters or of words: the graph and Python agree."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.config.inputs import CharCnnConfig, WordInputConfig
from elmo_tf.model.inputs.characters import CharacterInput
from elmo_tf.model.inputs.words import WordInput
from elmo_tf.text import characters
from elmo_tf.text.vocabulary import Vocabulary

WORDS = ["the", "<UNK>", "кот", "<S>", "猫", "</S>", "a b"]
SENTENCES = [["the", "猫", "dog"], [], ["кот", "<S>", "</S>", "a b", "", b"\xff\0", "<UNK>"]]
# Line numbers in WORDS from 1 on; "<UNK>" is on line 2.
EXPECTED = [[1, 5, 2, 0, 0, 0, 0], [0] * 7, [3, 4, 6, 7, 2, 2, 2]]


@pytest.fixture(scope="module")
def word_ids():
    return WordInput(WordInputConfig(), Vocabulary([word.encode() for word in WORDS]))


def test_words_are_the_lines_of_the_vocabulary(word_ids):
    ids = word_ids.batch(SENTENCES)
    assert (ids.dtype, word_ids.shape) == (np.int32, ())
    np.testing.assert_array_equal(ids, EXPECTED)
    assert word_ids.batch([]).shape == (0, 0)


@pytest.mark.traced
def test_words_in_the_graph(word_ids):
    for sentence, expected in zip(SENTENCES, EXPECTED, strict=True):
        tokens = [characters.token_bytes(token) for token in sentence]
        found = tf.function(word_ids)(tf.constant(tokens, tf.string, [len(tokens)]))
        np.testing.assert_array_equal(found, expected[: len(tokens)])
    assert word_ids(tf.constant([["the"], ["x"]])).shape == (2, 1)


def test_boundaries_of_words(word_ids):
    np.testing.assert_array_equal(word_ids.boundaries, [4, 6])
    np.testing.assert_array_equal(word_ids(tf.constant(["<S>", "</S>"])), word_ids.boundaries)


def test_characters_are_those_of_the_module_characters():
    ids = CharacterInput(CharCnnConfig(max_characters_per_token=9))
    assert ids.shape == (9,)
    np.testing.assert_array_equal(ids.batch(SENTENCES), characters.batch_to_ids(SENTENCES, 9))
    np.testing.assert_array_equal(
        ids(tf.constant(["кот", "<S>"])), [characters.encode_token(t, 9) for t in ("кот", "<S>")]
    )
    np.testing.assert_array_equal(ids.boundaries, characters.boundary_characters(9))
