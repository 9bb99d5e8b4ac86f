"""`ElmoEncoder` apart from its values: shapes, padding, purity, errors, one trace."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.errors import InputError
from elmo_tf.model.encoder import ElmoEncoder
from tests import models

pytestmark = pytest.mark.traced

CONFIG = models.small_config(filters=((1, 4), (3, 7)), cell_clip=2.0, projection_clip=1.5)
P = CONFIG.lstm.projection_dim
SENTENCES = [["The", "cat", "sat", "on", "a", "très-long-mat"], ["one"], [], ["", "<S>", "b\xa0c"]]
WIDTH = 6


def tokens_of(sentences, width):
    return tf.constant([[t.encode() for t in s] + [b"pad"] * (width - len(s)) for s in sentences])


def lengths_of(sentences):
    return [len(s) for s in sentences]


@pytest.fixture(scope="module")
def encoder():
    return models.small_encoder(CONFIG, seed=7, weights_scale=0.6)


@pytest.fixture(scope="module")
def outputs(encoder):
    return encoder(tokens_of(SENTENCES, WIDTH), sequence_len=lengths_of(SENTENCES))


def test_names_shapes_and_types(outputs):
    shapes = {name: (tuple(value.shape), value.dtype.name) for name, value in outputs.items()}
    assert shapes == {
        "word_emb": ((4, WIDTH, P), "float32"),
        "lstm_outputs1": ((4, WIDTH, 2 * P), "float32"),
        "lstm_outputs2": ((4, WIDTH, 2 * P), "float32"),
        "elmo": ((4, WIDTH, 2 * P), "float32"),
        "default": ((4, 2 * P), "float32"),
        "sequence_len": ((4,), "int32"),
    }
    assert list(outputs["sequence_len"].numpy()) == [6, 1, 0, 3]


def test_elmo_is_the_mix_and_default_its_mean_over_real_tokens(encoder, outputs):
    weights, gamma = (variable.numpy() for variable in encoder.scalar_mix.weights)
    shares = np.exp(weights) / np.exp(weights).sum()
    word = outputs["word_emb"].numpy()
    layers = [np.concatenate([word, word], -1)]
    layers += [outputs[f"lstm_outputs{n}"].numpy() for n in (1, 2)]
    expected = gamma * sum(s * layer for s, layer in zip(shares, layers, strict=True))
    np.testing.assert_allclose(outputs["elmo"], expected, atol=1e-6)
    for row, length in enumerate(lengths_of(SENTENCES)):
        mean = expected[row, :length].mean(0) if length else np.zeros(2 * P)
        np.testing.assert_allclose(outputs["default"][row], mean, atol=1e-6)


def test_padding_is_zero_in_every_output_and_real_tokens_are_not(outputs):
    for name in ("word_emb", "lstm_outputs1", "lstm_outputs2", "elmo"):
        for row, length in enumerate(lengths_of(SENTENCES)):
            values = outputs[name][row].numpy()
            assert not values[length:].any()
            assert (values[:length] != 0).any(axis=-1).all(), "a real token, even '', has a vector"


@pytest.mark.parametrize("static_shapes", [False, True])
def test_character_ids_give_the_same(encoder, outputs, static_shapes):
    ids = elmo_tf.batch_to_ids(SENTENCES, 11)
    by_ids = encoder.encode_ids(ids, static_shapes=static_shapes)
    for name, expected in outputs.items():
        np.testing.assert_allclose(by_ids[name], expected, atol=1e-6, err_msg=name)


def test_static_shapes_compile_and_give_the_same(encoder):
    """XLA refuses shapes that depend on values."""
    ids = tf.constant(elmo_tf.batch_to_ids(SENTENCES, 11))
    lengths = tf.constant(lengths_of(SENTENCES))

    @tf.function(jit_compile=True, autograph=False)
    def compiled(ids):
        return encoder.encode_ids(ids, lengths, return_state=True, static_shapes=True)

    found, expected = compiled(ids), encoder.encode_ids(ids, lengths, return_state=True)
    for one, two in zip(*map(tf.nest.flatten, (found, expected)), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-6)


def test_text_gives_the_same(encoder):
    text = ["  The cat\tsat\r\non a  très-long-mat ", "one", "", " \t\n"]
    sentences = [line.split() for line in text]
    by_text = encoder(tf.constant(text))
    by_tokens = encoder(tokens_of(sentences, WIDTH), sequence_len=lengths_of(sentences))
    for name, expected in by_tokens.items():
        np.testing.assert_allclose(by_text[name], expected, atol=1e-6, err_msg=name)


def test_characters_without_lengths_end_at_the_last_token_that_is_not_zeros(encoder):
    ids = elmo_tf.batch_to_ids([["a", "b", "c"], ["d"]], 11)
    ids[0, 1] = 0  # a gap does not end the row
    assert list(encoder(ids)["sequence_len"].numpy()) == [3, 1]


def test_other_rows_their_order_and_the_width_do_not_move_a_row(encoder, outputs):
    order = [3, 0, 2, 1]
    rows = [SENTENCES[i] for i in order] + [["further", "row"] * 8]
    moved = encoder(tokens_of(rows, 19), sequence_len=lengths_of(rows))
    for name in ("word_emb", "lstm_outputs2", "elmo", "default"):
        for new, old in enumerate(order):
            values = moved[name][new]
            values = values[:WIDTH] if name != "default" else values
            np.testing.assert_allclose(values, outputs[name][old], atol=1e-5, err_msg=name)
    for row, sentence in enumerate(SENTENCES):
        alone = encoder(tokens_of([sentence], len(sentence)), sequence_len=[len(sentence)])
        np.testing.assert_allclose(
            alone["elmo"][0], outputs["elmo"][row, : len(sentence)], atol=1e-5
        )


def test_the_same_input_gives_the_same_bits(encoder, outputs):
    again = encoder(tokens_of(SENTENCES, WIDTH), sequence_len=lengths_of(SENTENCES))
    for name, expected in outputs.items():
        np.testing.assert_array_equal(again[name], expected)


WRITE_DIGEST = """
import hashlib, sys, tensorflow as tf
from elmo_tf.config.model import ElmoConfig
from elmo_tf.model.encoder import ElmoEncoder
encoder = ElmoEncoder(ElmoConfig.from_size("tiny"), seed=5)
elmo = encoder(tf.constant(["a b c d e f g", "h i"] * 40))["elmo"]
with open(sys.argv[-1], "a") as file:
    print(hashlib.sha256(elmo.numpy().tobytes()).hexdigest(), file=file)
