"""The lock on the directory of a run."""

import os
import socket
import subprocess
import sys

import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage import lock
from elmo_tf.storage.lock import run_lock


def test_one_at_a_time(tmp_path):
    with run_lock(str(tmp_path)):
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        with (
            pytest.raises(InputError, match=f".*: is in use: {holder} trains in it"),
            run_lock(str(tmp_path)),
        ):
            pytest.fail("two at once")
    with run_lock(str(tmp_path)):
        assert (tmp_path / "lock").read_text() == f"{holder}\n"


def test_a_process_that_is_killed_leaves_no_lock(tmp_path, project_dir):
    code = (
        "import sys, time\n"
        "from elmo_tf.storage.lock import run_lock\n"
        "with run_lock(sys.argv[1]):\n"
        "    print('locked', flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=project_dir) as process:
        assert process.stdout.readline() == b"locked\n"
        with (
            pytest.raises(InputError, match=f"is in use: process {process.pid} on "),
            run_lock(str(tmp_path)),
        ):
            pytest.fail("two at once")
        process.kill()
        process.wait()
        with run_lock(str(tmp_path)):
            pass


def test_a_new_directory_stays_only_if_a_run_is_begun_in_it(tmp_path):
    with pytest.raises(KeyError), run_lock(str(tmp_path / "run")):
        raise KeyError
    assert not (tmp_path / "run").exists()
    with run_lock(str(tmp_path / "run")):
        (tmp_path / "run" / "training.json").touch()
    assert sorted(os.listdir(tmp_path / "run")) == ["lock", "training.json"]


def test_what_fails_before_it_begins_leaves_no_lock(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(KeyError), run_lock(str(tmp_path)):
        raise KeyError
    assert os.listdir(tmp_path) == ["thesis.tex"]
    with run_lock(str(tmp_path)):
        pass
    with pytest.raises(KeyError), run_lock(str(tmp_path)):
        raise KeyError
    assert sorted(os.listdir(tmp_path)) == ["lock", "thesis.tex"]  # it was there before


def test_a_lock_that_another_process_removed_meanwhile_is_made_anew(tmp_path, monkeypatch):
    take_lock, path = lock.take_lock, tmp_path / "lock"
    calls = []

    def removed_first(descriptor):
        calls.append(descriptor)
        if len(calls) == 1:
            path.unlink()
        return take_lock(descriptor)

    monkeypatch.setattr(lock, "take_lock", removed_first)
    with run_lock(str(tmp_path)):
        assert path.read_text().startswith("process ")
        with pytest.raises(InputError, match="is in use"), run_lock(str(tmp_path)):
            pytest.fail("two at once")
    assert len(calls) == 3


def test_where_there_are_no_locks_nobody_is_kept_out(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    with run_lock(str(tmp_path)), run_lock(str(tmp_path)):
        pass


def test_a_file_in_place_of_the_directory(tmp_path):
    (tmp_path / "run").touch()
    with (
        pytest.raises(InputError, match="run: is not a directory"),
        run_lock(str(tmp_path / "run")),
    ):
        pytest.fail("a file was locked")
