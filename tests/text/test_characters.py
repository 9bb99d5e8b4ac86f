"""Character ids in Python and in the graph: equal to bilm-tf's, and to each other for any bytes."""

import json
import random
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.errors import InputError
from elmo_tf.text import characters
from elmo_tf.text.characters import (
    batch_to_ids,
    boundary_characters,
    characters_of_tokens,
    encode_token,
    token_bytes,
)
from tests.integration.zoo import CONFIGURATIONS


def with_boundaries(tokens):
    return ["<S>", *tokens, "</S>"]


def random_token(generator, max_length):
    """Random bytes, with frequent NULs and fragments of UTF-8 sequences."""
    alphabet = [0, 0x80, 0xBF, 0xC3, 0xE4, 0xF0, 0xFF, 0x20, 0x3C, 0x53, 0x3E]
    length = generator.randint(0, max_length)
    return bytes(
        generator.choice(alphabet) if generator.random() < 0.4 else generator.randrange(256)
        for _ in range(length)
    )


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_published_character_ids(fixtures_dir, name):
    zoo = fixtures_dir / "config_zoo"
    options = json.loads((zoo / name / "model" / "options.json").read_text("utf-8"))
    max_characters = options["char_cnn"]["max_characters_per_token"]
    sentences = json.loads((zoo / "sentences.json").read_text("utf-8"))
    with h5py.File(zoo / name / "expected.hdf5") as expected:
        for batch in ("batch1", "batch2"):
            tokens = [with_boundaries(sentence) for sentence in sentences[batch]]
            ids = batch_to_ids(tokens, max_characters)
            np.testing.assert_array_equal(ids, expected[f"{batch}_char_ids"][:])
            for row, sentence in zip(ids, tokens, strict=True):
                in_graph = characters_of_tokens(tf.constant(sentence), max_characters)
                np.testing.assert_array_equal(in_graph, row[: len(sentence)])


def test_characters_of_the_published_training_windows(fixtures_dir):
    folder = fixtures_dir / "training"
    words = (folder / "vocab.txt").read_bytes().split(b"\n")[:-1]
    with h5py.File(folder / "trajectory.hdf5") as trajectory:
        for side in ("", "_reverse"):
            word_ids = trajectory["windows"][f"token_ids{side}"][:].ravel()
            unshifted = trajectory["windows"][f"tokens_characters{side}"][:].reshape(-1, 50)
            known = np.array([words[i] != b"<UNK>" for i in word_ids])
            assert known.sum() > 100
            tokens = [words[i] for i in word_ids[known]]
            ids = np.stack([encode_token(token) for token in tokens])
            np.testing.assert_array_equal(ids, unshifted[known] + 1)


def test_a_row_by_hand():
    np.testing.assert_array_equal(encode_token("né", 7), [259, 111, 196, 170, 260, 261, 261])
    np.testing.assert_array_equal(encode_token("né", 5), [259, 111, 196, 170, 260])
    np.testing.assert_array_equal(encode_token("né", 4), [259, 111, 196, 260])  # cuts the é
    np.testing.assert_array_equal(encode_token("", 4), [259, 260, 261, 261])
    np.testing.assert_array_equal(encode_token(b"\0\xff", 5), [259, 1, 256, 260, 261])


@pytest.mark.parametrize("max_characters", [3, 4, 50])
def test_boundary_tokens_are_codes_and_their_likes_are_not(max_characters):
    filler = [261] * (max_characters - 3)
    rows = [[259, 257, 260, *filler], [259, 258, 260, *filler]]
    np.testing.assert_array_equal(boundary_characters(max_characters), rows)
    in_graph = characters_of_tokens(tf.constant(["<S>", "</S>"]), max_characters)
    np.testing.assert_array_equal(in_graph, rows)
    for token in (b"<S", b"<S>\0", b"<s>", b"</S> ", b"<UNK>"):
        row = encode_token(token, max_characters)
        assert row[1] == token[0] + 1
        np.testing.assert_array_equal(
            characters_of_tokens(tf.constant([token]), max_characters)[0], row
        )


def test_python_and_graph_agree_on_any_bytes():
    generator = random.Random(20)
    for max_characters in (3, 4, 5, 7, 16, 33, 50, 60):
        tokens = [random_token(generator, 62) for _ in range(150)] + [b"", b"\0", b"<S>", b"</S>"]
        # An array of objects: TensorFlow's own conversion of a list keeps trailing NULs too, but
        # NumPy's "S" type would not.
        in_graph = characters_of_tokens(tf.constant(np.array(tokens, object)), max_characters)
        in_python = np.stack([encode_token(token, max_characters) for token in tokens])
        assert in_graph.dtype == tf.int32
        assert in_python.dtype == np.int32
        np.testing.assert_array_equal(in_graph, in_python)
        np.testing.assert_array_equal(batch_to_ids([tokens], max_characters)[0], in_python)


