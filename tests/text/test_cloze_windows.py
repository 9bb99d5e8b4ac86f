"""Windows over the same tokens in both directions."""

import numpy as np
import pytest

from elmo_tf.text.cloze_windows import ClozeWindows
from elmo_tf.text.vocabulary import Vocabulary

WORDS = [b"a", b"b", b"c", b"d", b"e"]
VOCABULARY = Vocabulary([b"<S>", b"</S>", b"<UNK>", *WORDS])
SENTENCES = [[b"a", b"b", b"c", b"d", b"a"], [b"e", b"x"], [b"b", b"c", b"d"]]


def read(window, way, row):
    """(token read, word predicted) of each real step."""
    steps = slice(0, window.lengths[row])
    inputs = [window.tokens[place] for place in window.token_index[way, row, steps]]
    return list(zip(inputs, window.targets[way, row, steps].tolist(), strict=True))


def expected(sentence):
    """The steps of both directions over the sentence, without the last one, a boundary."""
    tokens = [b"<S>", *sentence, b"</S>"]
    ids = VOCABULARY.ids(sentence).tolist()
    forward = list(zip(tokens[: len(ids)], ids, strict=True))
    backward = list(zip(tokens[:1:-1], ids[::-1], strict=True))
    return forward, backward


@pytest.mark.parametrize("num_steps,num_windows", [(1, 5), (2, 3), (3, 2), (4, 2), (5, 1), (99, 1)])
def test_each_token_is_predicted_once_in_each_direction(num_steps, num_windows):
    aligned = ClozeWindows(SENTENCES, VOCABULARY, num_steps)
    assert len(aligned) == num_windows
    windows = [aligned.window(index) for index in range(num_windows)]
    for row, sentence in enumerate(SENTENCES):
        forward, backward = expected(sentence)
        assert [step for window in windows for step in read(window, 0, row)] == forward
        assert [step for window in windows[::-1] for step in read(window, 1, row)] == backward


def test_a_window_has_the_same_tokens_in_both_directions():
    aligned = ClozeWindows(SENTENCES, VOCABULARY, 2)
    for index in range(3):
        window = aligned.window(index)
        assert window.token_index.shape == window.targets.shape == (2, 3, max(window.lengths))
        assert {array.dtype for array in window[1:]} == {np.dtype(np.int32)}
        assert len(set(window.tokens)) == len(window.tokens)
        for row, length in enumerate(window.lengths):
            forward, backward = window.targets[:, row, :length]
            np.testing.assert_array_equal(forward, backward[::-1])


def test_rows_without_tokens_in_a_window_have_length_zero():
    aligned = ClozeWindows(SENTENCES, VOCABULARY, 2)
    assert [aligned.window(i).lengths.tolist() for i in range(3)] == [
        [2, 2, 2],
        [2, 0, 1],
        [1, 0, 0],
    ]


def test_the_boundaries_come_after_all_windows():
    window = ClozeWindows(SENTENCES, VOCABULARY, 2).boundaries()
    assert window.lengths.tolist() == [1, 1, 1]
    begin, end = VOCABULARY.begin_id, VOCABULARY.end_id
    assert [read(window, 0, row) for row in range(3)] == [
        [(b"a", end)],
        [(b"x", end)],
        [(b"d", end)],
    ]
    assert [read(window, 1, row) for row in range(3)] == [
        [(b"a", begin)],
        [(b"e", begin)],
        [(b"b", begin)],
    ]
