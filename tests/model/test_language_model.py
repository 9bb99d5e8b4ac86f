"""The language model: both directions, padding, state, full and sampled losses."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers.dropout import RowsSeed
from elmo_tf.model.language_model import ElmoLanguageModel, Negatives, WindowTensors
from tests.training.tiny import CONFIG

BATCH, STEPS, SIZE, WORDS = 3, 5, 29, 6
LENGTHS = [5, 2, 0]


@pytest.fixture(scope="module")
def model():
    return ElmoLanguageModel(CONFIG, SIZE, dropout=0.5, seed=3)


@pytest.fixture(scope="module")
def window():
    rng = np.random.default_rng(0)
    return WindowTensors(
        tf.constant(rng.integers(1, 257, (WORDS, 7)), tf.int32),
        tf.constant(rng.integers(0, WORDS, (2, BATCH, STEPS)), tf.int32),
        tf.constant(rng.integers(0, SIZE, (2, BATCH, STEPS)), tf.int32),
        tf.constant(LENGTHS),
    )


@pytest.fixture(scope="module")
def state(model):
    rng = np.random.default_rng(1)
    return tf.nest.map_structure(
        lambda tensor: tf.constant(rng.normal(size=tensor.shape), tf.float32),
        model.zero_state(BATCH),
    )


def expected_losses(model, window, state):
    """Computed from the outputs of each direction's LSTMs and the softmax's weights."""
    embeddings = model.encoder.char_cnn(window.token_ids).numpy()
    kernel, bias = (weight.numpy() for weight in (model.softmax.kernel, model.softmax.bias))
    losses = np.zeros((2, BATCH, STEPS))
    for way, direction in enumerate(("forward", "backward")):
        inputs = tf.constant(embeddings[window.token_index[way]])
        layers, _ = model.encoder.bilm.run_direction(direction, inputs, getattr(state, direction))
        logits = (layers[-1].numpy() @ kernel.T + bias).astype(np.float64)
        for row, length in enumerate(LENGTHS):
            for step in range(length):
                scores = logits[row, step]
                target = window.targets[way, row, step]
                losses[way, row, step] = np.log(np.exp(scores).sum()) - scores[target]
    return losses


def test_losses_are_zero_at_padding_and_exact_elsewhere(model, window, state):
    expected = expected_losses(model, window, state)
    np.testing.assert_allclose(model(window, state)[0], expected, rtol=1e-5, atol=1e-6)


def test_state_stops_at_the_length_of_each_row(model, window, state):
    _, after = model(window, state)
    short = window._replace(
        token_index=window.token_index[:, :, :2],
        targets=window.targets[:, :, :2],
        lengths=tf.constant([2, 2, 0]),
    )
    _, after_two = model(short, state)
    for end, two, begin in zip(
        *(tf.nest.flatten(each) for each in (after, after_two, state)), strict=True
    ):
        np.testing.assert_allclose(end[1], two[1], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(end[2], begin[2])
        assert not np.allclose(end[0], two[0])


def test_a_window_in_two_parts_gives_the_same(model, window, state):
    whole, end = model(window._replace(lengths=tf.fill([BATCH], STEPS)), state)

    def part(begin, stop):
        return window._replace(
            token_index=window.token_index[:, :, begin:stop],
            targets=window.targets[:, :, begin:stop],
            lengths=tf.fill([BATCH], stop - begin),
        )

    first, between = model(part(0, 3), state)
    second, last = model(part(3, STEPS), between)
    np.testing.assert_allclose(tf.concat([first, second], axis=2), whole, rtol=1e-5)
    for one, two in zip(tf.nest.flatten(last), tf.nest.flatten(end), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


def test_sampled_losses_differ_and_all_negatives_but_one_nearly_agree(model, window, state):
    """If every class is drawn with certainty, the sampled softmax equals the full one."""
    full, _ = model(window, state)
    every = Negatives(tf.range(SIZE), tf.constant(10**9))
    sampled, _ = model(window, state, every)
    np.testing.assert_allclose(sampled, full, rtol=1e-4, atol=1e-5)
    few, _ = model(window, state, Negatives(tf.constant([3, 8]), tf.constant(2)))
    assert not np.allclose(few, full)


def test_dropout_needs_training_and_follows_its_seed(model, window, state):
    window = window._replace(lengths=tf.fill([BATCH], STEPS))
    plain, _ = model(window, state)
    np.testing.assert_array_equal(model(window, state)[0], plain)
    dropped = [
        model(window, state, training=True, dropout_seed=tf.constant(seed))[0]
        for seed in ([1, 2], [1, 2], [2, 2])
    ]
    np.testing.assert_array_equal(dropped[0], dropped[1])
    assert not np.allclose(dropped[0], dropped[2])
    assert not np.allclose(dropped[0], plain)
    with pytest.raises(ValueError, match="dropout_seed"):
        model(window, state, training=True)


def test_some_rows_start_from_zeros_in_training_and_no_others(model, window, state):
    window = window._replace(lengths=tf.fill([BATCH], STEPS))
    seed = tf.constant([5, 6])
    plain = ElmoLanguageModel(CONFIG, SIZE, seed=3)
    resetting = ElmoLanguageModel(CONFIG, SIZE, seed=3, state_reset_rate=0.5)
    zeros = plain.zero_state(BATCH)
    goes_on, _ = plain(window, state, training=True, dropout_seed=seed)
    anew, _ = plain(window, zeros, training=True, dropout_seed=seed)
    kinds = set()
    for number in range(8):
        seed = tf.constant([5, number])
        losses, _ = resetting(window, state, training=True, dropout_seed=seed)
        for row in range(BATCH):
            is_anew = np.allclose(losses[0, row], anew[0, row], rtol=1e-5)
            right = anew if is_anew else goes_on
            np.testing.assert_allclose(losses[:, row], right[:, row], rtol=1e-5)
            kinds.add(is_anew)
        # A row is reset in the same way on another device.
        part = window._replace(
            token_index=window.token_index[:, 1:],
            targets=window.targets[:, 1:],
            lengths=window.lengths[1:],
        )
        rows = RowsSeed(seed, tf.constant(1), tf.constant(BATCH))
        part_state = tf.nest.map_structure(lambda values: values[1:], state)
        part_losses, _ = resetting(part, part_state, training=True, dropout_seed=rows)
        np.testing.assert_allclose(part_losses, losses[:, 1:], rtol=1e-5)
    assert kinds == {True, False}
    np.testing.assert_allclose(resetting(window, state)[0], plain(window, state)[0], rtol=1e-6)


def test_everything_but_the_mix_is_trained(model):
    trained = {id(variable) for variable in model.language_model_variables}
    mix = {id(variable) for variable in model.encoder.scalar_mix.variables}
    assert trained | mix == {id(variable) for variable in model.variables}
    assert not trained & mix
