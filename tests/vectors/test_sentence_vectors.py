import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.vectors.choices import LAYERS
from elmo_tf.vectors.sentence_vectors import SentenceVectors
from tests import models
from tests.vectors.sentences import NUM_LAYERS, SENTENCES, P, expected

pytestmark = pytest.mark.traced  # many small batches through one model


@pytest.fixture(scope="module")
def encoder(small_encoder):
    return small_encoder


@pytest.mark.parametrize("layers", LAYERS)
def test_values_and_shapes(encoder, layers):
    vectors = SentenceVectors(encoder, layers)
    size = P if layers == "word" else 2 * P
    assert vectors.shape == ((NUM_LAYERS + 1, None, size) if layers == "all" else (None, size))
    for sentence, actual in zip(SENTENCES, vectors(SENTENCES), strict=True):
        assert actual.dtype == np.float32
        assert actual.shape == tuple(n or len(sentence) for n in vectors.shape)
        np.testing.assert_allclose(actual, expected(encoder, sentence, layers), atol=1e-6)
    assert vectors.empty().shape == tuple(n or 0 for n in vectors.shape)
    [blank] = vectors([[]])
    assert (blank.shape, blank.dtype) == (vectors.empty().shape, vectors.empty().dtype)


def test_words_need_no_lstm(encoder):
    broken = models.small_encoder()
    for weight in broken.bilm.weights:
        weight.assign(np.full(weight.shape, np.nan))
    for word, right in zip(
        SentenceVectors(broken, "word")(SENTENCES),
        SentenceVectors(encoder, "word")(SENTENCES),
        strict=True,
    ):
        np.testing.assert_array_equal(word, right)


def test_one_trace_for_every_batch_and_object():
    encoder = models.small_encoder()
    for batch in (SENTENCES, SENTENCES[2:], [[]], SENTENCES[:1] * 5):
        SentenceVectors(encoder, "average")(batch)
    assert encoder.traced.counts == [1, 1], "one for words and one for the layers"


def test_unknown_layers(encoder):
    with pytest.raises(InputError, match="layers must be one of 'all', 'elmo', .*, got 'last'"):
        SentenceVectors(encoder, "last")


def test_each_distinct_word_is_embedded_once_for_all_batches(encoder):
    vectors = SentenceVectors(encoder, "all")
    words = vectors.words(token for sentence in SENTENCES for token in sentence)
    distinct = {b"<S>", *(token for sentence in SENTENCES for token in sentence)}
    assert set(words.rows) == distinct
    assert words.embeddings.shape == (len(distinct), P)
    for sentence in SENTENCES:
        [actual] = vectors([sentence], words)
        np.testing.assert_allclose(actual, expected(encoder, sentence, "all"), atol=1e-6)


def test_many_words_are_embedded_in_blocks(encoder, monkeypatch):
    monkeypatch.setattr("elmo_tf.vectors.word_vectors._WORDS_AT_ONCE", 3)
    for actual, sentence in zip(SentenceVectors(encoder, "top")(SENTENCES), SENTENCES, strict=True):
        np.testing.assert_allclose(actual, expected(encoder, sentence, "top"), atol=1e-6)
