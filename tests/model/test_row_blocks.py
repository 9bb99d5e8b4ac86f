"""Large batches are computed in blocks of rows, with equal values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.config.model import SIZES
from elmo_tf.errors import InputError
from elmo_tf.model import row_blocks
from tests.export.small import CONFIG, difference, make_encoder

SENTENCES = [["a", "b", "c"], [], ["d"], ["e", "f", "g", "h", "i", "j", "k"], ["l", "m"], ["n"]]
TEXT = [" ".join(sentence) for sentence in SENTENCES]
LENGTHS = [len(sentence) for sentence in SENTENCES]
LIMIT = 12


@pytest.fixture(scope="module")
def encoder():
    return make_encoder()


def forms():
    ids = elmo_tf.batch_to_ids(SENTENCES, CONFIG.input.max_characters_per_token)
    return {
        "text": lambda encoder, **state: encoder(TEXT, **state),
        "tokens": lambda encoder, **state: encoder(SENTENCES, LENGTHS, **state),
        "ids": lambda encoder, **state: encoder(ids, **state),
    }


@pytest.fixture
def small_blocks(monkeypatch):
    """Limits blocks to 12 tokens; returns a list of the sizes of computed blocks."""
    computed = []
    original = row_blocks.batches_by_tokens

    def watched(*args, **kwargs):
        for block in original(*args, **kwargs):
            computed.append(len(block) * (max(block) + 2))
            yield block

    monkeypatch.setattr(row_blocks, "tokens_at_once", lambda _: LIMIT)
    monkeypatch.setattr(row_blocks, "batches_by_tokens", watched)
    return computed


@pytest.mark.parametrize("form", ["text", pytest.param("tokens", marks=pytest.mark.traced), "ids"])
def test_values_gradients_and_states(encoder, small_blocks, monkeypatch, form):
    call = forms()[form]
    start = tf.nest.map_structure(lambda part: part + 0.1, encoder.zero_state(len(SENTENCES)))
    weights = [variable.value for variable in encoder.trainable_variables]

    def results():
        with tf.GradientTape() as tape:
            outputs, state = call(encoder, initial_state=start, return_state=True)
            loss = tf.reduce_sum(outputs["elmo"] ** 2)
        gradients = [tf.convert_to_tensor(part) for part in tape.gradient(loss, weights)]
        return outputs, tf.nest.flatten(state), gradients

    outputs, state, gradients = results()
    pure = call(encoder)
    assert small_blocks == [10, 3, 9, 8] * 2, "rows of 3 and 0, of 1, of 7, of 2 and 1 tokens"
    monkeypatch.undo()
    expected, expected_state, expected_gradients = results()
    assert difference(outputs, expected) <= 1e-6
    assert difference(pure, call(encoder)) <= 1e-6
    for ours, theirs in zip(state + gradients, expected_state + expected_gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_lengths_are_checked_before_rows_are_cut(encoder, small_blocks):
    with pytest.raises(InputError, match="sequence_len must be from 0"):
        encoder(SENTENCES, [3, 0, 8, 7, 2, 1])
    with pytest.raises(InputError, match="one length for each row"):
        encoder(SENTENCES, [3, 0])
    assert small_blocks == []


@pytest.mark.traced
def test_small_batches_long_rows_and_graphs_are_one_pass(encoder, small_blocks):
    encoder(["a b", "c d e"])
    encoder([" ".join(TEXT * 3)])
    encoder([])
    outputs = tf.function(lambda: encoder(TEXT))()
    assert outputs["elmo"].shape[1] == max(LENGTHS)
    assert small_blocks == []


@pytest.mark.parametrize(("size", "most"), [("tiny", 9300), ("small", 2048), ("original", 2048)])
def test_blocks_follow_from_the_configuration(size, most):
    assert most <= row_blocks.tokens_at_once(SIZES[size]) < 1.1 * most
