"""Directories are written atomically, and nothing is lost."""

import errno
import os
import tarfile
import time

import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage import directories

CONTENTS = directories.Contents(("mark", "below/file"), ("mark",), ("below",))


def write(path, content, overwrite=False):
    with directories.write_directory_atomically(path, overwrite, CONTENTS) as folder:
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
    with directories.write_directory_atomically(tmp_path / "new", False, CONTENTS) as folder:
        assert not (tmp_path / "new").exists()
        (hidden,) = os.listdir(tmp_path)
        assert os.path.dirname(folder) == str(tmp_path / hidden)
        assert hidden.startswith(".new.") and hidden.endswith(".tmp")


@pytest.mark.parametrize("error", [OSError(5), KeyboardInterrupt(), SystemExit()])
def test_an_interrupted_write_leaves_nothing(tmp_path, error):
    def interrupted():
        with directories.write_directory_atomically(tmp_path / "new", False, CONTENTS) as folder:
            os.mkdir(os.path.join(folder, "below"))
            raise error

    with pytest.raises(type(error)):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_replacement_leaves_the_former(tmp_path):
    write(tmp_path / "new", "one")

    def interrupted():
        with directories.write_directory_atomically(tmp_path / "new", True, CONTENTS):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert content(tmp_path) == {"new/mark": "one", "new/below/file": "one"}


def test_a_failed_move_puts_the_former_back(tmp_path, monkeypatch):
    write(tmp_path / "new", "one")
    moves = []

    def second_fails(source, target):
        moves.append((source, target))
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "replace", second_fails)
    with pytest.raises(OSError, match="no"):
        write(tmp_path / "new", "two", overwrite=True)
    assert len(moves) == 1
    assert content(tmp_path) == {"new/mark": "one", "new/below/file": "one"}


def test_replaces_all_of_the_former(tmp_path):
    write(tmp_path / "new", "one")
    (tmp_path / "new/below/file").unlink()
    write(tmp_path / "new", "two", overwrite=True)
    assert content(tmp_path) == {"new/mark": "two", "new/below/file": "two"}


def test_what_exists_is_refused(tmp_path):
    write(tmp_path / "new", "one")
    with pytest.raises(InputError, match="new: already exists; overwrite=True"):
        write(tmp_path / "new", "two")
    assert content(tmp_path / "new")["mark"] == "one"


def test_an_empty_directory_is_refused_and_can_be_replaced(tmp_path):
    (tmp_path / "new").mkdir()
    with pytest.raises(InputError, match="already exists"):
        write(tmp_path / "new", "one")
    write(tmp_path / "new", "one", overwrite=True)
    assert content(tmp_path / "new")["mark"] == "one"


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("name", ["thesis.tex", "below/data/one", "data/one", "marks", "mark/one"])
def test_something_else_is_never_replaced(tmp_path, name, beside):
    """Other files, alone or next to an earlier output, in parents or in subdirectories."""
    path = tmp_path / "new" / name
    if beside and not name.startswith("mark/"):
        write(tmp_path / "new", "one")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("years of work")
    before = content(tmp_path)
    with pytest.raises(InputError, match="new: not replaced: it holds ") as caught:
        write(tmp_path / "new", "two", overwrite=True)
    shown = {"below/data/one": "below/data", "data/one": "data", "mark/one": "mark"}
    assert f"holds {shown.get(name, name)}" in str(caught.value)
    assert content(tmp_path) == before


def test_many_others_are_not_all_listed(tmp_path):
    write(tmp_path / "new", "one")
    for number in range(20):
        (tmp_path / f"new/chapter{number:02}").touch()
    with pytest.raises(InputError, match="chapter04 and more, which is no part of an export$"):
        write(tmp_path / "new", "two", overwrite=True)


def test_a_part_of_an_export_is_not_enough(tmp_path):
    (tmp_path / "new/below").mkdir(parents=True)
    with pytest.raises(InputError, match="new: not replaced: it is no export, as it has no mark"):
        write(tmp_path / "new", "two", overwrite=True)


