"""Windows: equal to bilm-tf's, without gaps or repetitions, and resumable at any position."""

import itertools
import json

import h5py
import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.text import characters, corpus, sentences, tokens
from elmo_tf.text.corpus import StreamState, WindowStream
from elmo_tf.text.sentences import SentenceReader
from elmo_tf.text.vocabulary import Vocabulary

split = tokens.make_tokenizer("whitespace")

BATCH, STEPS = 3, 5
# Lengths in steps (words + 1): shorter than a window, one window, longer than two.
TEXT = b"""a b c
b
d e f g h i j k l m n o

a c e g
o n <S> l </S> j
unknown b c
"""
WORDS = [bytes([letter]) for letter in b"abcdefghijklmno"]


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(b"\n".join([b"<S>", b"</S>", b"<UNK>", *WORDS]))
    return Vocabulary.from_file(str(path))


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT)
    return str(path)


def all_windows(stream):
    return list(iter(stream.next_window, None))


def equal(one, other):
    return (one is None and other is None) or (
        one.tokens == other.tokens
        and all(np.array_equal(a, b) for a, b in zip(one[1:], other[1:], strict=True))
    )


def test_windows_are_those_of_bilm_tf(fixtures_dir):
    folder = fixtures_dir / "training"
    vocabulary = Vocabulary.from_file(str(folder / "vocab.txt"))
    reader = SentenceReader([str(folder / "train.txt")], split, passes=1)
    windows = all_windows(WindowStream(reader, vocabulary, batch_size=3, unroll_steps=6))
    with h5py.File(folder / "trajectory.hdf5") as trajectory:
        expected = {name: array[()] for name, array in trajectory["windows"].items()}
    assert len(windows) == len(expected["token_ids"]) == 26
    for k, window in enumerate(windows):
        ids = np.array([vocabulary.id_of(token) for token in window.tokens])
        rows = np.stack([characters.encode_token(token) for token in window.tokens])
        for direction, suffix in enumerate(["", "_reverse"]):
            index = window.token_index[direction]
            # The fixture's character ids are not shifted for padding.
            shifted = expected["tokens_characters" + suffix][k] + 1
            np.testing.assert_array_equal(ids[index], expected["token_ids" + suffix][k])
            np.testing.assert_array_equal(rows[index], shifted)
            np.testing.assert_array_equal(
                window.targets[direction], expected["next_token_id" + suffix][k]
            )
        np.testing.assert_array_equal(window.lengths, [6, 6, 6])


def test_types_and_distinct_tokens(text_file, vocabulary):
    stream = WindowStream(SentenceReader([text_file], split), vocabulary, BATCH, STEPS)
    for window in [stream.next_window() for _ in range(9)]:
        assert window.token_index.shape == window.targets.shape == (2, BATCH, STEPS)
        assert window.lengths.shape == (BATCH,)
        assert {array.dtype for array in window[1:]} == {np.dtype(np.int32)}
        assert len(set(window.tokens)) == len(window.tokens)
        assert set(window.token_index.ravel()) == set(range(len(window.tokens)))


def test_one_row_spelled_out(text_file, vocabulary):
    stream = WindowStream(SentenceReader([text_file], split), vocabulary, 1, 7)
    window = stream.next_window()
    spelled = [[window.tokens[i] for i in row[0]] for row in window.token_index]
    assert spelled[0] == [b"<S>", b"a", b"b", b"c", b"<S>", b"b", b"<S>"]
    assert spelled[1] == [b"</S>", b"c", b"b", b"a", b"</S>", b"b", b"</S>"]
    a, b, c, d, o = (vocabulary.id_of(word) for word in (b"a", b"b", b"c", b"d", b"o"))
    begin, end = vocabulary.begin_id, vocabulary.end_id
    np.testing.assert_array_equal(window.targets[0, 0], [a, b, c, end, b, end, d])
    np.testing.assert_array_equal(window.targets[1, 0], [c, b, a, begin, b, begin, o])


def scored(windows, row, direction):
    """(input, target) of the real steps of a row, over all windows."""
    return [
        (
            window.tokens[window.token_index[direction, row, step]],
            window.targets[direction, row, step],
        )
        for window in windows
        for step in range(window.lengths[row])
    ]


