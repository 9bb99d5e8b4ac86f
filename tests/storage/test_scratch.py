"""New files and directories are moved into place, or leave nothing behind, not even parents."""

import os
import signal

import pytest

from elmo_tf.storage import scratch
from elmo_tf.storage.scratch import replacement

KINDS = ["file", "directory"]


def make(path, kind, content="new"):
    if kind == "directory":
        os.mkdir(path)
        path = os.path.join(path, "inside")
    with open(path, "x") as file:
        file.write(content)


def read(path):
    return (path / "inside" if path.is_dir() else path).read_text()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["out", "n" * 255, "語" * 85, "\udcff\udc80", "a[b]*?.x"])
def test_names(tmp_path, kind, name):
    for content in ("one", "two"):
        with replacement(str(tmp_path / name)) as new:
            make(new, kind, content)
    assert os.listdir(tmp_path) == [name]
    assert read(tmp_path / name) == "two"


def test_parents_are_made_and_removed_with_what_failed(tmp_path):
    target = tmp_path / "models/elmo/1"

    def fail():
        with replacement(str(target)):
            assert target.parent.is_dir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert os.listdir(tmp_path) == []
    (tmp_path / "models").mkdir()
    with pytest.raises(KeyboardInterrupt):
        fail()
    assert os.listdir(tmp_path) == ["models"]
    assert os.listdir(tmp_path / "models") == []
    with replacement(str(target)) as new:
        make(new, "file")
    assert read(target) == "new"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("death", ["SIGKILL", "KeyboardInterrupt"])
def test_died_at_any_call(tmp_path, kind, death):
    """The target is the old or the new one, and the next call removes the remains of a kill."""
    statuses = []
    for call in range(1, 100):
        place = tmp_path / str(call)
        place.mkdir()
        make(place / "out", kind, "former")
        statuses.append(_victim(call, kind, str(place / "out"), death))
        if death == "KeyboardInterrupt":
            assert os.listdir(place) == ["out"]
        scratch.remove_leftovers(str(place / "out"))
        assert os.listdir(place) == ["out"]
        assert read(place / "out") in ("former", "new")
        if statuses[-1] == 0:
            assert read(place / "out") == "new"
            break
    assert len(statuses) == (5 if kind == "file" else 8)
    assert set(statuses[:-1]) == {-9 if death == "SIGKILL" else 3}


def _victim(call, kind, target, death):
    """The exit status of a fork in which the `call`-th system call fails."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        count = 0

        def fragile(function):
            def called(*arguments, **options):
                nonlocal count
                count += 1
                if count == call:
                    if death == "SIGKILL":
                        os.kill(os.getpid(), signal.SIGKILL)
                    raise KeyboardInterrupt
                return function(*arguments, **options)

            return called

        for name in ("mkdir", "rename", "replace", "fsync"):
            setattr(os, name, fragile(getattr(os, name)))
        with replacement(target) as new:
            make(new, kind)
        os._exit(0)
    except KeyboardInterrupt:
        os._exit(3)
    finally:
        os._exit(4)


@pytest.mark.parametrize("kind", KINDS)
def test_one_in_use_is_left_alone(tmp_path, kind):
    target = str(tmp_path / "out")
    with replacement(target) as new:
        make(new, kind, "one")
        scratch.remove_leftovers(target)
        with replacement(target) as other:
            make(other, kind, "two")
        assert read(tmp_path / "out") == "two"
    assert os.listdir(tmp_path) == ["out"]
    assert read(tmp_path / "out") == "one"


def test_only_what_is_surely_a_leftover_is_removed(tmp_path):
    target = str(tmp_path / "out")
    with replacement(target) as new:
        make(new, "file")
        ours = os.path.basename(os.path.dirname(new))
    kept = {
        f".other{ours[4:]}": "of another target",
        f"{ours[:-5]}g.tmp": "of another form",
        ours.replace(".tmp", ""): "of another form",
        f".out.{'0' * 8}{ours[13:]}": "of another machine",
    }
    for name in (*kept, ours):
        (tmp_path / name).mkdir()
    (tmp_path / f"{ours[:-5]}0.tmp").write_text("a file")
    scratch.remove_leftovers(target)
    assert set(os.listdir(tmp_path)) == {*kept, f"{ours[:-5]}0.tmp", "out"}


def test_where_directories_cannot_be_locked_nothing_is_removed(tmp_path, monkeypatch):
    target = str(tmp_path / "out")
    with replacement(target) as new:
        make(new, "file")
        folder = os.path.dirname(new)
    monkeypatch.setattr(scratch, "take_lock", lambda descriptor: False)
    os.mkdir(folder)
    with replacement(target) as new:
        make(new, "file", "again")
    assert sorted(os.listdir(tmp_path)) == [os.path.basename(folder), "out"]
    assert read(tmp_path / "out") == "again"