def test_a_link_within_is_no_part_of_an_export(tmp_path):
    """Replacing would keep the link's target, but the link belongs to the user."""
    write(tmp_path / "new", "one")
    (tmp_path / "new/below/file").unlink()
    (tmp_path / "new/below").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "new/below").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="it holds below"):
        write(tmp_path / "new", "two", overwrite=True)


def test_what_came_while_the_new_one_was_made_is_kept(tmp_path):
    write(tmp_path / "new", "one")

    def come():
        with directories.write_directory_atomically(tmp_path / "new", True, CONTENTS):
            (tmp_path / "new/thesis.tex").write_text("years of work")

    with pytest.raises(InputError, match="it holds thesis.tex"):
        come()
    assert content(tmp_path)["new/thesis.tex"] == "years of work"
    assert os.listdir(tmp_path) == ["new"]


def test_a_full_disk_names_the_directory(tmp_path):
    def fill(error):
        with directories.write_directory_atomically(tmp_path / "new", False, CONTENTS) as folder:
            raise error(f"{folder}/options.json")

    for error in (
        lambda path: OSError(errno.ENOSPC, "No space left on device"),
        lambda path: OSError(errno.ENOSPC, "No space left on device", path),
    ):
        with pytest.raises(InputError) as caught:
            fill(error)
        assert str(caught.value) == f"{tmp_path}/new: cannot be written: No space left on device"
    with pytest.raises(InputError) as caught:
        fill(lambda path: InputError(f"{path}: cannot be written: No space left on device"))
    assert str(caught.value).startswith(f"{tmp_path}/new/options.json: cannot be written")
    with pytest.raises(OSError, match="/elsewhere"):  # of another file
        fill(lambda path: OSError(errno.EACCES, "Permission denied", "/elsewhere"))
    assert os.listdir(tmp_path) == []


def test_what_another_process_wrote_meanwhile_is_not_replaced(tmp_path):
    def write_second():
        with directories.write_directory_atomically(tmp_path / "new", False, CONTENTS):
            write(tmp_path / "new", "one")

    with pytest.raises(InputError, match="new: cannot be written: Directory not empty"):
        write_second()
    assert content(tmp_path) == {"new/mark": "one", "new/below/file": "one"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_no_target(tmp_path, overwrite):
    (tmp_path / "file").write_text("one")
    with pytest.raises(InputError, match="file: is a file, not a directory"):
        write(tmp_path / "file", "one", overwrite)
    assert (tmp_path / "file").read_text() == "one"


def test_missing_parents_are_made(tmp_path):
    write(tmp_path / "models/elmo/1", "one")
    assert content(tmp_path / "models/elmo/1")["mark"] == "one"


def test_parents_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="new: can't be made, since .*/file is not a directory"):
        write(tmp_path / "file" / "deep" / "new", "one")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(InputError, match=f"new: can't be made in {tmp_path}: no permission"):
        directories.check_directory_target(tmp_path / "deep" / "new", False, CONTENTS)


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
    directories.check_archive_target(str(path), False, CONTENTS)
    write(tmp_path / "new", "one")
    directories.write_archive(str(path), tmp_path / "new")
    with pytest.raises(InputError, match=r"new.tar.gz: already exists; overwrite=True"):
        directories.check_archive_target(str(path), False, CONTENTS)
    directories.check_archive_target(str(path), True, CONTENTS)


def test_an_archive_of_something_else_is_never_replaced(tmp_path):
    path = tmp_path / "new.tar.gz"
    (tmp_path / "data").mkdir()
    (tmp_path / "data/thesis.tex").write_text("years of work")
    directories.write_archive(str(path), tmp_path / "data")
    with pytest.raises(InputError, match="new.tar.gz: not replaced: it holds thesis.tex"):
        directories.check_archive_target(str(path), True, CONTENTS)
    for other in (b"", b"one", path.read_bytes()[:40]):
        path.write_bytes(other)
        with pytest.raises(InputError, match=r"new.tar.gz: is no .tar.gz that can be read: "):
            directories.check_archive_target(str(path), True, CONTENTS)


def test_size(tmp_path):
    write(tmp_path / "new", "x" * 600_000)
    assert directories.size_in_words(tmp_path / "new/mark") == "0.6 MB"
    assert directories.size_in_words(tmp_path / "new") == "1.2 MB"
