import itertools

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.config import CharCnnConfig, ElmoConfig, LstmConfig
from elmo_tf.encoder import ElmoEncoder
from elmo_tf.errors import InputError
from elmo_tf.text.chunks import Line
from elmo_tf.vectors.line_vectors import CarriedLines, PureLines, SentenceVectors, fingerprint
from elmo_tf.vectors.vector_file import LAYERS

P, NUM_LAYERS = 7, 2
CONFIG = ElmoConfig(
    CharCnnConfig(
        embedding_dim=4, filters=((1, 3), (2, 5)), num_highway_layers=1, max_characters_per_token=11
    ),
    LstmConfig(dim=9, projection_dim=P, num_layers=NUM_LAYERS),
)
SENTENCES = [
    [b"the", b"cat", b"sat", b"on", b"the", b"mat"],
    [b"", b"a\0", b"\xff\xfe", b"a"],
    [b"</S>"],
    [b"cat", b"the"],
]


def make_encoder(seed=4):
    encoder = ElmoEncoder(CONFIG, seed=seed)
    encoder.scalar_mix.layer_weights.assign([0.3, -1.0, 2.0])
    encoder.scalar_mix.gamma.assign(1.7)
    return encoder


@pytest.fixture(scope="module")
def encoder():
    return make_encoder()


def expected(encoder, sentence, layers):
    """From the encoder's own outputs, a sentence at a time."""
    outputs = encoder(tf.constant([sentence]), sequence_len=[len(sentence)])
    outputs = {name: values.numpy()[0] for name, values in outputs.items()}
    word = outputs["word_emb"]
    stack = np.stack(
        [
            np.concatenate([word, word], axis=-1),
            *(outputs[f"lstm_outputs{n}"] for n in range(1, NUM_LAYERS + 1)),
        ]
    )
    return {
        "all": stack,
        "elmo": outputs["elmo"],
        "top": stack[-1],
        "average": np.mean(stack, axis=0),
        "word": word,
    }[layers]


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
    broken = make_encoder()
    for weight in broken.bilm.weights:
        weight.assign(np.full(weight.shape, np.nan))
    for word, right in zip(
        SentenceVectors(broken, "word")(SENTENCES),
        SentenceVectors(encoder, "word")(SENTENCES),
        strict=True,
    ):
        np.testing.assert_array_equal(word, right)


def test_one_trace_for_every_batch(encoder):
    vectors = SentenceVectors(encoder, "average")
    for batch in (SENTENCES, SENTENCES[2:], [[]], SENTENCES[:1] * 5):
        vectors(batch)
    assert vectors._pure.experimental_get_tracing_count() == 1


def test_unknown_layers():
    with pytest.raises(InputError, match="layers must be one of 'all', 'elmo', .*, got 'last'"):
        SentenceVectors(make_encoder(), "last")


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
    same = make_encoder()
    assert fingerprint(same) == fingerprint(encoder)
    found = {fingerprint(same)}
    for weight in same.weights:
        before = weight.numpy()
        weight.assign(before + 1e-3)
        found.add(fingerprint(same))
        weight.assign(before)
    assert len(found) == len(same.weights) + 1
    lstm = LstmConfig(dim=9, projection_dim=P, num_layers=NUM_LAYERS, cell_clip=None)
    other = ElmoEncoder(ElmoConfig(CONFIG.char_cnn, lstm))
    for weight, value in zip(other.weights, same.get_weights(), strict=True):
        weight.assign(value)
    assert fingerprint(other) not in found
