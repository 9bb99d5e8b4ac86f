"""`ElmoEncoder` against what bilm-tf's own graph computed, for every configuration there is."""

import json

import h5py
import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.encoder import ElmoEncoder
from tests.integration.zoo import CONFIGURATIONS, TOLERANCE, padded


def load(folder):
    return ElmoEncoder.from_weights(
        str(folder / "model/options.json"), str(folder / "model/lm_weights.hdf5")
    )


def layers_of(outputs, row, length):
    """[num_layers + 1, length, 2 * P], as the fixture has them; past the length must be zeros."""
    word = outputs["word_emb"].numpy()
    layers = [np.concatenate([word, word], axis=-1)]
    while f"lstm_outputs{len(layers)}" in outputs:
        layers.append(outputs[f"lstm_outputs{len(layers)}"].numpy())
    stacked = np.stack(layers)[:, row]
    assert not stacked[:, length:].any()
    return stacked[:, :length]


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def case(request, fixtures_dir):
    folder = fixtures_dir / "config_zoo" / request.param
    sentences = json.loads((fixtures_dir / "config_zoo/sentences.json").read_text())
    with h5py.File(folder / "expected.hdf5") as file:
        expected = {}
        file.visititems(
            lambda name, item: (
                expected.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return load(folder), sentences, expected


def check(outputs, sentences, expected, group):
    for row, sentence in enumerate(sentences):
        actual = layers_of(outputs, row, len(sentence))
        np.testing.assert_allclose(actual, expected[f"{group}/{row}"], atol=TOLERANCE)


@pytest.mark.parametrize("batch", ["batch1", "batch2"])
def test_tokens(case, batch):
    encoder, sentences, expected = case
    outputs = encoder(padded(sentences[batch]), sequence_len=[len(s) for s in sentences[batch]])
    check(outputs, sentences[batch], expected, batch)


@pytest.mark.parametrize("batch", ["batch1", "batch2"])
def test_text(case, batch):
    encoder, sentences, expected = case
    outputs = encoder(tf.constant([" ".join(s) for s in sentences[batch]]))
    check(outputs, sentences[batch], expected, batch)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("batch", ["batch1", "batch2"])
def test_character_ids(case, batch, dense):
    encoder, sentences, expected = case
    width = encoder.config.char_cnn.max_characters_per_token
    ids = elmo_tf.batch_to_ids(sentences[batch], width)
    fed = expected[f"{batch}_char_ids"]
    for row, sentence in enumerate(sentences[batch]):
        np.testing.assert_array_equal(ids[row, : len(sentence)], fed[row, 1 : len(sentence) + 1])
    check(encoder.encode_character_ids(ids, dense=dense), sentences[batch], expected, batch)


def test_carried_state(case):
    encoder, sentences, expected = case
    first, second = sentences["batch1"], sentences["batch2"]
    # The fixture's second batch continues rows 0..2 of the state that the first left behind.
    _, state = encoder.encode_tokens(padded(first), [len(s) for s in first], return_state=True)
    state = tf.nest.map_structure(lambda values: values[: len(second)], state)
    outputs = encoder.encode_tokens(padded(second), [len(s) for s in second], initial_state=state)
    check(outputs, second, expected, "carried")
    pure = encoder.encode_tokens(padded(second), [len(s) for s in second])
    difference = np.abs(pure["lstm_outputs1"] - outputs["lstm_outputs1"]).max()
    assert difference > 1e-3, "carrying the state changed nothing"


@pytest.fixture(scope="module")
def bilm_tf(fixtures_dir):
    folder = fixtures_dir / "bilm_tf"
    files = json.loads((folder / "lm_embeddings_sentences.json").read_text())
    expected = []
    for number in range(len(files)):
        with h5py.File(folder / f"lm_embeddings_{number}.hdf5") as file:
            expected.append([file[str(i)][()] for i in range(len(files[number]))])
    return load(folder), files, expected


def directions(outputs, row, length):
    """The top layer of one row as the fixture has it: [2 directions, length, P]."""
    top = outputs["lstm_outputs2"].numpy()[row, :length]
    return np.stack(np.split(top, 2, axis=-1))


def test_bilm_tf_stateful_run_over_ten_batches(bilm_tf):
    encoder, files, expected = bilm_tf
    state = None
    for batch in range(len(files[0])):
        sentences = [file[batch].split() for file in files]
        outputs, state = encoder.encode_tokens(
            padded(sentences), [len(s) for s in sentences], state, return_state=True
        )
        for row, sentence in enumerate(sentences):
            actual = directions(outputs, row, len(sentence))
            np.testing.assert_allclose(actual, expected[row][batch], atol=1e-6)


def test_bilm_tf_stateless_matches_each_first_sentence_only(bilm_tf):
    encoder, files, expected = bilm_tf
    for row, file in enumerate(files):
        sentence = file[0].split()
        outputs = encoder(tf.constant([file[0]]))
        np.testing.assert_allclose(
            directions(outputs, 0, len(sentence)), expected[row][0], atol=1e-6
        )
        later = file[1].split()
        outputs = encoder(tf.constant([file[1]]))
        difference = np.abs(directions(outputs, 0, len(later)) - expected[row][1])
        assert difference.max() > 1e-4
