"""Scores and substitutes against NumPy, from one run of the LSTMs over whole sentences."""

import functools
import json
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.scoring import evaluation, substitutes
from elmo_tf.scoring import scores as scoring
from elmo_tf.text import characters
from elmo_tf.text.vocabulary import Vocabulary
from tests.models import small_config

pytestmark = pytest.mark.traced  # many small batches through one model

# The special words are not the first ones, so that id 0 is an ordinary word.
WORDS = [b"w%d" % k for k in range(17)]
VOCABULARY = Vocabulary([*WORDS[:4], b"</S>", b"<UNK>", *WORDS[4:], b"<S>", "ж".encode()])
SPECIAL = VOCABULARY.ids([b"<S>", b"</S>", b"<UNK>"]).tolist()
CONFIG = small_config()
DIM, WIDTH = CONFIG.lstm.projection_dim, CONFIG.input.max_characters_per_token


def sentence(length, seed=0):
    """Words, including unknown ones, `<UNK>`, and boundary tokens within the text."""
    tokens = [*WORDS, b"never-seen", b"<UNK>", b"</S>", "ж".encode()]
    return [tokens[i] for i in np.random.default_rng(seed).integers(0, len(tokens), length)]


SENTENCES = [sentence(n, n) for n in (4, 0, 1, 11, 6, 0, 2, 6, 17)]


@pytest.fixture(scope="module")
def model():
    made = ElmoLanguageModel(CONFIG, len(VOCABULARY), seed=2)
    generator = np.random.default_rng(8)
    # With the small initial values, all words would be about equally probable.
    for variable in made.language_model_variables:
        variable.assign(generator.normal(size=variable.shape, scale=0.6))
    return made


@functools.cache
def window_scorer(model):
    return evaluation.WindowScorer(model)


@functools.cache
def substitute_finder(model, vocabulary, number):
    return substitutes.SubstituteFinder(model, vocabulary, number)


@pytest.fixture(autouse=True)
def traced_once(monkeypatch):
    """Tests share traces for one model and number, because tracing takes most of their time."""
    for module in (scoring, substitutes):
        monkeypatch.setattr(module, "WindowScorer", window_scorer)
    monkeypatch.setattr(scoring, "SubstituteFinder", substitute_finder)


def numpy_log_probabilities(model, tokens):
    """`[2, tokens + 2, words]`: of each word at each position of `<S> tokens </S>`.

    The whole sentence in one pass of the biLM, with a plain softmax over all words.
    """
    whole = [characters.BEGIN_TOKEN, *tokens, characters.END_TOKEN]
    ids = np.stack([characters.encode_token(token, WIDTH) for token in whole])
    embeddings = model.encoder.char_cnn(ids[np.newaxis])
    top = model.encoder.bilm(embeddings, lengths=tf.constant([len(whole)]))[-1].numpy()[0]
    forward, backward = np.full((2, len(whole), DIM), np.nan)
    forward[1:], backward[:-1] = top[:-1, :DIM], top[1:, DIM:]
    logits = np.stack([forward, backward]) @ model.softmax.kernel.numpy().T
    logits += model.softmax.bias.numpy()
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def check(scores, model, tokens, number=0):
    """Compares one sentence's scores, and its substitutes if there are some, with NumPy."""
    ids = VOCABULARY.ids(tokens)
    log_p = numpy_log_probabilities(model, tokens)
    forward, backward = log_p[:, 1:-1]  # [tokens, words]
    places = np.arange(len(tokens))
    assert scores.tokens == tokens
    np.testing.assert_array_equal(scores.is_unknown, ids == VOCABULARY.unknown_id)
    np.testing.assert_allclose(scores.forward, forward[places, ids], atol=5e-6)
    np.testing.assert_allclose(scores.backward, backward[places, ids], atol=5e-6)
    assert scores.forward_boundary == pytest.approx(log_p[0, -1, VOCABULARY.end_id], abs=5e-6)
    assert scores.backward_boundary == pytest.approx(log_p[1, 0, VOCABULARY.begin_id], abs=5e-6)
    if not number:
        assert scores.substitutes is None
        return
    totals = forward + backward
    totals[:, SPECIAL] = -np.inf
    order = np.argsort(-totals, axis=1)[:, :number]
    found = scores.substitutes
    np.testing.assert_array_equal(found.ids, order)
    for ours, theirs in (
        (found.scores, totals),
        (found.log_probabilities[0], forward),
        (found.log_probabilities[1], backward),
    ):
        np.testing.assert_allclose(ours, np.take_along_axis(theirs, order, 1), atol=1e-5)


def check_blank(scores, number=0):
    assert scores.tokens == []
    assert scores.is_unknown.shape == scores.forward.shape == scores.backward.shape == (0,)
    assert scores.forward_boundary is scores.backward_boundary is None
    if number:
        assert scores.substitutes.ids.shape == scores.substitutes.scores.shape == (0, number)
    else:
        assert scores.substitutes is None


