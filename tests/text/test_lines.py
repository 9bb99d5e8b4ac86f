"""Lines of files: all kinds of line ends, and unreadable files."""

import os

import pytest

from elmo_tf.errors import InputError
from elmo_tf.text.lines import check_utf8, expand_globs, read_lines, read_lines_from


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\nb", [b"a", b"b"]),
        (b"a\r\r\n\r\n\nb\r", [b"a\r", b"", b"", b"b\r"]),
        (b"a\rb\n", [b"a\rb"]),
        (b" a \t\n\xc2\xa0b\xc2\x85\n", [b" a \t", b"\xc2\xa0b\xc2\x85"]),
        (b"a\x0bb\x0cc\x1cd\xe2\x80\xa8e\n", [b"a\x0bb\x0cc\x1cd\xe2\x80\xa8e"]),
        (b"\0\n\xff\n", [b"\0", b"\xff"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [b""]),
        (b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb", [b"a", b"\xef\xbb\xbfb"]),
    ],
)
def test_only_line_ends_and_the_mark_are_dropped(tmp_path, content, lines):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    assert list(read_lines(path)) == list(enumerate(lines, start=1))


def test_reading_on_from_any_line(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\ntwo two\nthree")
    everything = list(read_lines_from(path))
    assert [(number, line) for number, line, _ in everything] == list(read_lines(path))
    for position, (number, _, offset) in enumerate(everything):
        assert list(read_lines_from(path, offset, number)) == everything[position + 1 :]
    assert everything[-1][2] == path.stat().st_size


def test_a_very_long_line(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"x" * 20_000_000 + b"\r\nlast")
    (_, first), (_, last) = read_lines(path)
    assert (len(first), last) == (20_000_000, b"last")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("é\n".encode("utf-16"), "is UTF-16 and not UTF-8"),
        (b"\xfe\xff\0a", "is UTF-16 and not UTF-8"),
        (b"\x1f\x8b\x08", "is compressed with gzip"),
        (b"\x89HDF\r\n\x1a\n", "is an HDF5 file"),
    ],
)
def test_what_is_plainly_no_text(tmp_path, content, message):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{path}: {message}"):
        list(read_lines(path))


def test_missing_files_and_directories(tmp_path):
    with pytest.raises(InputError, match=r"none\.txt: cannot be read: No such file or directory$"):
        list(read_lines(tmp_path / "none.txt"))
    with pytest.raises(InputError, match=r": cannot be read: Is a directory$"):
        list(read_lines(tmp_path))


def test_check_utf8():
    check_utf8("é\0".encode(), "x.txt", 1)
    message = r"^x\.txt:7: is not UTF-8: byte 0xe9 at byte 4 of the line$"
    with pytest.raises(InputError, match=message):
        check_utf8(b"caf\xe9 ", "x.txt", 7)


def test_globs(in_folder, monkeypatch):
    for name in ("b.txt", "a.txt", "c[1].txt", "d,e.txt", "sub/deep/a.txt", ".hidden.txt"):
        path = in_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setenv("HOME", str(in_folder / "sub"))
    assert expand_globs("?.txt", "--files") == ["a.txt", "b.txt"]
    assert expand_globs("b.txt, a*.txt ,b.txt,", "--files") == ["a.txt", "b.txt"]
    assert expand_globs("c[1].txt", "--files") == ["c[1].txt"]
    assert expand_globs("d,e.txt", "--files") == ["d,e.txt"]
    assert expand_globs("s*/**/a.txt", "--files") == [os.path.join("sub", "deep", "a.txt")]
    assert expand_globs("~/deep/*", "--files") == [str(in_folder / "sub" / "deep" / "a.txt")]
    assert expand_globs("*", "--files") == ["a.txt", "b.txt", "c[1].txt", "d,e.txt"]
    os.symlink("b.txt", "link.txt")
    os.link("b.txt", "z.txt")
    names = f"./a.txt,a.txt,link.txt,b.txt,z.txt,{os.path.abspath('a.txt')}"
    assert [os.path.basename(path) for path in expand_globs(names, "--files")] == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("none.txt", "--files: no file matches none.txt"),
        ("a.txt,none*", r"--files: no file matches none\*"),
        ("s*", r"--files: no file matches s\*"),
        ("sub", "--files: sub is a directory; for its files give sub/*"),
        ("", "--files: no file given"),
        (" , ", "--files: no file given"),
        ("a\0b", "--files: no file matches a\0b"),
    ],
)
def test_globs_that_match_nothing(in_folder, patterns, message):
    (in_folder / "a.txt").touch()
    (in_folder / "sub").mkdir()
    with pytest.raises(InputError, match=f"^{message}"):
        expand_globs(patterns, "--files")


def test_a_pipe_can_be_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # lets the writer open
    with open(path, "wb") as writer:
        writer.write(b"a\nb")
        writer.flush()
        lines = read_lines(path)
        assert next(lines) == (1, b"a")
    os.close(reader)
    assert list(lines) == [(2, b"b")]
