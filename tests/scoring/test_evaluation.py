"""Exact losses of text: every token once, independent of the batch size, in bounded memory."""

import math

import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.scoring import evaluation
from elmo_tf.scoring.evaluation import (
    Evaluation,
    WindowScorer,
    evaluate_sentences,
    evaluate_streams,
)
from elmo_tf.text import corpus
from elmo_tf.text.sentences import SentenceReader
from elmo_tf.text.tokens import make_tokenizer
from elmo_tf.text.vocabulary import Vocabulary
from tests.training import tiny

pytestmark = pytest.mark.traced  # many small batches through one model

SENTENCES = [tiny.sentence(k) for k in range(9)] + [[b"unknown", b"b1"], [b"c2"], 9 * [b"d3"]]
NUM_TOKENS = sum(len(sentence) + 1 for sentence in SENTENCES)


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary([b"<S>", b"</S>", b"<UNK>", *tiny.WORDS])


@pytest.fixture(scope="module")
def scorer(vocabulary):
    model = ElmoLanguageModel(tiny.CONFIG, len(vocabulary), seed=5)
    for variable in model.language_model_variables:  # losses that differ from token to token
        variable.assign(variable.value * 2)
    return WindowScorer(model)


@pytest.fixture(scope="module")
def one_by_one(scorer, vocabulary):
    """Losses of each sentence, computed alone in one window."""
    losses = []
    for sentence in SENTENCES:
        (window,) = corpus.sentence_windows([sentence], vocabulary, 100)
        scored, _ = scorer(window, scorer.initial_state(1))
        losses.append(scored[:, 0])
    return losses


@pytest.mark.parametrize("batch_size", [1, 2, 5, 100])
@pytest.mark.parametrize("most_predictions", [4096, 12])
def test_each_sentence_by_itself_in_order(
    scorer, vocabulary, one_by_one, batch_size, most_predictions, monkeypatch
):
    """This includes sentences of several windows."""
    monkeypatch.setattr(evaluation, "_MOST_PREDICTIONS", most_predictions)
    told = []
    scored = evaluation.score_sentences(scorer, SENTENCES, vocabulary, batch_size, told.append)
    for ours, expected in zip(scored, one_by_one, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)
    assert sum(told) == NUM_TOKENS
    assert (len(told) > 1) == (batch_size < 100)


@pytest.mark.parametrize("batch_size", [1, 4, 50])
def test_evaluation_is_the_mean_for_every_batch_size(scorer, vocabulary, one_by_one, batch_size):
    result = evaluate_sentences(scorer, SENTENCES, vocabulary, batch_size)
    forward, backward = np.concatenate(one_by_one, axis=1).mean(axis=1, dtype=np.float64)
    assert result.num_tokens == NUM_TOKENS
    np.testing.assert_allclose(result.forward_loss, forward, rtol=1e-6)
    np.testing.assert_allclose(result.backward_loss, backward, rtol=1e-6)
    np.testing.assert_allclose(result.forward_perplexity, np.exp(forward), rtol=1e-6)
    np.testing.assert_allclose(result.backward_perplexity, np.exp(backward), rtol=1e-6)
    np.testing.assert_allclose(result.perplexity, np.exp((forward + backward) / 2), rtol=1e-6)


def stream_of(folder, vocabulary, batch_size, unroll_steps):
    reader = SentenceReader([str(folder / "text")], make_tokenizer(), passes=1)
    return corpus.WindowStream(reader, vocabulary, batch_size, unroll_steps, keep_incomplete=True)


@pytest.mark.parametrize(("batch_size", "unroll_steps"), [(1, 1), (1, 7), (2, 4), (5, 3), (40, 2)])
def test_streams_score_every_token_once_with_the_state_carried(
    scorer, vocabulary, tmp_path, batch_size, unroll_steps
):
    """Compares with each row's text as one long sequence."""
    (tmp_path / "text").write_bytes(b"\n".join(b" ".join(sentence) for sentence in SENTENCES))
    told = []
    stream = stream_of(tmp_path, vocabulary, batch_size, unroll_steps)
    result = evaluate_streams(scorer, stream, told.append)
    assert result.num_tokens == sum(told) == NUM_TOKENS

    windows = list(
        iter(stream_of(tmp_path, vocabulary, batch_size, unroll_steps).next_window, None)
    )
    sums = np.zeros(2)
    for row in range(batch_size):
        tokens, index, targets = [], [], []
        for window in windows:
            length = window.lengths[row]
            index.append(window.token_index[:, row, :length] + len(tokens))
            targets.append(window.targets[:, row, :length])
            tokens += window.tokens
        index, targets = (np.concatenate(part, axis=1)[:, None] for part in (index, targets))
        if index.size:
            lengths = np.array([index.shape[2]], np.int32)
            long = corpus.Window(tokens, index.astype(np.int32), targets, lengths)
            sums += scorer(long, scorer.initial_state(1))[0].sum(axis=(1, 2))
    expected = sums / NUM_TOKENS
    np.testing.assert_allclose([result.forward_loss, result.backward_loss], expected, rtol=1e-5)


def test_one_trace_serves_everything(scorer, vocabulary):
    for sentences in ([[b"a0"]], SENTENCES[:4], SENTENCES):
        list(evaluation.score_sentences(scorer, sentences, vocabulary, 3))
    assert scorer._function.experimental_get_tracing_count() == 1


def test_text_without_a_sentence(scorer, vocabulary, tmp_path):
    with pytest.raises(InputError, match="no sentence to evaluate"):
        evaluate_sentences(scorer, [], vocabulary, 2)
    (tmp_path / "text").write_bytes(b"\n")
    with pytest.raises(InputError, match="no sentence to evaluate"):
        evaluate_streams(scorer, stream_of(tmp_path, vocabulary, 2, 3))


def test_losses_that_are_not_finite(vocabulary):
    model = ElmoLanguageModel(tiny.CONFIG, len(vocabulary))
    model.softmax.bias.assign(np.full(len(vocabulary), np.nan))
    with pytest.raises(InputError, match="losses are not finite"):
        evaluate_sentences(WindowScorer(model), SENTENCES, vocabulary, 2)


def test_wrong_batch_size(scorer, vocabulary):
    with pytest.raises(InputError, match="batch_size must be an integer >= 1, got 0"):
        evaluate_sentences(scorer, SENTENCES, vocabulary, 0)


def test_a_loss_beyond_floats():
    assert Evaluation(800.0, 1.0, 3).forward_perplexity == math.inf
