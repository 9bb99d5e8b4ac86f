"""Vocabularies: ids, errors in files, and selection of words."""

import random
from collections import Counter

import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.text.vocabulary import (
    SPECIAL_TOKENS,
    Vocabulary,
    build_vocabulary,
    choose_words,
    count_tokens,
)

SPECIAL = b"<S>\n</S>\n<UNK>\n"


def read(tmp_path, content):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    return Vocabulary.from_file(path)


def problem(tmp_path, content):
    """The message without its prefix, the file's name."""
    with pytest.raises(InputError) as error:
        read(tmp_path, content)
    message = str(error.value)
    prefix = f"{tmp_path / 'vocab.txt'}: "
    assert message.startswith(prefix)
    assert "\n" not in message
    return message.removeprefix(prefix)


def test_ids_are_lines_wherever_the_special_tokens_stand(tmp_path):
    vocabulary = read(tmp_path, b"the\n</S>\ncat\n<UNK>\n<S>\nsat")
    assert vocabulary.words == [b"the", b"</S>", b"cat", b"<UNK>", b"<S>", b"sat"]
    assert len(vocabulary) == 6
    assert (vocabulary.begin_id, vocabulary.end_id, vocabulary.unknown_id) == (4, 1, 3)
    assert vocabulary.id_of(b"sat") == 5
    assert vocabulary.id_of(b"Sat") == 3
    ids = vocabulary.ids([b"sat", b"</S>", b"no", b"", b"the"])
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(ids, [5, 1, 3, 3, 0])
    assert vocabulary.ids([]).shape == (0,)
    assert b"cat" in vocabulary
    assert b"cats" not in vocabulary


def test_published_vocabularies_can_be_read(fixtures_dir):
    vocabulary = Vocabulary.from_file(fixtures_dir / "training" / "vocab.txt")
    assert len(vocabulary) == 74  # n_tokens_vocab of its options
    assert vocabulary.words[:3] == list(SPECIAL_TOKENS)
    # This one was only ever used to encode, which needs no vocabulary.
    with pytest.raises(InputError, match=r"vocab_test\.txt: the line <UNK> is missing$"):
        Vocabulary.from_file(fixtures_dir / "bilm_tf" / "vocab_test.txt")


def test_byte_order_mark_and_carriage_returns_are_accepted(tmp_path):
    vocabulary = read(tmp_path, b"\xef\xbb\xbf<S>\r\n</S>\r\n<UNK>\r\ncaf\xc3\xa9\r\n")
    assert vocabulary.words == [*SPECIAL_TOKENS, "café".encode()]


def test_only_line_ends_are_stripped(tmp_path):
    words = [" a", "a", "a ", "a\u00a0", "\u00a0", "\u3000", "a\tb", "\u2028", "\x1c", "\u0085"]
    words = [word.encode() for word in words] + [b"\0", b"a\x0bb"]
    vocabulary = read(tmp_path, SPECIAL + b"\n".join(words) + b"\n")
    assert vocabulary.words[3:] == words
    vocabulary.write(tmp_path / "again.txt")
    assert Vocabulary.from_file(tmp_path / "again.txt").words == vocabulary.words
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "vocab.txt").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\na\n", "line 6 repeats line 4, 'a'"),
        (b"a\n\nb\n", "line 5 is blank"),
        (b"a\n\n", "line 5 is blank"),
        (b"a\n \t\r\n", "line 5 is blank"),
        (b"caf\xe9\n", "line 4 is not UTF-8: byte 0xe9 at byte 4"),
        (b"a\rb\n", "line 4 holds a line feed or carriage return inside"),
        (b"<UNK>\n", "line 4 repeats line 3, '<UNK>'"),
        (b"a\n\n\na\na\nb\na\n\xff\n", None),
    ],
)
def test_wrong_lines_are_named(tmp_path, content, message):
    if message is None:
        message = (
            "line 5 is blank; line 6 is blank; line 7 repeats line 4, 'a'; "
            "line 8 repeats line 4, 'a'; line 10 repeats line 4, 'a'; and 1 more"
        )
    assert problem(tmp_path, SPECIAL + content) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the line <S> is missing; the line </S> is missing; the line <UNK> is missing"),
        (b"<s>\n</S>\n<UNK>\n", "the line <S> is missing (line 1 has '<s>')"),
        (b"<S>\na\n</s>\n<UNK>\n", "the line </S> is missing (line 3 has '</s>')"),
        (
            b"<S>\n</S>\n<unk>\n[UNK]\n<UNK> \n",
            "the line <UNK> is missing (line 3 has '<unk>', line 4 has '[UNK]')",
        ),
        (b"<S>\n</S>\n<UNK> \n", "the line <UNK> is missing (line 3 has '<UNK> ')"),
        (
            "<S>\n</S>\n<UNK>\u00a0\n".encode(),
            r"the line <UNK> is missing (line 3 has '<UNK>\xa0')",
        ),
        (b"<S>\t9\n</S>\n<UNK>\n", r"the line <S> is missing (line 1 has '<S>\t9')"),
        (b"<BOS>\n<EOS>\n<UNK>\n's\nunk\nend\n", None),
    ],
)
def test_missing_special_tokens_are_named_with_near_misses(tmp_path, content, message):
    if message is None:
        message = (
            "the line <S> is missing (line 1 has '<BOS>'); "
            "the line </S> is missing (line 2 has '<EOS>')"
        )
    assert problem(tmp_path, content) == message


