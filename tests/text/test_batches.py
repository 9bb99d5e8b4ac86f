import itertools
import random

import pytest

import elmo_tf
from elmo_tf.errors import InputError
from elmo_tf.text.batches import batches_by_tokens


def sentences(*lengths):
    """Token lists of these lengths, with distinct tokens."""
    return [[f"{row}.{place}" for place in range(n)] for row, n in enumerate(lengths)]


def sizes(*lengths, batch_tokens):
    batches = list(batches_by_tokens(sentences(*lengths), batch_tokens))
    assert list(itertools.chain(*batches)) == sentences(*lengths)
    return [[len(sentence) for sentence in batch] for batch in batches]


@pytest.mark.parametrize(
    ("lengths", "batch_tokens", "expected"),
    [
        ([], 5, []),
        ([3], 5, [[3]]),
        ([3, 3], 10, [[3, 3]]),
        ([3, 3], 9, [[3], [3]]),
        ([1, 4], 12, [[1, 4]]),  # the longer one determines the width
        ([1, 4], 11, [[1], [4]]),
        ([4, 1, 1], 12, [[4, 1], [1]]),
        ([1, 9, 1, 1], 7, [[1], [9], [1, 1]]),  # a batch by itself, over the budget
        ([0, 0, 0, 2], 6, [[0, 0, 0], [2]]),  # blank lines are two boundaries each
        ([5, 6], 1, [[5], [6]]),
    ],
)
def test_batches(lengths, batch_tokens, expected):
    assert sizes(*lengths, batch_tokens=batch_tokens) == expected


def test_every_batch_keeps_to_the_budget_and_is_full():
    lengths = random.Random(3).choices(range(12), k=97)
    budget = 31
    batches = sizes(*lengths, batch_tokens=budget)
    for batch, following in itertools.zip_longest(batches, batches[1:]):
        assert len(batch) * (max(batch) + 2) <= budget
        if following:
            longer = [*batch, following[0]]
            assert len(longer) * (max(longer) + 2) > budget


def test_takes_from_a_generator_only_what_it_needs():
    endless = (["a"] * 3 for _ in itertools.count())
    taken = itertools.islice(batches_by_tokens(endless, 17), 2)
    assert [len(batch) for batch in taken] == [3, 3]


def test_length_of_other_things():
    pairs = [("a", 7), ("b", 1), ("c", 2)]
    batches = batches_by_tokens(pairs, 9, length=lambda pair: pair[1])
    assert list(batches) == [pairs[:1], pairs[1:]]


def test_is_public():
    assert elmo_tf.batches_by_tokens is batches_by_tokens


@pytest.mark.parametrize("value", [0, -3, 2.5, True, None])
def test_wrong_budget_is_said_at_once(value):
    with pytest.raises(InputError, match="batch_tokens must be an integer >= 1, got"):
        batches_by_tokens([["a"]], value)


@pytest.mark.parametrize("text", ["the cat", b"the cat"])
def test_text_is_no_list_of_tokens(text):
    with pytest.raises(InputError, match="each sentence must be a list of tokens, got b?'the cat'"):
        list(batches_by_tokens([["a"], text], 9))
