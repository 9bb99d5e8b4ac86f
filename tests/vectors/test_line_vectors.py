import itertools

import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.text.chunks import Line
from elmo_tf.vectors.line_vectors import CarriedLines, PureLines, embed_sentences, fingerprint
from elmo_tf.vectors.sentence_vectors import SentenceVectors
from tests import models
from tests.vectors.sentences import NUM_LAYERS, SENTENCES, P, expected


@pytest.fixture(scope="module")
def encoder(small_encoder):
    return small_encoder


def as_lines(sentences, first=5):
    return [Line(first + row, b" ".join(s), s) for row, s in enumerate(sentences)]


def test_pure_lines_are_batched_by_length_and_keep_their_numbers(encoder):
    vectors = SentenceVectors(encoder, "all")
    lines = as_lines([*SENTENCES, [], [b"x"] * 40, []])
    computed = list(PureLines(vectors, batch_tokens=17)(lines))
    assert [[len(line.tokens) for line in batch] for batch, _ in computed] == [
        [0, 0],
        [40],
        [6, 4],
        [2, 1],
    ]
    found = {
        line.number: (line, values) for done in computed for line, values in zip(*done, strict=True)
    }
    assert [found[line.number][0] for line in lines] == lines
    for line, values in found.values():
        if line.tokens:
            right = expected(encoder, line.tokens, "all")
            np.testing.assert_allclose(values, right, atol=1e-6)
        else:
            assert values.shape == (NUM_LAYERS + 1, 0, 2 * P)


def test_carried_lines_go_on_from_line_to_line_and_read_blank_ones(encoder):
    sentences = [SENTENCES[0], [], SENTENCES[3], SENTENCES[1]]
    compute = CarriedLines(SentenceVectors(encoder, "top"))
    computed = list(compute(as_lines(sentences)))
    assert [line.number for batch, _ in computed for line in batch] == [5, 6, 7, 8]
    state = encoder.zero_state(1)
    for sentence, (_, [actual]) in zip(sentences, computed, strict=True):
        tokens = tf.reshape(tf.constant(sentence, tf.string), [1, -1])
        outputs, state = encoder.encode_tokens(tokens, [len(sentence)], state, return_state=True)
        np.testing.assert_allclose(actual, outputs[f"lstm_outputs{NUM_LAYERS}"][0], atol=1e-6)
    pure = expected(encoder, sentences[-1], "top")
    assert np.abs(actual - pure).max() > 1e-3


def test_a_packed_state_goes_on_bit_for_bit(encoder):
    vectors = SentenceVectors(encoder, "all")
    lines = as_lines(SENTENCES)
    unbroken = CarriedLines(vectors)
    right = [values for _, [values] in unbroken(lines)]
    for num_before in (0, 1, 3):
        first = CarriedLines(vectors)
        before = [values for _, [values] in first(lines[:num_before])]
        second = CarriedLines(vectors, first.state())
        after = [values for _, [values] in second(lines[num_before:])]
        for values, rightly in zip(itertools.chain(before, after), right, strict=True):
            np.testing.assert_array_equal(values, rightly)
        assert second.state() == unbroken.state()


def test_fingerprint_is_of_every_weight_and_of_the_options(encoder):
    same = models.small_encoder()
    assert fingerprint(same) == fingerprint(encoder)
    found = {fingerprint(same)}
    for weight in same.weights:
        before = weight.numpy()
        weight.assign(before + 1e-3)
        found.add(fingerprint(same))
        weight.assign(before)
    assert len(found) == len(same.weights) + 1
    other = models.small_encoder(models.small_config(cell_clip=None))
    for weight, value in zip(other.weights, same.get_weights(), strict=True):
        weight.assign(value)
    assert fingerprint(other) not in found


def test_embed_sentences_keeps_the_order(encoder):
    sentences = [[], *SENTENCES, ["a", "\udcff\udcfe", b"caf\xc3\xa9", "café"], [b"x"] * 40, []]
    for batch_tokens in (1, 17, 10_000):
        actual = elmo_tf.embed_sentences(encoder, sentences, "elmo", batch_tokens)
        assert len(actual) == len(sentences)
        for values, sentence in zip(actual, sentences, strict=True):
            assert values.shape == (len(sentence), 2 * P)
    as_bytes = [b"a", b"\xff\xfe", "café".encode(), "café".encode()]
    np.testing.assert_allclose(actual[5], expected(encoder, as_bytes, "elmo"), atol=1e-6)
    np.testing.assert_allclose(actual[1], expected(encoder, SENTENCES[0], "elmo"), atol=1e-6)
    assert embed_sentences(encoder, []) == []


def test_embed_sentences_splits_raw_text_at_white_space_where_no_tokenizer_is_known(encoder):
    assert encoder.tokenizer is None
    (raw,) = embed_sentences(encoder, ["the\tcat, "])
    (tokens,) = embed_sentences(encoder, [["the", "cat,"]])
    np.testing.assert_allclose(raw, tokens, atol=1e-6)