def test_other_files_are_not_taken_for_a_vocabulary(tmp_path):
    assert problem(tmp_path, "<S>\n".encode("utf-16")).startswith("is UTF-16 and not UTF-8")
    noise = random.Random(5).randbytes(3000)
    assert len(problem(tmp_path, noise)) < 1000


def test_words_by_falling_counts_then_bytes():
    sentences = [b"b a c a".split(), [], b"c d e d".split(), "é Z".encode().split()]
    vocabulary = build_vocabulary(sentences)
    expected = [b"a", b"c", b"d", b"Z", b"b", b"e", "é".encode()]
    assert vocabulary.words == [*SPECIAL_TOKENS, *expected]


def test_min_count_and_max_size():
    counts = Counter({b"a": 5, b"b": 3, b"c": 3, b"d": 1})
    assert choose_words(counts, min_count=3).words[3:] == [b"a", b"b", b"c"]
    assert choose_words(counts, max_size=5).words == [*SPECIAL_TOKENS, b"a", b"b"]
    assert choose_words(counts, max_size=99).words[3:] == [b"a", b"b", b"c", b"d"]
    assert choose_words(counts, min_count=4, max_size=5).words[3:] == [b"a"]


def test_special_tokens_in_the_text_are_not_counted_twice():
    vocabulary = build_vocabulary([b"<S> a </S> <UNK> <UNK> <UNK> <s>".split()])
    assert vocabulary.words == [*SPECIAL_TOKENS, b"<s>", b"a"]


def test_tokens_that_no_line_can_hold_are_left_out(tmp_path):
    tokens = [b"", b" ", b"a\nb", b"a\r", b"\xff", b"good", b"\xc2\xa0"]
    vocabulary = build_vocabulary([tokens])
    assert vocabulary.words[3:] == [b"good", b"\xc2\xa0"]
    vocabulary.write(tmp_path / "vocab.txt")
    assert Vocabulary.from_file(tmp_path / "vocab.txt").words == vocabulary.words


@pytest.mark.parametrize(
    ("counts", "arguments", "message"),
    [
        ({}, {}, "^no words to make a vocabulary of$"),
        ({b"<S>": 4, b"\xff": 2}, {}, "^no words to make a vocabulary of$"),
        ({b"a": 2}, {"min_count": 3}, "^min_count must be at most 2, .*, got 3$"),
        ({b"a": 2}, {"min_count": 0}, "^min_count must be an integer >= 1, got 0$"),
        ({b"a": 2}, {"max_size": 3}, "^max_size must be an integer >= 4, got 3"),
    ],
)
def test_a_vocabulary_without_words_is_refused(counts, arguments, message):
    with pytest.raises(InputError, match=message):
        choose_words(Counter(counts), **arguments)


def test_counts_and_coverage():
    text = count_tokens([b"a b a".split(), [], b"<UNK> c".split()])
    assert (text.num_sentences, text.num_tokens) == (2, 5)
    assert text.counts == {b"a": 2, b"b": 1, b"<UNK>": 1, b"c": 1}
    assert text.coverage(Vocabulary([*SPECIAL_TOKENS, b"a", b"c"])) == 3 / 5
    assert count_tokens([[]]).coverage(Vocabulary(SPECIAL_TOKENS)) == 0
