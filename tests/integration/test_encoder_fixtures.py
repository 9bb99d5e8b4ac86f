"""`ElmoEncoder` against what bilm-tf's own graph computed, for every configuration there is."""

import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.model.encoder import ElmoEncoder
from tests.integration.zoo import (
    CONFIGURATIONS,
    check,
    padded,
    read_bilm_tf,
    read_case,
    top_of_both_directions,
)

# The same configurations run as graphs in test_export_fixtures.py.


def load(folder):
    return ElmoEncoder.from_weights(
        str(folder / "model/options.json"), str(folder / "model/lm_weights.hdf5")
    )


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def case(request, fixtures_dir):
    found = read_case(fixtures_dir, request.param)
    return load(found.folder), found


@pytest.mark.parametrize("batch", ["batch1", "batch2"])
def test_tokens(case, batch):
    encoder, found = case
    sentences = found.sentences[batch]
    outputs = encoder(padded(sentences), sequence_len=[len(s) for s in sentences])
    check(outputs, found, batch)


@pytest.mark.parametrize("batch", ["batch1", "batch2"])
def test_text(case, batch):
    encoder, found = case
    check(encoder(tf.constant([" ".join(s) for s in found.sentences[batch]])), found, batch)


@pytest.mark.parametrize("static_shapes", [False, True])
@pytest.mark.parametrize("batch", ["batch1", "batch2"])
def test_character_ids(case, batch, static_shapes):
    encoder, found = case
    sentences = found.sentences[batch]
    width = encoder.config.input.max_characters_per_token
    ids = elmo_tf.batch_to_ids(sentences, width)
    fed = found.expected[f"{batch}_char_ids"]
    for row, sentence in enumerate(sentences):
        np.testing.assert_array_equal(ids[row, : len(sentence)], fed[row, 1 : len(sentence) + 1])
    check(encoder.encode_ids(ids, static_shapes=static_shapes), found, batch)


def test_carried_state(case):
    encoder, found = case
    first, second = found.sentences["batch1"], found.sentences["batch2"]
    # The fixture's second batch continues rows 0..2 of the state that the first left behind.
    _, state = encoder.encode_tokens(padded(first), [len(s) for s in first], return_state=True)
    state = tf.nest.map_structure(lambda values: values[: len(second)], state)
    outputs = encoder.encode_tokens(padded(second), [len(s) for s in second], initial_state=state)
    check(outputs, found, "batch2", "carried")
    pure = encoder.encode_tokens(padded(second), [len(s) for s in second])
    difference = np.abs(pure["lstm_outputs1"] - outputs["lstm_outputs1"]).max()
    assert difference > 1e-3, "carrying the state changed nothing"


@pytest.fixture(scope="module")
def bilm_tf(fixtures_dir):
    return load(fixtures_dir / "bilm_tf"), *read_bilm_tf(fixtures_dir)


def test_bilm_tf_stateful_run_over_ten_batches(bilm_tf):
    encoder, files, expected = bilm_tf
    state = None
    for batch in range(len(files[0])):
        sentences = [file[batch].split() for file in files]
        outputs, state = encoder.encode_tokens(
            padded(sentences), [len(s) for s in sentences], state, return_state=True
        )
        for row, sentence in enumerate(sentences):
            actual = top_of_both_directions(outputs, row, len(sentence))
            np.testing.assert_allclose(actual, expected[row][batch], atol=1e-6)


def test_bilm_tf_stateless_matches_each_first_sentence_only(bilm_tf):
    encoder, files, expected = bilm_tf
    for row, file in enumerate(files):
        sentence = file[0].split()
        outputs = encoder(tf.constant([file[0]]))
        np.testing.assert_allclose(
            top_of_both_directions(outputs, 0, len(sentence)), expected[row][0], atol=1e-6
        )
        later = file[1].split()
        outputs = encoder(tf.constant([file[1]]))
        difference = np.abs(top_of_both_directions(outputs, 0, len(later)) - expected[row][1])
        assert difference.max() > 1e-4
