import os
import threading

from elmo_tf.text.chunks import ChunkedText, Line
from elmo_tf.text.tokens import make_tokenizer

TEXT = b"\xef\xbb\xbfthe cat\r\n\n \t\nsat \xff\0 on\nit"
LINES = [
    Line(0, b"the cat", [b"the", b"cat"]),
    Line(1, b"", []),
    Line(2, b" \t", []),
    Line(3, b"sat \xff\0 on", [b"sat", b"\xff\0", b"on"]),
    Line(4, b"it", [b"it"]),
]


def make(path, content=TEXT):
    path.write_bytes(content)
    return ChunkedText(str(path), make_tokenizer())


def test_lines_with_numbers_and_tokens(tmp_path):
    text = make(tmp_path / "text")
    assert list(text.chunks(1000)) == [LINES]
    assert (text.num_lines, text.offset) == (5, len(TEXT))


def test_chunks_are_full_at_their_size_and_blank_lines_fill_them_too(tmp_path):
    numbers = [[line.number for line in chunk] for chunk in make(tmp_path / "t").chunks(32)]
    assert numbers == [[0, 1], [2, 3], [4]]
    text = make(tmp_path / "t", b"\n" * 10)
    assert [len(chunk) for chunk in text.chunks(64)] == [4, 4, 2]


def test_a_chunk_is_read_when_it_is_asked_for(tmp_path):
    text = make(tmp_path / "text")
    chunks = text.chunks(1)
    next(chunks), next(chunks)
    assert (text.num_lines, text.offset) == (2, 13)


def test_skipping_leaves_the_rest_and_the_same_digest(tmp_path):
    whole, skipped = make(tmp_path / "text"), make(tmp_path / "text")
    skipped.skip(3)
    assert skipped.num_lines == 3
    assert list(skipped.chunks(1000)) == [LINES[3:]]
    list(whole.chunks(7))
    assert skipped.digest == whole.digest
    skipped.skip(9)
    assert skipped.num_lines == 5


def test_digest_is_of_the_lines_whatever_ends_them(tmp_path):
    def digest(content):
        text = make(tmp_path / "text", content)
        text.skip(2)
        return text.digest

    assert digest(b"a\nbc\nd") == digest(b"a\r\nbc") == digest(b"\xef\xbb\xbfa\nbc\n")
    assert len({digest(text) for text in (b"a\nbc", b"ab\nc", b"a\nb", b"abc", b"a\n\nbc")}) == 5


def test_rewinding(tmp_path):
    text = make(tmp_path / "text")
    digest = text.digest
    text.skip(4)
    text.rewind()
    assert (text.num_lines, text.offset, text.digest) == (0, 0, digest)
    assert list(text.chunks(1000)) == [LINES]


def test_reads_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[TEXT])
    writer.start()
    text = ChunkedText(str(pipe), make_tokenizer())
    text.skip(2)
    assert list(text.chunks(1000)) == [LINES[2:]]
    writer.join()
