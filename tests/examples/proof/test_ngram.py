"""Kneser-Ney against its formula, written out with dictionaries for each history and word."""

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest

from examples.proof import ngram

WORDS = ["<S>", "</S>", "<UNK>", "a", "b", "c"]
TEXT = [["a", "b"], ["a", "b", "c"], ["b", "a", "b"], ["c", "x"]]


def _corpus(sentences: list[list[str]]) -> ngram.Corpus:
    return ngram.read_corpus(sentences, WORDS)


def _bigram(history: str, word: str) -> float:
    """The probability of a bigram model with one discount per order."""
    sentences = [["<S>", *("<UNK>" if t == "x" else t for t in s), "</S>"] for s in TEXT]
    pairs = Counter(pair for s in sentences for pair in itertools.pairwise(s))
    before = defaultdict(set)
    for first, second in pairs:
        before[second].add(first)
    preceding = {w: len(found) for w, found in before.items()}

    def discount(counts: list[int]) -> float:
        return counts.count(1) / (counts.count(1) + 2 * counts.count(2))

    low, high = discount(list(preceding.values())), discount(list(pairs.values()))
    total = sum(preceding.values())
    unigram = max(preceding.get(word, 0) - low, 0) / total
    unigram += low * len(preceding) / total / (len(WORDS) - 1)
    after = {pair[1]: n for pair, n in pairs.items() if pair[0] == history}
    c = sum(after.values())
    return max(after.get(word, 0) - high, 0) / c + high * len(after) / c * unigram


def test_bigrams_have_the_probability_of_the_formula():
    model = ngram.KneserNey(_corpus(TEXT), len(WORDS), order=2)
    found = np.exp(model.log_probabilities(_corpus([["a", "c", "b"]])))
    pairs = [("<S>", "a"), ("a", "c"), ("c", "b"), ("b", "</S>")]
    np.testing.assert_allclose(found, [_bigram(*pair) for pair in pairs], rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("history", [[], ["a"], ["a", "b"], ["c", "c", "a", "b"]])
def test_probabilities_of_all_next_words_sum_to_one(order, history):
    rng = np.random.default_rng(3)
    text = [[WORDS[i] for i in rng.integers(2, 6, size=1 + k % 5)] for k in range(40)]
    model = ngram.KneserNey(_corpus(text), len(WORDS), order=order)
    nexts = [[*history, word] for word in WORDS[2:]]
    sums = [np.exp(model.log_probabilities(_corpus([s])))[len(history)] for s in nexts]
    sums.append(np.exp(model.log_probabilities(_corpus([history])))[len(history)])  # </S>
    assert sum(sums) == pytest.approx(1.0, abs=1e-12)


def test_perplexity_counts_the_end_of_each_sentence(tmp_path, capsys):
    files = {"train": TEXT, "heldout": [["a"], ["b", "c"]], "vocab": [[word] for word in WORDS]}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(" ".join(line) + "\n" for line in lines))
    assert ngram.main([*(f"--{name}={tmp_path / name}" for name in files), "--order=2"]) == 0
    pairs = [("<S>", "a"), ("a", "</S>"), ("<S>", "b"), ("b", "c"), ("c", "</S>")]
    expected = np.exp(-np.mean([np.log(_bigram(*pair)) for pair in pairs]))
    assert capsys.readouterr().out.splitlines() == [
        f"2-gram perplexity: {expected:.2f}",
        "predictions: 5",
    ]