@pytest.mark.parametrize("number,batch_size", [(0, 3), (0, 32), (1, 1), (4, 3), (18, 32)])
def test_scores_equal_numpy(model, number, batch_size):
    results = scoring.score_lines(model, VOCABULARY, SENTENCES, number, batch_size)
    for tokens, scores in zip(SENTENCES, results, strict=True):
        if tokens:
            check(scores, model, tokens, number)
        else:
            check_blank(scores, number)


@pytest.mark.parametrize("most_positions", [1, 8])
@pytest.mark.parametrize("number", [0, 4])
def test_long_sentences_are_read_in_windows(model, monkeypatch, most_positions, number):
    """Rows end in different windows, one of them exactly at the end of a window."""
    monkeypatch.setattr(substitutes, "_MOST_POSITIONS", most_positions)
    monkeypatch.setattr(evaluation, "_MOST_PREDICTIONS", 2 * most_positions)
    sentences = [sentence(n, n) for n in (21, 12, 24, 15)]
    results = scoring.score_lines(model, VOCABULARY, sentences, number, 4)
    for tokens, scores in zip(sentences, results, strict=True):
        check(scores, model, tokens, number)


def test_windows_are_smaller_where_more_words_are_found(model, monkeypatch):
    monkeypatch.setattr(substitutes, "_MOST_FOUND", 20)
    seen, window = [], substitutes.ClozeWindows.window

    def recorded(self, index):
        seen.append(window(self, index))
        return seen[-1]

    monkeypatch.setattr(substitutes.ClozeWindows, "window", recorded)
    (scores,) = scoring.score_lines(model, VOCABULARY, [sentence(30)], 4)
    check(scores, model, sentence(30), 4)
    assert max(max(window.lengths) for window in seen) == 5


@pytest.mark.parametrize("number", [19, 10_000])
def test_more_substitutes_than_words_are_all_words(model, number):
    (scores,) = scoring.score_lines(model, VOCABULARY, [SENTENCES[0]], number)
    check(scores, model, SENTENCES[0], 18)
    words = set(range(len(VOCABULARY))) - set(SPECIAL)
    assert all(set(ids) == words for ids in scores.substitutes.ids.tolist())


def test_a_vocabulary_without_words_has_no_substitutes():
    vocabulary = Vocabulary([b"<S>", b"</S>", b"<UNK>"])
    model = ElmoLanguageModel(CONFIG, 3, seed=2)
    (scores,) = scoring.score_lines(model, vocabulary, [[b"a", b"b"]], 5)
    assert scores.substitutes.ids.shape == (2, 0)
    assert scores.is_unknown.tolist() == [True, True]
    assert json.loads("".join(scoring.to_json(scores, vocabulary)))["substitutes"] == [[], []]


@pytest.mark.parametrize("number", [0, 4])
def test_sums_are_those_of_the_evaluation(model, number):
    sentences = [tokens for tokens in SENTENCES if tokens]
    scorer = evaluation.WindowScorer(model)
    expected = evaluation.evaluate_sentences(scorer, sentences, VOCABULARY, 2)
    forward = backward = count = 0
    for scores in scoring.score_lines(model, VOCABULARY, SENTENCES, number, 3):
        if scores.tokens:
            forward += scores.forward.sum(dtype=np.float64) + scores.forward_boundary
            backward += scores.backward.sum(dtype=np.float64) + scores.backward_boundary
            count += len(scores.tokens) + 1
    assert count == expected.num_tokens
    assert -forward / count == pytest.approx(expected.forward_loss, rel=1e-6)
    assert -backward / count == pytest.approx(expected.backward_loss, rel=1e-6)


@pytest.mark.parametrize("number", [0, 4])
def test_other_sentences_and_batches_do_not_matter(model, number):
    alone = list(scoring.score_lines(model, VOCABULARY, SENTENCES, number, 1))
    together = scoring.score_lines(model, VOCABULARY, SENTENCES[::-1], number, 4)
    for one, two in zip(alone[::-1], together, strict=True):
        np.testing.assert_allclose(one.forward, two.forward, atol=2e-6)
        np.testing.assert_allclose(one.backward, two.backward, atol=2e-6)
        if number:
            np.testing.assert_array_equal(one.substitutes.ids, two.substitutes.ids)


def test_sentences_are_taken_as_they_are_needed(model, monkeypatch):
    monkeypatch.setattr(scoring, "_MOST_SUBSTITUTES_HELD", 40)
    taken = []

    def endless():
        while True:
            taken.append(len(taken))
            yield [b"w1", b"w2"]

    results = scoring.score_lines(model, VOCABULARY, endless(), 4, 1000)
    next(results)
    assert len(taken) == 5  # 10 tokens of 4 substitutes


