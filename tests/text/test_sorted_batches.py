"""Batches of similar lengths, results in the order of the sentences, and bounded memory."""

import itertools

import pytest

from elmo_tf.errors import InputError
from elmo_tf.text.sorted_batches import score_sorted

LENGTHS = [5, 0, 900, 3, 3, 7, 1, 40, 2, 0, 6]


def sentences(lengths=LENGTHS):
    return [[b"%d" % k] * length for k, length in enumerate(lengths)]


class Score:
    def __init__(self):
        self.batches = []

    def __call__(self, batch):
        self.batches.append([len(sentence) for sentence in batch])
        return [(len(sentence), sentence[:1]) for sentence in batch]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("most_tokens", [1, 10, 60, 10_000])
def test_results_come_in_order_and_each_once(batch_size, most_tokens):
    score = Score()
    results = score_sorted(score, sentences(), batch_size, most_tokens=most_tokens)
    assert list(results) == [(len(sentence), sentence[:1]) for sentence in sentences()]
    assert sorted(itertools.chain(*score.batches)) == sorted(LENGTHS)
    assert max(map(len, score.batches)) <= batch_size


def test_batches_go_from_short_to_long():
    score = Score()
    list(score_sorted(score, sentences(), 4))
    assert score.batches == [[0, 0, 1, 2], [3, 3, 5, 6], [7, 40], [900]]


def test_a_long_sentence_is_not_padding_for_short_ones():
    score = Score()
    list(score_sorted(score, sentences([2, 1000, 3, 1500, 5000]), 100))
    assert score.batches == [[2, 3], [1000, 1500], [5000]]


def test_input_is_taken_as_it_is_needed():
    taken = []

    def endless():
        while True:
            taken.append(len(taken))
            yield [b"a"] * 5

    results = score_sorted(Score(), endless(), 1000, most_tokens=12)
    for _ in range(4):
        next(results)
    assert len(taken) == 6  # two groups of three


def test_progress_counts_tokens_and_boundaries():
    counts = []
    list(score_sorted(Score(), sentences(), 4, counts.append))
    assert counts == [3 + 4, 17 + 4, 47 + 2, 901]


def test_wrong_batch_size_is_named():
    with pytest.raises(InputError, match="batch_size must be an integer >= 1, got 0"):
        list(score_sorted(Score(), sentences(), 0))
