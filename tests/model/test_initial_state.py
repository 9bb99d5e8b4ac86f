"""The mean final state equals that of training windows, independent of batches."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.model import initial_state
from elmo_tf.model.initial_state import mean_initial_state, repeat_state
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.scoring.evaluation import WindowScorer, evaluate_sentences, score_sentences
from elmo_tf.text.corpus import sentence_windows
from elmo_tf.text.vocabulary import Vocabulary
from tests.training import tiny

pytestmark = pytest.mark.traced  # many small batches through one model

SENTENCES = [tiny.sentence(k) for k in range(9)] + [[], [b"unknown", b"b1"], 9 * [b"d3"]]
VOCABULARY = Vocabulary([b"<S>", b"</S>", b"<UNK>", *tiny.WORDS])


@pytest.fixture(scope="module")
def model():
    model = ElmoLanguageModel(tiny.CONFIG, len(VOCABULARY), seed=5)
    for variable in model.language_model_variables:
        variable.assign(variable.value * 2)
    return model


def windows_end_states(model, state=None):
    """Final states of the language model, one sentence at a time: `[sentences, ...]`."""
    scorer = WindowScorer(model, state)
    states = []
    for sentence in filter(None, SENTENCES):
        (window,) = sentence_windows([sentence], VOCABULARY, 100)
        states.append(scorer(window, scorer.initial_state(1))[1])
    return tf.nest.map_structure(lambda *rows: np.concatenate(rows), *states)


@pytest.mark.parametrize("batch_tokens", [1, 17, 2048])
def test_mean_over_the_windows_of_training(model, batch_tokens, monkeypatch):
    monkeypatch.setattr(initial_state, "_BATCH_TOKENS", batch_tokens)
    start = mean_initial_state(model.encoder, iter(SENTENCES))
    assert start.num_sentences == len(SENTENCES) - 1
    expected = windows_end_states(model)
    for mean, states in zip(*map(tf.nest.flatten, (start.state, expected)), strict=True):
        assert mean.dtype == tf.float32
        np.testing.assert_allclose(mean, states.mean(axis=0, keepdims=True), rtol=1e-5, atol=1e-7)
        assert states.std(axis=0).max() > 1e-3  # the states differ


def test_a_scorer_starts_each_sentence_from_it(model):
    start = mean_initial_state(model.encoder, SENTENCES).state
    scorer, plain = WindowScorer(model, start), WindowScorer(model)
    for batch_size in (1, 5):
        scored = score_sentences(scorer, SENTENCES[:5], VOCABULARY, batch_size)
        for sentence, losses in zip(SENTENCES, scored, strict=False):
            (window,) = sentence_windows([sentence], VOCABULARY, 100)
            expected, _ = plain(window, start)
            np.testing.assert_allclose(losses, expected[:, 0], rtol=1e-4, atol=1e-6)
    sentences = [sentence for sentence in SENTENCES if sentence]
    warm = evaluate_sentences(scorer, sentences, VOCABULARY, 4)
    cold = evaluate_sentences(plain, sentences, VOCABULARY, 4)
    assert warm.num_tokens == cold.num_tokens
    assert abs(warm.forward_loss - cold.forward_loss) > 1e-4
    assert abs(warm.backward_loss - cold.backward_loss) > 1e-4


def test_repeated(model):
    start = mean_initial_state(model.encoder, SENTENCES).state
    for batch in (0, 3):
        for one, many in zip(
            *map(tf.nest.flatten, (start, repeat_state(start, batch))), strict=True
        ):
            np.testing.assert_array_equal(many, np.repeat(one, batch, axis=0))


def test_no_sentence(model):
    with pytest.raises(InputError, match="no sentence with a token"):
        mean_initial_state(model.encoder, [[], []])


def test_states_that_are_no_numbers(model):
    encoder = ElmoLanguageModel(tiny.CONFIG, len(VOCABULARY), seed=5).encoder
    encoder.bilm.forward_0.bias.assign(np.full(24, np.nan))
    with pytest.raises(InputError, match="states are not finite"):
        mean_initial_state(encoder, SENTENCES)