@pytest.mark.parametrize("number", [0, 2])
def test_weights_of_no_use_are_refused(model, number):
    broken = ElmoLanguageModel(CONFIG, len(VOCABULARY), seed=2)
    broken.softmax.bias.assign(np.where(np.arange(len(VOCABULARY)) == 3, np.nan, 0.0))
    with pytest.raises(InputError, match="scores are not finite"):
        list(scoring.score_lines(broken, VOCABULARY, [[b"w1"]], number))


def test_no_probability_is_above_one():
    certain = ElmoLanguageModel(CONFIG, len(VOCABULARY), seed=2)
    certain.softmax.bias.assign(np.where(np.arange(len(VOCABULARY)) == 3, 40.0, 0.0))
    (scores,) = scoring.score_lines(certain, VOCABULARY, [[VOCABULARY.words[3]] * 5], 2)
    assert (scores.forward == 0).all() and (scores.backward == 0).all()
    assert "-0.0" not in "".join(scoring.to_json(scores, VOCABULARY))


def test_wrong_arguments_are_named(model):
    with pytest.raises(InputError, match="num_substitutes must be an integer >= 0, got -1"):
        scoring.score_lines(model, VOCABULARY, [], -1)
    with pytest.raises(InputError, match="batch_size must be an integer >= 1, got 0"):
        scoring.score_lines(model, VOCABULARY, [], 0, 0)


def made_scores(tokens, number=0):
    """Scores with numbers that have a short float32 representation but are not exact."""
    count = len(tokens)
    values = -np.arange(1, count + 1, dtype=np.float32) / 10
    words = np.arange(1, count * number + 1, dtype=np.int32) % len(VOCABULARY)
    words = words.reshape(count, number)
    numbers = -(words + 1).astype(np.float32) / 8
    found = scoring.Substitutes(words, numbers * 3, np.stack([numbers, numbers * 2]))
    return scoring.SentenceScores(
        tokens,
        np.arange(count) == 1,
        values,
        values * 10,
        np.float32(-0.7),
        np.float32(-1e-7),
        found if number else None,
    )


def test_json_is_one_readable_line():
    tokens = ['"жук"\\'.encode(), b"\x01\x7f\t", "東\u2028京\x85\u2029".encode(), b"a\xff"]
    text = "".join(scoring.to_json(made_scores(tokens), VOCABULARY))
    assert text == (
        r'{"tokens": ["\"жук\"\\", "\u0001' + "\x7f" + r'\t", "東\u2028京\u0085\u2029", "a�"], '
        '"is_unknown": [false, true, false, false], '
        '"forward": [-0.1, -0.2, -0.3, -0.4], "backward": [-1.0, -2.0, -3.0, -4.0], '
        '"forward_boundary": -0.7, "backward_boundary": -1e-07}'
    )
    assert text.splitlines() == [text]
    assert json.loads(text)["tokens"] == [token.decode("utf-8", "replace") for token in tokens]


def test_json_of_substitutes(monkeypatch):
    monkeypatch.setattr(scoring, "_TOKENS_IN_PIECE", 2)
    scores = made_scores([b"a", b"b", b"c", b"d", b"e"], number=4)
    pieces = list(scoring.to_json(scores, VOCABULARY))
    assert len(pieces) == 5
    found = json.loads("".join(pieces))["substitutes"]
    assert [len(words) for words in found] == [4] * 5
    assert found[4][3] == {"token": "ж", "score": -7.875, "forward": -2.625, "backward": -5.25}
    assert found[0][1] == {"token": "w2", "score": -1.125, "forward": -0.375, "backward": -0.75}


def test_json_of_a_blank_line(model):
    for number in (0, 4):
        (scores,) = scoring.score_lines(model, VOCABULARY, [[]], number)
        values = json.loads("".join(scoring.to_json(scores, VOCABULARY)))
        expected = {
            "tokens": [],
            "is_unknown": [],
            "forward": [],
            "backward": [],
            "forward_boundary": None,
            "backward_boundary": None,
            **({"substitutes": []} if number else {}),
        }
        assert values == expected


def test_numbers_keep_all_that_float32_holds():
    values = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    scores = made_scores([b"a"] * 1000)._replace(forward=values)
    read = json.loads("".join(scoring.to_json(scores, VOCABULARY)))["forward"]
    np.testing.assert_array_equal(np.array(read, np.float32), values)
    assert max(len(str(number)) for number in read) < 16


def test_text_of_substitutes_is_made_a_piece_at_a_time():
    scores = made_scores([b"a"] * 3000, number=10)
    tracemalloc.start()
    size = sum(len(piece) for piece in scoring.to_json(scores, VOCABULARY))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size / 2
