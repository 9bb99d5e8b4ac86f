import json
import os
import resource
import signal
import stat

import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage import files


def test_written_file_appears_whole_and_alone(tmp_path):
    path = tmp_path / "out.txt"
    with files.write_atomically(path) as temporary:
        with open(temporary, "x") as file:
            file.write("first")
        assert not path.exists()
        (hidden,) = os.listdir(tmp_path)
        assert os.path.dirname(temporary) == str(tmp_path / hidden)
        assert hidden.startswith(".out.txt.") and hidden.endswith(".tmp")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failure_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("old")

    def write_half():
        with files.write_atomically(path) as temporary, open(temporary, "x") as file:
            file.write("half of the n")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_block_that_writes_nothing_fails_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(FileNotFoundError), files.write_atomically(path):
        pass
    assert path.read_text() == "old"


def test_permissions_are_those_of_an_ordinary_file(tmp_path):
    with open(tmp_path / "ordinary", "w"):
        pass
    files.write_json(tmp_path / "ours", {})
    modes = [stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("ordinary", "ours")]
    assert modes[0] == modes[1]


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for path in ("/dev/null", tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(InputError, match="is not a regular file"):
            files.check_target(path)
        with pytest.raises(InputError, match="is not a regular file"):
            files.write_json(path, {})


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    files.write_json(tmp_path / "link", {"a": 1})
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "target").read_text()) == {"a": 1}


def test_home_directory_and_current_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    files.write_json("~/a.json", {"a": 1})
    files.write_json("b.json", {"b": 2})
    assert files.read_json("~/a.json") == {"a": 1}
    assert files.read_json("b.json") == {"b": 2}
    assert sorted(os.listdir(tmp_path)) == ["a.json", "b.json"]


def test_long_names_are_no_obstacle(tmp_path):
    name = "n" * 250 + ".json"
    files.write_json(tmp_path / name, {"a": 1})
    assert files.read_json(tmp_path / name) == {"a": 1}


def test_wrong_targets(tmp_path):
    with pytest.raises(InputError, match="is a directory"):
        files.write_json(tmp_path, {})
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=r"can't be made, since .*file is not a directory"):
        files.write_json(tmp_path / "file" / "out.json", {})
    assert os.listdir(tmp_path) == ["file"]


def test_missing_parents_are_made_and_removed_again_after_a_failure(tmp_path):
    files.write_json(tmp_path / "a/b/out.json", {"a": 1})
    assert files.read_json(tmp_path / "a/b/out.json") == {"a": 1}

    def fail():
        with files.write_atomically(tmp_path / "a/c/d/out"):
            raise InputError("failed")

    with pytest.raises(InputError, match="failed"):
        fail()
    assert os.listdir(tmp_path / "a") == ["b"]


def test_paths_that_are_not_utf8(tmp_path):
    files.write_json(tmp_path / "\udcff.json", {"a": 1})
    assert files.read_json(tmp_path / "\udcff.json") == {"a": 1}
    files.require_utf8(tmp_path / "語")
    with pytest.raises(InputError, match="TensorFlow takes only paths in UTF-8"):
        files.require_utf8(tmp_path / "\udcff.json")
    with pytest.raises(InputError, match="cannot be read: embedded null byte"):
        files.read_json("a\0b")


@pytest.mark.parametrize("written", [0, 100])
def test_a_full_disk_names_the_file(tmp_path, written):
    """A limit on file sizes simulates it; the system then fails each write."""
    path = tmp_path / "out.txt"
    path.write_text("old")

    def write():
        with files.write_atomically(path) as temporary, open(temporary, "xb", 0) as file:
            file.write(bytes(written))
            file.write(bytes(4096))

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (written, before[1]))
    try:
        with pytest.raises(InputError) as caught:
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert str(caught.value) == f"{path}: cannot be written: File too large"
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_byte_order_mark_is_dropped():
    assert files.parse_json(b"\xef\xbb\xbf" + '{"ключ": "é"}'.encode(), "x") == {"ключ": "é"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "o.json:1: is not JSON: Expecting value (column 1)"),
        (b'{"a": 1,\n "b": }\n', "o.json:2: is not JSON: Expecting value (column 7)"),
        (b'{"a": 1', "o.json:1: is not JSON: Expecting ',' delimiter (column 8)"),
        (b'{\n"a": "\xff"}', "o.json:2: is not UTF-8: byte 0xff at 8"),
        (b"[1, 2]", "o.json: must hold a JSON object {...}, got list"),
        (b"null", "o.json: must hold a JSON object {...}, got NoneType"),
    ],
)
def test_what_is_not_a_json_object(content, message, tmp_path):
    with pytest.raises(InputError) as caught:
        files.parse_json(content, "o.json")
    assert str(caught.value) == message
    (tmp_path / "o.json").write_bytes(content)
    with pytest.raises(InputError) as caught:
        files.read_json(tmp_path / "o.json")
    assert str(caught.value) == f"{tmp_path}/{message}"


@pytest.mark.parametrize("content", [b"[" * 200_000, b'{"a": ' + b"1" * 5000 + b"}"])
def test_json_beyond_the_limits_of_python(content):
    with pytest.raises(InputError, match=r"^o\.json: is not JSON that can be read: [^\n]*$"):
        files.parse_json(content, "o.json")


def test_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"absent\.json: cannot be read: No such file"):
        files.read_json(tmp_path / "absent.json")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        files.read_json(tmp_path)
