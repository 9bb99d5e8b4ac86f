"""The lock on the directory of a run."""

import os
import socket
import subprocess
import sys

import pytest

from elmo_tf.errors import InputError
from elmo_tf.storage.lock import run_lock


def test_one_at_a_time(tmp_path):
    with run_lock(str(tmp_path)):
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        with (
            pytest.raises(InputError, match=f"--model_dir: .* is in use: {holder} trains in it"),
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


def test_a_file_in_place_of_the_directory(tmp_path):
    (tmp_path / "run").touch()
    with (
        pytest.raises(InputError, match="--model_dir: .*run is not a directory"),
        run_lock(str(tmp_path / "run")),
    ):
        pytest.fail("a file was locked")
