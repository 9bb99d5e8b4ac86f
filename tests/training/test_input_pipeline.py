"""Batches: the stream's windows, random numbers from seed and step, and positions."""

import numpy as np
import pytest

from elmo_tf.config.inputs import CharCnnConfig
from elmo_tf.config.training import TrainingConfig
from elmo_tf.errors import InputError
from elmo_tf.model.inputs.characters import CharacterInput
from elmo_tf.text import characters
from elmo_tf.text.corpus import WindowStream
from elmo_tf.text.sentences import SentenceReader
from elmo_tf.text.tokens import make_tokenizer
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.training.input_pipeline import TrainingData, effective_negatives
from elmo_tf.training.negatives import draw_negatives
from tests.training.tiny import BATCH, STEPS, write_files

WIDTH = 7


@pytest.fixture
def folder(tmp_path):
    return write_files(tmp_path)


def make_stream(folder, **options):
    files = [str(folder / name) for name in ("a.txt", "b.txt")]
    reader = SentenceReader(files, make_tokenizer(), shuffle_buffer=5, seed=8, **options)
    return WindowStream(reader, Vocabulary.from_file(folder / "vocab"), BATCH, STEPS)


def make_data(folder, stream=None, negatives=5, **options):
    config = TrainingConfig(
        batch_size=BATCH, unroll_steps=STEPS, num_negative_samples=negatives, seed=8
    )
    spell = CharacterInput(CharCnnConfig(max_characters_per_token=WIDTH))
    return TrainingData(stream or make_stream(folder), config, 26, spell, **options)


def as_numpy(batch):
    return [each.numpy() for each in (*batch.window, *(batch.negatives or ()), batch.dropout_seed)]


def test_batches_are_the_windows_of_the_stream(folder):
    data, stream = make_data(folder), make_stream(folder)
    for step, batch in zip(range(30), data, strict=False):
        window = stream.next_window()
        ids = [characters.encode_token(token, WIDTH) for token in window.tokens]
        np.testing.assert_array_equal(batch.window.token_ids, ids)
        for one, two in zip(batch.window[1:], window[1:], strict=True):
            np.testing.assert_array_equal(one, two)
        drawn, num_tries = draw_negatives(8, step, 26, 5)
        np.testing.assert_array_equal(batch.negatives.ids, drawn)
        assert batch.negatives.num_tries.numpy() == num_tries
        np.testing.assert_array_equal(batch.dropout_seed, [8, step])
        assert data.position == stream.state()


@pytest.mark.parametrize("steps", [0, 1, 17])
def test_goes_on_from_the_position_of_a_batch(folder, steps):
    """The reading thread is ahead of the batch."""
    unbroken = make_data(folder)
    for _ in range(steps):
        next(unbroken)
    stream = make_stream(folder)
    stream.restore(unbroken.position)
    resumed = make_data(folder, stream, first_step=steps)
    for _ in range(12):
        for one, two in zip(as_numpy(next(unbroken)), as_numpy(next(resumed)), strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(("asked", "drawn"), [(0, 0), (25, 25), (26, 0), (8192, 0)])
def test_full_softmax_below_the_sample_size(folder, asked, drawn):
    config = TrainingConfig(num_negative_samples=asked)
    assert effective_negatives(config, vocabulary_size=26) == drawn
    batch = next(make_data(folder, negatives=asked))
    assert (batch.negatives is None) == (drawn == 0)


def test_tokens_of_any_bytes(folder):
    """Trailing NULs and invalid UTF-8 reach the character ids."""
    odd = [b"\0", b"x\0\0", b"\xff"]

    def tokenize(lines):
        return [odd for _ in lines]

    reader = SentenceReader([str(folder / "a.txt")], tokenize)
    stream = WindowStream(reader, Vocabulary.from_file(folder / "vocab"), BATCH, STEPS)
    rows = next(make_data(folder, stream)).window.token_ids.numpy()
    np.testing.assert_array_equal(
        rows, [characters.encode_token(t, WIDTH) for t in (b"<S>", *odd, b"</S>")]
    )


def test_ends_with_the_stream(folder):
    batches = list(make_data(folder, make_stream(folder, passes=1)))
    stream = make_stream(folder, passes=1)
    assert len(batches) == len(list(iter(stream.next_window, None))) > 3


def test_errors_of_the_stream_come_through(folder):
    data = make_data(folder)
    next(data)
    with (folder / "b.txt").open("ab") as file:
        file.write(b"more\n")
    with pytest.raises(InputError, match=r"b.txt changed its size while it was in use"):
        list(data)  # would not end without an error
