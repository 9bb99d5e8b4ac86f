"""The exported SavedModel against bilm-tf's own graph, for every configuration."""

import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf.export import saved_model
from elmo_tf.model.loading import load_encoder
from elmo_tf.model.variables import named_variables
from tests.export.small import difference
from tests.integration.zoo import (
    CONFIGURATIONS,
    check,
    padded,
    read_bilm_tf,
    read_case,
    top_of_both_directions,
)


def exported(encoder, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("export") / "exported")
    saved_model.export(encoder, path)
    return path, tf.saved_model.load(path)


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def case(request, fixtures_dir, tmp_path_factory):
    found = read_case(fixtures_dir, request.param)
    encoder = load_encoder(found.folder / "model")
    return found, encoder, *exported(encoder, tmp_path_factory)


@pytest.mark.parametrize("batch", ["batch1", "batch2"])
def test_every_signature(case, batch):
    found, encoder, _, model = case
    sentences = found.sentences[batch]
    lengths = tf.constant([len(sentence) for sentence in sentences])
    text = tf.constant([" ".join(sentence) for sentence in sentences])
    tokens = tf.constant(padded(sentences))
    ids = tf.constant(
        elmo_tf.batch_to_ids(sentences, encoder.config.input.max_characters_per_token)
    )
    signatures = model.signatures
    from_text = signatures["default"](text=text)
    from_tokens = signatures["tokens"](tokens=tokens, sequence_len=lengths)
    from_ids = signatures["char_ids"](char_ids=ids)
    elmo = signatures["elmo"](text=text)

    for outputs in (from_text, from_tokens, from_ids):
        check(outputs, found, batch)
    assert difference(from_text, encoder(text)) <= 1e-6
    assert difference(from_tokens, from_text) == 0.0
    assert difference(from_ids, from_text) <= 1e-6
    assert difference(elmo, {name: from_text[name] for name in elmo}) == 0.0
    check_mix(found, from_text, batch)


def check_mix(found, outputs, batch):
    """The initial scalar mix is the mean of the layers; `default` is its mean over tokens."""
    for row, sentence in enumerate(found.sentences[batch]):
        mean = found.expected[f"{batch}/{row}"].mean(axis=0)
        actual = outputs["elmo"][row, : len(sentence)]
        np.testing.assert_allclose(actual, mean, rtol=0, atol=1e-5)
        np.testing.assert_allclose(outputs["default"][row], mean.mean(axis=0), rtol=0, atol=1e-5)


def test_the_export_gives_its_encoder_back(case):
    _, encoder, path, _ = case
    again = load_encoder(path)
    assert again.config == encoder.config
    for name, variable in named_variables(encoder).items():
        np.testing.assert_array_equal(named_variables(again)[name], variable, err_msg=name)


def test_bilm_tf(fixtures_dir, tmp_path_factory):
    """A stateless model matches only the first batch of a run that carries its state over."""
    files, expected = read_bilm_tf(fixtures_dir)
    encoder = load_encoder(fixtures_dir / "bilm_tf/model")
    _, model = exported(encoder, tmp_path_factory)
    for batch in range(2):
        outputs = model(tf.constant([sentences[batch] for sentences in files]))
        for row, sentences in enumerate(files):
            top = top_of_both_directions(outputs, row, len(sentences[batch].split()))
            distance = np.abs(top - expected[row][batch]).max()
            assert (distance <= 1e-6) == (batch == 0)
