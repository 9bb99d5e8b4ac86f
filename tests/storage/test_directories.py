"""Directories appear whole or not at all, and nothing is lost on the way."""

import os
import tarfile
import time

import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage import directories


def is_ours(path):
    return os.path.isfile(os.path.join(path, "mark"))


def write(path, content, overwrite=False):
    with directories.write_directory_atomically(path, overwrite, is_ours) as folder:
        assert folder != str(path)
        os.mkdir(os.path.join(folder, "below"))
        for name in ("mark", "below/file"):
            with open(os.path.join(folder, name), "w") as file:
                file.write(content)


def content(path):
    return {
        str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file()
    }


def test_writes_a_directory(tmp_path):
    write(tmp_path / "new", "one")
    assert content(tmp_path) == {"new/mark": "one", "new/below/file": "one"}


def test_has_the_permissions_of_an_ordinary_directory(tmp_path):
    write(tmp_path / "new", "one")
    (tmp_path / "ordinary").mkdir()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_nothing_is_at_the_target_before_the_end(tmp_path):
    with directories.write_directory_atomically(tmp_path / "new", False, is_ours) as folder:
        assert not (tmp_path / "new").exists()
        name = os.path.basename(folder)
        assert os.path.dirname(folder) == str(tmp_path)
        assert name.startswith(".") and name.endswith(".tmp")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_write_leaves_nothing(tmp_path, error):
    def interrupted():
        with directories.write_directory_atomically(tmp_path / "new", False, is_ours) as folder:
            os.mkdir(os.path.join(folder, "below"))
            raise error

    with pytest.raises(error):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_replacement_leaves_the_former(tmp_path):
    write(tmp_path / "new", "one")

    def interrupted():
        with directories.write_directory_atomically(tmp_path / "new", True, is_ours):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert content(tmp_path) == {"new/mark": "one", "new/below/file": "one"}


def test_a_failed_move_puts_the_former_back(tmp_path, monkeypatch):
    write(tmp_path / "new", "one")
    rename, moves = os.rename, []

    def second_fails(source, target):
        moves.append((source, target))
        if len(moves) == 2:
            raise OSError("no")
        rename(source, target)

    monkeypatch.setattr(os, "rename", second_fails)
    with pytest.raises(OSError, match="no"):
        write(tmp_path / "new", "two", overwrite=True)
    assert content(tmp_path) == {"new/mark": "one", "new/below/file": "one"}


def test_replaces_all_of_the_former(tmp_path):
    write(tmp_path / "new", "one")
    (tmp_path / "new" / "more").write_text("more")
    write(tmp_path / "new", "two", overwrite=True)
    assert content(tmp_path) == {"new/mark": "two", "new/below/file": "two"}


def test_what_exists_is_refused(tmp_path):
    write(tmp_path / "new", "one")
    with pytest.raises(InputError, match="new: already exists; --overwrite"):
        write(tmp_path / "new", "two")
    assert content(tmp_path / "new")["mark"] == "one"


def test_an_empty_directory_is_refused_and_can_be_replaced(tmp_path):
    (tmp_path / "new").mkdir()
    with pytest.raises(InputError, match="already exists"):
        write(tmp_path / "new", "one")
    write(tmp_path / "new", "one", overwrite=True)
    assert content(tmp_path / "new")["mark"] == "one"


def test_something_else_is_never_replaced(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="home: holds something else than an earlier export"):
        write(tmp_path / "home", "one", overwrite=True)
    assert content(tmp_path) == {"home/thesis.tex": "years of work"}


def test_what_another_process_wrote_meanwhile_is_not_replaced(tmp_path):
    def write_second():
        with directories.write_directory_atomically(tmp_path / "new", False, is_ours):
            write(tmp_path / "new", "one")

    with pytest.raises(OSError, match="not empty"):
        write_second()
    assert content(tmp_path) == {"new/mark": "one", "new/below/file": "one"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_no_target(tmp_path, overwrite):
    (tmp_path / "file").write_text("one")
    with pytest.raises(InputError, match="file: is a file, not a directory"):
        write(tmp_path / "file", "one", overwrite)
    assert (tmp_path / "file").read_text() == "one"


def test_a_missing_parent_is_named(tmp_path):
    with pytest.raises(InputError, match="new: the directory .*/missing does not exist"):
        write(tmp_path / "missing" / "new", "one")


def test_home_is_expanded_and_links_are_followed(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write("~/new", "one")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    write(tmp_path / "link", "two", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "new/mark").read_text() == "two"


def test_archive_has_everything_at_its_root(tmp_path):
    write(tmp_path / "new", "one")
    path = directories.archive_path(f"{tmp_path}/new/")
    assert path == str(tmp_path / "new.tar.gz")
    directories.write_archive(path, tmp_path / "new")
    with tarfile.open(path) as archive:
        assert archive.getnames() == ["below", "below/file", "mark"]
        archive.extractall(tmp_path / "unpacked", filter="data")
        for member in archive:
            assert (member.uid, member.uname, member.mtime) == (0, "", 0)
    assert content(tmp_path / "unpacked") == content(tmp_path / "new")


def test_equal_directories_give_equal_archives(tmp_path):
    for number, name in enumerate(("one", "two")):
        write(tmp_path / name, "same")
        os.chmod(tmp_path / name / "mark", 0o600 + 0o44 * number)
        os.utime(tmp_path / name / "mark", (number, number))
        time.sleep(0.02)
        directories.write_archive(str(tmp_path / f"{name}.tar.gz"), tmp_path / name)
    one, two = ((tmp_path / f"{name}.tar.gz").read_bytes() for name in ("one", "two"))
    assert one == two


def test_archive_is_refused_where_it_exists(tmp_path):
    path = tmp_path / "new.tar.gz"
    directories.check_archive_target(str(path), False)
    path.write_text("one")
    with pytest.raises(InputError, match=r"new.tar.gz: already exists; --overwrite"):
        directories.check_archive_target(str(path), False)
    directories.check_archive_target(str(path), True)


def test_size(tmp_path):
    write(tmp_path / "new", "x" * 600_000)
    assert directories.size_in_words(tmp_path / "new/mark") == "0.6 MB"
    assert directories.size_in_words(tmp_path / "new") == "1.2 MB"
