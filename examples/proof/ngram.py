"""A 5-gram with interpolated modified Kneser-Ney smoothing, to compare perplexities with.

    python -m examples.proof.ngram --train=text/train.txt --heldout=text/heldout8.txt \\
        --vocab=text/vocab.txt

As in `elmo_tf.evaluate` a sentence of n tokens has n + 1 predictions, its tokens and `</S>`, given
`<S>` and the tokens before; no history crosses a sentence; words outside the vocabulary are
`<UNK>`. So the perplexity compares with the forward perplexity of a language model.

Reference: Chen and Goodman 1999, "An empirical study of smoothing techniques for language
modeling", equations of section 4.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

BOUNDARIES = ("<S>", "</S>", "<UNK>")


class Corpus(NamedTuple):
    """Sentences with their boundaries, one after the other.

    Attributes:
      ids: int64 `[positions]`: the word at each position.
      offsets: int64 `[positions]`: its distance from the `<S>` of its sentence.
    """

    ids: np.ndarray
    offsets: np.ndarray


class _Order(NamedTuple):
    """The n-grams of one length, sorted by key: history * num_words + word.

    Attributes:
      keys: int64 `[n-grams]`.
      counts: `[n-grams]`: occurrences at the highest order and after `<S>`, otherwise the number
        of different words before the n-gram.
      totals: `[histories]`: the sum of the counts of each history.
      reserved: `[histories]`: the sum of their discounts.
    """

    keys: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    reserved: np.ndarray


def read_corpus(sentences: Iterable[Sequence[str]], words: Sequence[str]) -> Corpus:
    """Converts sentences to ids, the index of each word in `words`."""
    number = {word: index for index, word in enumerate(words)}
    begin, end, unknown = (number[word] for word in BOUNDARIES)
    ids: list[int] = []
    lengths: list[int] = []
    for sentence in sentences:
        ids += [begin, *(number.get(token, unknown) for token in sentence), end]
        lengths.append(len(sentence) + 2)
    ends = np.cumsum(lengths)
    offsets = np.arange(len(ids)) - np.repeat(ends - lengths, lengths)
    return Corpus(np.array(ids, np.int64), offsets)


class KneserNey:
    """The model.

        p(w | h) = max(c(h w) - D, 0) / c(h) + reserved(h) / c(h) * p(w | h without its first word)

    with a discount D of its own for counts of 1, 2, and 3 or more, and a uniform distribution over
    all words but `<S>` below the unigrams.

    Args:
      corpus: the training text.
      num_words: size of the vocabulary, `<S>` included.
      order: length of the longest n-grams.
    """

    def __init__(self, corpus: Corpus, num_words: int, order: int = 5) -> None:
        self._num_words = num_words
        self._orders: list[_Order] = []
        histories = np.zeros_like(corpus.ids)  # the empty history
        firsts = None
        grams, keys_of_orders = [], []
        for n in range(1, order + 1):
            valid = np.flatnonzero(corpus.offsets >= n - 1)
            keys, index, inverse = np.unique(
                histories[valid] * num_words + corpus.ids[valid],
                return_index=True,
                return_inverse=True,
            )
            ids = np.full(len(corpus.ids), -1)
            ids[valid] = inverse
            firsts = valid[index]  # a position at which each n-gram ends
            grams.append((ids, firsts))
            keys_of_orders.append(keys)
            histories = np.concatenate([[-1], ids[:-1]])
        for n in range(1, order + 1):
            longer = grams[n] if n < order else None
            counts = _counts(corpus, n, grams[n - 1], longer)
            keys = keys_of_orders[n - 1]
            num_histories = len(keys_of_orders[n - 2]) if n > 1 else 1
            self._orders.append(_smooth(keys, counts, keys // num_words, num_histories))

    def log_probabilities(self, corpus: Corpus) -> np.ndarray:
        """Natural logarithms of the probability of each position but those of `<S>`."""
        words, offsets = corpus.ids, corpus.offsets
        probability = np.full(len(words), 1.0 / (self._num_words - 1))
        histories = np.zeros(len(words), np.int64)
        for n, order in enumerate(self._orders, start=1):
            is_known = (histories >= 0) & (offsets >= n - 1)
            keys = np.where(is_known, histories * self._num_words + words, 0)
            found = np.searchsorted(order.keys, keys).clip(max=len(order.keys) - 1)
            is_found = is_known & (order.keys[found] == keys)
            history = np.where(is_known, histories, 0)
            counts = np.where(is_found, order.counts[found], 0)
            totals = np.where(is_known, order.totals[history], 0)
            own = counts - discounts_of(counts, order.counts)
            smoothed = (own + order.reserved[history] * probability) / np.maximum(totals, 1)
            probability = np.where(totals > 0, smoothed, probability)
            histories = np.concatenate([[-1], np.where(is_found, found, -1)[:-1]])
        return np.log(probability[offsets > 0])

    def perplexity(self, corpus: Corpus) -> float:
        """The exponential of the mean negative log probability."""
        return float(np.exp(-self.log_probabilities(corpus).mean()))


def _counts(
    corpus: Corpus,
    n: int,
    grams: tuple[np.ndarray, np.ndarray],
    longer: tuple[np.ndarray, np.ndarray] | None,
) -> np.ndarray:
    """Counts of n-grams; see `_Order`. `<S>` is never predicted, so it has none as a last word."""
    ids, firsts = grams
    is_predicted = corpus.offsets > 0
    occurrences = np.bincount(ids[(ids >= 0) & is_predicted], minlength=len(firsts))
    if longer is None:
        return occurrences
    begins_sentence = corpus.offsets[firsts] == n - 1
    preceding = np.bincount(ids[longer[1]], minlength=len(firsts))
    return np.where(begins_sentence, occurrences, preceding)


def _smooth(
    keys: np.ndarray, counts: np.ndarray, histories: np.ndarray, num_histories: int
) -> _Order:
    discounts = discounts_of(counts, counts)
    totals = np.bincount(histories, counts, minlength=num_histories)
    reserved = np.bincount(histories, discounts, minlength=num_histories)
    return _Order(keys, counts, totals, reserved)


def discounts_of(counts: np.ndarray, all_counts: np.ndarray) -> np.ndarray:
    """The discount of each count, from how many of `all_counts` are 1, 2, 3 and 4."""
    ones, twos, threes, fours = (int(np.sum(all_counts == k)) for k in range(1, 5))
    share = ones / (ones + 2 * twos) if ones else 0.5
    table = [0.0, share, share, share]  # plain Kneser-Ney, where the text is too small
    if min(ones, twos, threes, fours) > 0:
        table[1] = 1 - 2 * share * twos / ones
        table[2] = 2 - 3 * share * threes / twos
        table[3] = 3 - 4 * share * fours / threes
    return np.array(table)[np.minimum(counts, 3)]


def _read_lines(path: str) -> list[list[str]]:
    with open(path, encoding="utf-8") as file:
        return [line.split() for line in file if line.strip()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the perplexity of orders 1 to 5; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("train", "heldout", "vocab"):
        parser.add_argument(f"--{name}", required=True, help=f"The file {name}.txt.")
    parser.add_argument("--order", type=int, default=5, help="Length of the longest n-grams.")
    options = parser.parse_args(arguments)
    words = [line[0] for line in _read_lines(options.vocab)]
    heldout = read_corpus(_read_lines(options.heldout), words)
    model = KneserNey(
        read_corpus(_read_lines(options.train), words), len(words), order=options.order
    )
    print(f"{options.order}-gram perplexity: {model.perplexity(heldout):.2f}")
    print(f"predictions: {int(np.sum(heldout.offsets > 0))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