def expected_steps(text, vocabulary, direction):
    """(input, target) of each sentence, computed directly."""
    for line in filter(None, text.splitlines()):
        sentence = [b"<S>", *line.split(), b"</S>"][:: 1 if direction == 0 else -1]
        yield [(one, vocabulary.id_of(two)) for one, two in itertools.pairwise(sentence)]


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(
    ("batch_size", "unroll_steps"), [(1, 1), (1, 4), (1, 1000), (2, 3), (3, 5), (5, 2), (13, 4)]
)
def test_with_incomplete_windows_each_token_is_in_exactly_one(
    text_file, vocabulary, batch_size, unroll_steps, direction
):
    reader = SentenceReader([text_file], split, passes=1)
    stream = WindowStream(reader, vocabulary, batch_size, unroll_steps, keep_incomplete=True)
    windows = all_windows(stream)
    assert stream.next_window() is None
    steps = [scored(windows, row, direction) for row in range(batch_size)]
    # Every row is a sequence of whole sentences, and all rows together are the text.
    wanted = list(expected_steps(TEXT, vocabulary, direction))
    unread = {tuple(sentence) for sentence in wanted}
    assert len(unread) == len(wanted) == 6
    for row in steps:
        while row:
            sentence = next(s for s in unread if tuple(row[: len(s)]) == s)
            unread.remove(sentence)
            row = row[len(sentence) :]
    assert not unread
    num_tokens = corpus.count_corpus([text_file], split).num_tokens
    assert sum(window.lengths.sum() for window in windows) == num_tokens


def test_padding_is_zero(text_file, vocabulary):
    reader = SentenceReader([text_file], split, passes=1)
    window = all_windows(WindowStream(reader, vocabulary, 7, 20, keep_incomplete=True))[0]
    np.testing.assert_array_equal(window.lengths, [20, 11, 0, 0, 0, 0, 0])
    is_padding = np.arange(20) >= window.lengths[:, np.newaxis]
    assert not window.token_index[:, is_padding].any()
    assert not window.targets[:, is_padding].any()


def test_training_stops_at_the_window_that_cannot_be_filled(text_file, vocabulary):
    kept, padded = (
        all_windows(
            WindowStream(
                SentenceReader([text_file], split, passes=1), vocabulary, 2, 4, keep_incomplete=keep
            )
        )
        for keep in (False, True)
    )
    num_full = sum(bool((window.lengths == 4).all()) for window in padded)
    assert len(kept) == num_full < len(padded)
    assert all(equal(one, other) for one, other in zip(kept, padded, strict=False))


def test_endless_reader_gives_endless_windows(text_file, vocabulary):
    stream = WindowStream(SentenceReader([text_file], split), vocabulary, 4, 3)
    windows = [stream.next_window() for _ in range(50)]
    assert all((window.lengths == 3).all() for window in windows)


@pytest.mark.parametrize("shuffle_buffer", [0, 1, 4, 100])
@pytest.mark.parametrize("keep_incomplete", [False, True])
def test_resumes_at_every_window(
    text_file, vocabulary, monkeypatch, shuffle_buffer, keep_incomplete
):
    monkeypatch.setattr(sentences, "_CHUNK_LINES", 2)

    def make():
        reader = SentenceReader([text_file] * 2, split, shuffle_buffer, seed=9, passes=3)
        return WindowStream(reader, vocabulary, BATCH, STEPS, keep_incomplete)

    unbroken = make()
    windows, states = [], []
    while True:
        # Resume from the state as JSON, and from a state object that is used later: both must work.
        states.append((unbroken.state(), json.dumps(unbroken.state().to_json())))
        windows.append(unbroken.next_window())
        if windows[-1] is None:
            break
    assert len(windows) > 12
    states.append((unbroken.state(), json.dumps(unbroken.state().to_json())))
    windows.append(None)
    for k, (state, text) in enumerate(states):
        assert json.dumps(state.to_json()) == text
        for given in (state, StreamState.from_json(json.loads(text))):
            resumed = make()
            resumed.restore(given)
            for window in windows[k:]:
                assert equal(resumed.next_window(), window)