@pytest.mark.traced
@pytest.mark.parametrize("shape", [(), (5,), (0,), (2, 3), (0, 3), (2, 0), (2, 1, 3)])
@pytest.mark.parametrize("traced", [False, True])
def test_any_shape_in_the_graph(shape, traced):
    encode = lambda tokens: characters_of_tokens(tokens, 6)  # noqa: E731
    if traced:
        encode = tf.function(encode, input_signature=[tf.TensorSpec(None, tf.string)])
    ids = encode(tf.fill(shape, "ab"))
    assert ids.shape == (*shape, 6)
    np.testing.assert_array_equal(ids, np.broadcast_to([259, 98, 99, 260, 261, 261], (*shape, 6)))


@pytest.mark.traced
def test_static_shape_is_kept_where_known():
    for shape, expected in (((None, 3), [None, 3, 8]), ((None, None), [None, None, 8])):
        function = tf.function(lambda tokens: characters_of_tokens(tokens, 8))
        concrete = function.get_concrete_function(tf.TensorSpec(shape, tf.string))
        assert concrete.structured_outputs.shape.as_list() == expected


def test_text_with_undecodable_bytes_keeps_them():
    for raw in (b"caf\xe9", b"\xff\xfe", b"\xed\xa0\x80"):
        assert token_bytes(raw.decode("utf-8", "surrogateescape")) == raw
    assert token_bytes("a\ud83db\udce9") == b"ab\xe9"  # the first surrogate is dropped
    assert token_bytes("\U0001f642") == "\U0001f642".encode()
    with pytest.raises(InputError, match=r"must be a token \(str or bytes\), got 7"):
        token_bytes(7)


def test_batch_to_ids_pads_with_zeros_only():
    ids = batch_to_ids([["a", "bc"], [], ["", b"d", np.str_("e")]], max_characters=5)
    assert ids.shape == (3, 3, 5)
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(ids[1], np.zeros((3, 5)))
    np.testing.assert_array_equal(ids[0], [encode_token("a", 5), encode_token("bc", 5), [0] * 5])
    np.testing.assert_array_equal(ids[2], [encode_token(token, 5) for token in ("", "d", "e")])


def test_batch_to_ids_of_nothing():
    assert batch_to_ids([]).shape == (0, 0, 50)
    assert batch_to_ids([[], []], 7).shape == (2, 0, 7)
    assert batch_to_ids(np.empty((0, 4), object), 7).shape == (0, 0, 7)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("The cat", r"^sentences must be a list of token lists, got 'The cat'; split it into"),
        (["The cat"], r"^sentences\[0\] must be a list of tokens, got 'The cat'; split it into"),
        ([["a"], b"b"], r"^sentences\[1\] must be a list of tokens, got b'b'; split it into"),
        ([["a"], 3], r"^sentences\[1\] must be a list of tokens, got 3$"),
        ([["a", None]], r"^sentences\[0\]\[1\] must be a token \(str or bytes\), got None$"),
        ([["a"], [["b"]]], r"^sentences\[1\]\[0\] must be a token \(str or bytes\), got \['b'\]$"),
        (None, r"^sentences must be a list of token lists, got None$"),
    ],
)
def test_what_is_no_list_of_token_lists_is_named(sentences, message):
    with pytest.raises(InputError, match=message) as error:
        batch_to_ids(sentences)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("max_characters", [2, 0, -1, 5.0, "50", None, True])
def test_wrong_max_characters(max_characters):
    calls = (
        lambda: encode_token("a", max_characters),
        lambda: batch_to_ids([["a"]], max_characters),
        lambda: boundary_characters(max_characters),
        lambda: characters_of_tokens(tf.constant(["a"]), max_characters),
    )
    for call in calls:
        with pytest.raises(InputError, match=r"^max_characters must be an integer >= 3, got"):
            call()


def test_ten_thousand_tokens_are_quick():
    generator = random.Random(3)
    sentences = [[random_token(generator, 12) for _ in range(25)] for _ in range(400)]
    times = []
    for _ in range(3):
        start = time.perf_counter()
        batch_to_ids(sentences)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.2


def test_python_side_does_not_import_tensorflow():
    program = (
        "import sys; from elmo_tf.text import characters; "
        "assert characters.batch_to_ids([['a']]).shape == (1, 1, 50); "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_codes_are_the_published_ones():
    assert characters.PADDING == 0
    assert (characters.BEGIN_SENTENCE, characters.END_SENTENCE) == (257, 258)
    assert (characters.BEGIN_WORD, characters.END_WORD, characters.FILLER) == (259, 260, 261)
    assert characters.NUM_CHARACTERS == 261