"""


def test_each_process_gives_the_same_bits(project_dir, tmp_path, monkeypatch):
    """This one and a new one."""
    digests = tmp_path / "digests"
    command = [sys.executable, "-c", WRITE_DIGEST, str(digests)]
    subprocess.run(command, cwd=project_dir, check=True)
    monkeypatch.setattr(sys, "argv", command)
    exec(WRITE_DIGEST, {})
    one, two = digests.read_text().splitlines()
    assert one == two


@pytest.mark.parametrize("sentences", [[], [[]], [[], [], []]])
def test_empty_batches_and_rows(encoder, sentences):
    tokens = tf.zeros([len(sentences), 0], tf.string)
    for width in (0, 3):
        padded = tf.pad(tokens, [[0, 0], [0, width]])
        outputs = encoder(padded, sequence_len=tf.zeros([len(sentences)], tf.int32))
        assert outputs["elmo"].shape == (len(sentences), width, 2 * P)
        assert outputs["default"].shape == (len(sentences), 2 * P)
        for name, values in outputs.items():
            assert not values.numpy().any(), name  # NaN would count as nonzero
    outputs = encoder(tf.constant([" "] * len(sentences), shape=[len(sentences)], dtype=tf.string))
    assert not outputs["default"].numpy().any()
    ids = elmo_tf.batch_to_ids(sentences, 11)
    assert not encoder(ids)["default"].numpy().any()


@pytest.mark.parametrize("lengths", [[1, -1], [1, 4], [1], [1, 1, 1]])
def test_lengths_outside_the_row_are_an_error(encoder, lengths):
    tokens = tf.constant([["a", "b", "c"]] * 2)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="sequence_len must"):
        encoder(tokens, sequence_len=lengths)


def test_long_lengths_are_not_wrapped_into_the_range_of_int32(encoder):
    tokens = tf.constant([["a", "b", "c"]] * 2)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="sequence_len must"):
        encoder(tokens, sequence_len=np.array([2**32 + 1, 2], np.int64))


@pytest.mark.parametrize(
    "inputs,sequence_len,message",
    [
        (["a b"], [2], "sequence_len goes with tokens"),
        ([["a", "b"]], None, "need sequence_len"),
        (tf.constant([[["a"]]]), None, r"got string of shape \(1, 1, 1\)"),
        (np.array([[1.0]]), None, "got float64 of shape"),
        (np.zeros([1, 2, 50], np.int32), None, r"ids must be \[batch, max_tokens, 11\] for"),
    ],
)
def test_wrong_inputs_are_named(encoder, inputs, sequence_len, message):
    with pytest.raises(ValueError, match=message):
        encoder(inputs, sequence_len=sequence_len)


def test_one_trace_serves_every_shape():
    encoder = ElmoEncoder(CONFIG, seed=7)
    for sentences in ([["a"]], SENTENCES, [], [["x"] * 30] * 2):
        width = max(map(len, sentences), default=0)
        tokens = tokens_of(sentences, width) if sentences else tf.zeros([0, 0], tf.string)
        encoder(tokens, sequence_len=tf.constant(lengths_of(sentences), tf.int32))
    assert encoder.traced.counts == [1]


def test_state_makes_two_calls_one_sentence(encoder):
    """Continuing differs from a new start; the zero state does not."""
    first, second = tf.constant(["a b c"]), tf.constant(["d e"])
    _, state = encoder.encode_text(first, return_state=True)
    continued = encoder.encode_text(second, initial_state=state)
    anew = encoder.encode_text(second)
    from_zero = encoder.encode_text(second, initial_state=encoder.zero_state(1))
    np.testing.assert_array_equal(anew["elmo"], from_zero["elmo"])
    assert np.abs(continued["elmo"] - anew["elmo"]).max() > 1e-4


def test_initial_weights_follow_the_seed():
    first, second, other = (ElmoEncoder(CONFIG, seed=seed) for seed in (1, 1, 2))
    for a, b in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    kernels = [encoder.bilm.backward_1.recurrent_kernel.numpy() for encoder in (first, other)]
    assert not np.array_equal(*kernels)
    layers = [first.bilm.forward_0, first.bilm.forward_1, first.bilm.backward_0]
    kernels = {layer.recurrent_kernel.numpy().tobytes() for layer in layers}
    assert len(kernels) == 3, "layers must not start as copies of each other"


def test_in_a_functional_model(encoder):
    tokens = keras.Input([None], dtype="string")
    lengths = keras.Input([], dtype="int32")
    elmo = encoder(tokens, sequence_len=lengths)["elmo"]
    model = keras.Model([tokens, lengths], elmo)
    assert elmo.shape == (None, None, 2 * P)
    values = model([tokens_of(SENTENCES, WIDTH), tf.constant(lengths_of(SENTENCES))])
    direct = encoder(tokens_of(SENTENCES, WIDTH), sequence_len=lengths_of(SENTENCES))["elmo"]
    np.testing.assert_allclose(values, direct, atol=1e-6)


def test_python_text_that_tensorflow_refuses_is_taken_byte_by_byte(encoder):
    """A str decoded with surrogateescape, in each form, and token lists of different lengths."""
    text = "a b\udcffc"
    expected = encoder(tf.constant([b"a b\xffc"]))["elmo"]
    for outputs in (
        encoder([text]),
        encoder.encode_text([text]),
        encoder([text.split()], sequence_len=[2]),
        encoder.encode_tokens([text.split()], [2]),
    ):
        np.testing.assert_array_equal(outputs["elmo"], expected)
    uneven = encoder([text.split(), ["x"]], sequence_len=[2, 1])
    np.testing.assert_allclose(uneven["elmo"][0], expected[0], atol=1e-6)


def test_ids_beyond_int32_are_not_some_other_character(encoder):
    ids = elmo_tf.batch_to_ids([["a"]], 11).astype(np.int64)
    ids[0, 0, 1] += 2**32  # would wrap around to the same character
    expected = r"ids\[0, 0, 1\] must be from 0 to 261 \(char_ids, .*\), got 2147483647"
    with pytest.raises(InputError, match=expected):
        encoder(ids)


@pytest.mark.parametrize("wrong", [-1, 262])
def test_ids_of_no_character_are_refused_and_in_padding_are_not_read(encoder, outputs, wrong):
    ids = elmo_tf.batch_to_ids(SENTENCES, 11)
    ids[1, 1:] = wrong
    by_ids = encoder(ids, sequence_len=lengths_of(SENTENCES))
    np.testing.assert_allclose(by_ids["elmo"], outputs["elmo"], atol=1e-6)
    expected = rf"ElmoEncoder: ids\[1, 1, 0\] must be from 0 to 261 \(char_ids, .* got {wrong}"
    with pytest.raises(InputError, match=expected):
        encoder(ids, sequence_len=[6, 2, 0, 3])
    with pytest.raises(InputError, match=expected):  # nonzero ids are not padding
        encoder(ids)
    in_graph = tf.function(lambda ids: encoder.encode_ids(ids)["elmo"], autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"= {wrong} is not in \[0, 262\)"):
        in_graph(ids)
