"""The command elmo-vocab: the vocabulary file, and errors."""

import os
import re
import tracemalloc

import pytest

from elmo_tf import vocab
from elmo_tf.text import tokens
from elmo_tf.text.vocabulary import Vocabulary

SPECIAL = [b"<S>", b"</S>", b"<UNK>"]
TEXT = b"\xef\xbb\xbfthe cat sat\r\n\r\non  the mat\tthe end"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_bytes(TEXT)
    return tmp_path


def run(*arguments, inputs="text.txt", output="vocab"):
    return vocab.main([f"--input_files={inputs}", f"--output_file={output}", *arguments])


def test_writes_the_vocabulary_and_says_what_it_is(folder, capsys):
    assert run() == 0
    words = [b"the", b"cat", b"end", b"mat", b"on", b"sat"]
    assert (folder / "vocab").read_bytes() == b"".join(word + b"\n" for word in SPECIAL + words)
    assert capsys.readouterr() == (
        "8 tokens in 2 sentences, 6 distinct; kept 6 words, 100.00% of the tokens; "
        "wrote 9 lines to 'vocab'\n",
        "",
    )


def test_several_files_and_limits(folder, capsys):
    (folder / "more.txt").write_bytes(b"<S> cat dog </S>\ndog <UNK> dog dog\n")
    assert run("--min_count=2", "--max_size=5", inputs="t*.txt,more.txt") == 0
    assert Vocabulary.from_file("vocab").words == [*SPECIAL, b"dog", b"the"]
    assert capsys.readouterr().out == (
        "16 tokens in 4 sentences, 10 distinct; kept 2 words, 56.25% of the tokens; "
        "wrote 5 lines to 'vocab'\n"
    )


def test_raw_text(folder):
    (folder / "text.txt").write_bytes("Don't, cafe\u0301!\n".encode())
    assert run("--tokenizer=unicode_punctuation", "--normalize=nfc") == 0
    words = [word.encode() for word in ("!", "'", ",", "Don", "café", "t")]
    assert Vocabulary.from_file("vocab").words == SPECIAL + words


def test_training_fixture(fixtures_dir, folder):
    """The fixture's vocabulary has the frequent words of its text; ours has all words."""
    training = fixtures_dir / "training"
    assert run(inputs=training / "train.txt") == 0
    theirs = Vocabulary.from_file(training / "vocab.txt").words
    assert set(theirs) <= set(Vocabulary.from_file("vocab").words)


def test_an_existing_file_is_replaced_and_nothing_else_is_left(folder):
    (folder / "vocab").write_bytes(b"old")
    assert run() == 0
    assert Vocabulary.from_file("vocab").words[3] == b"the"
    assert sorted(os.listdir(folder)) == ["text.txt", "vocab"]


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"", (), "--input_files: no tokens in text.txt"),
        (b"\n \t\r\n", (), "--input_files: no tokens in text.txt"),
        (b"<S> <UNK>\n", (), "no words to make a vocabulary of"),
        (b"a b a\n", ("--min_count=3",), "min_count must be at most 2, .*, got 3"),
        (b"a\ncaf\xe9 b\n", (), "text.txt:2: is not UTF-8: byte 0xe9 at byte 4 of the line"),
        (b"\xff\xfea\0\n\0", (), "text.txt: is UTF-16 and not UTF-8; .*"),
    ],
)
def test_text_without_a_vocabulary_leaves_the_old_file(folder, capfd, content, arguments, message):
    (folder / "text.txt").write_bytes(content)
    (folder / "vocab").write_bytes(b"old")
    assert run(*arguments) == 1
    output, errors = capfd.readouterr()
    assert output == ""
    assert re.fullmatch(f"elmo-vocab: {message}\n", errors)
    assert (folder / "vocab").read_bytes() == b"old"
    assert sorted(os.listdir(folder)) == ["text.txt", "vocab"]


@pytest.mark.parametrize(
    ("inputs", "output", "status", "message"),
    [
        ("none*", "vocab", 1, "--input_files: no file matches none*"),
        (
            "text.txt",
            "text.txt/v",
            1,
            "text.txt/v: can't be made, since {}/text.txt is not a directory",
        ),
        ("text.txt", ".", 1, ".: is a directory, not a file to write to"),
        ("*.txt", "text.txt", 2, "--output_file: text.txt is one of --input_files too"),
        (
            "text.txt",
            "/dev/null",
            1,
            "/dev/null: is not a regular file, and would be replaced by one",
        ),
    ],
)
def test_wrong_places_are_found_before_reading(
    folder, capsys, monkeypatch, inputs, output, status, message
):
    monkeypatch.setattr(vocab, "_read", lambda paths: pytest.fail("read the text"))
    assert run(inputs=inputs, output=output) == status
    assert capsys.readouterr().err == f"elmo-vocab: {message.format(folder)}\n"


def test_memory_grows_with_distinct_words_only(folder, monkeypatch):
    monkeypatch.setattr(tokens, "_BATCH_BYTES", 10_000)
    (folder / "text.txt").write_bytes(b"some words again and again\n" * 50_000)
    run()  # imports modules first
    tracemalloc.start()
    assert run() == 0
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000 < (folder / "text.txt").stat().st_size