def test_passes_are_shuffled_differently(tmp_path, vocabulary):
    path = tmp_path / "letters.txt"
    path.write_bytes(b"\n".join(WORDS))
    reader = SentenceReader([str(path)], split, shuffle_buffer=15, passes=2)
    stream = WindowStream(reader, vocabulary, 1, 30)  # a sentence takes two steps, a pass a window
    first, second = (window.targets[0, 0, ::2].tolist() for window in all_windows(stream))
    assert sorted(first) == sorted(second) == [vocabulary.id_of(word) for word in WORDS]
    assert first != second


def test_boundary_tokens_in_the_text_are_boundaries(text_file, vocabulary):
    reader = SentenceReader([text_file], split, passes=1)
    windows = all_windows(WindowStream(reader, vocabulary, 1, 4, keep_incomplete=True))
    pairs = scored(windows, 0, 0)
    n, l, j = (vocabulary.id_of(word) for word in (b"n", b"l", b"j"))  # noqa: E741
    begin, end = vocabulary.begin_id, vocabulary.end_id
    at = pairs.index((b"<S>", vocabulary.id_of(b"o")))
    assert pairs[at + 1 : at + 7] == [
        (b"o", n),
        (b"n", begin),
        (b"<S>", l),
        (b"l", end),
        (b"</S>", j),
        (b"j", end),
    ]


def test_tokens_that_are_not_utf8_survive_the_state(text_file, vocabulary):
    cut = lambda batch: [[b"\xd0", b"\xed\xb2\x80"] for _ in batch]  # noqa: E731

    def make():
        return WindowStream(SentenceReader([text_file], cut), vocabulary, 1, 2)

    stream = make()
    stream.next_window()
    resumed = make()
    resumed.restore(StreamState.from_json(json.loads(json.dumps(stream.state().to_json()))))
    assert equal(resumed.next_window(), stream.next_window())


def test_position_of_another_batch_size_is_refused(text_file, vocabulary):
    state = WindowStream(SentenceReader([text_file], split), vocabulary, 3, 5).state()
    other = WindowStream(SentenceReader([text_file], split), vocabulary, 4, 5)
    with pytest.raises(InputError, match="batch_size changed .*: was 3, is 4"):
        other.restore(state)


@pytest.mark.parametrize(
    ("batch_size", "unroll_steps", "message"),
    [
        (0, 5, "batch_size must be an integer >= 1, got 0"),
        (3, 0, "unroll_steps must be an integer >= 1, got 0"),
    ],
)
def test_wrong_sizes_are_named(text_file, vocabulary, batch_size, unroll_steps, message):
    with pytest.raises(InputError, match=message):
        WindowStream(SentenceReader([text_file], split), vocabulary, batch_size, unroll_steps)


def test_count(text_file, tmp_path):
    blank = tmp_path / "blank.txt"
    blank.write_bytes(b"\n \n")
    assert corpus.count_corpus([text_file, str(blank)], split) == (6, 29 + 6, 0)
    assert corpus.count_corpus([str(blank)], split) == (0, 0, 0)


@pytest.mark.parametrize("steps", [1, 4, 100])
def test_sentence_windows_read_each_sentence_in_its_own_row(text_file, vocabulary, steps):
    read = list(SentenceReader([text_file], split, passes=1))
    windows = list(corpus.sentence_windows(read, vocabulary, steps))
    assert [window.targets.shape[2] for window in windows[:-1]] == [steps] * (len(windows) - 1)
    assert sum(window.targets.shape[2] for window in windows) == max(map(len, read)) + 1
    for row, sentence in enumerate(read):
        bounded = [b"<S>", *sentence, b"</S>"]
        for direction, tokens_read in enumerate((bounded, bounded[::-1])):
            steps_read = [step for w in windows for step in scored([w], row, direction)]
            ids = vocabulary.ids(tokens_read[1:]).tolist()
            assert steps_read == list(zip(tokens_read[:-1], ids, strict=True))
    for window in windows:
        padding = np.arange(window.targets.shape[2]) >= window.lengths[:, np.newaxis]
        assert not window.targets[:, padding].any() and not window.token_index[:, padding].any()


def test_sentence_windows_of_no_sentence(vocabulary):
    assert list(corpus.sentence_windows([], vocabulary, 4)) == []
