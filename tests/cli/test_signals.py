"""SIGTERM and SIGHUP: one line, the exit status of shells, and complete cleanup."""

import os
import signal
import threading
import time

import pytest
from absl import flags

from elmo_tf.cli import command_line, signals
from elmo_tf.storage import directories, files

pytestmark = pytest.mark.usefixtures("terminal_signals")
NUMBERS = [(signal.SIGTERM, 143), (signal.SIGHUP, 129)]


def run(body):
    return command_line.run(
        flags.FlagValues(), lambda options: body(), [], "", needs_tensorflow=False
    )


def send(number):
    os.kill(os.getpid(), number)
    time.sleep(60)  # Python runs signal handlers between two instructions


@pytest.mark.parametrize(("number", "status"), NUMBERS)
def test_one_line_and_no_partial_copy(tmp_path, capsys, number, status):
    (tmp_path / "vectors").write_text("the former")

    def write_a_file():
        with files.write_atomically(tmp_path / "vectors") as temporary:
            with open(temporary, "x") as file:
                file.write("half")
            send(number)

    def write_a_directory():
        contents = directories.SAVED_MODEL
        path = tmp_path / "models/1"
        with directories.write_directory_atomically(path, False, contents) as folder:
            os.mkdir(os.path.join(folder, "variables"))
            send(number)

    for body in (write_a_file, write_a_directory):
        assert run(body) == status
        name = signal.Signals(number).name
        assert capsys.readouterr() == ("", f"elmo-test-signals: stopped by {name}\n")
        assert os.listdir(tmp_path) == ["vectors"]
        assert (tmp_path / "vectors").read_text() == "the former"
    assert signal.getsignal(number) == signal.SIG_DFL


def test_a_second_one_at_once_does_not_end_the_cleaning_up(capsys):
    done = []

    def body():
        try:
            send(signal.SIGHUP)
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("cleaned")

    assert run(body) == 129
    assert done == ["cleaned"]


def test_a_later_one_is_heard(monkeypatch):
    """The first signal may arrive where Python drops exceptions, such as in `__del__`."""
    monkeypatch.setattr(signals, "_SECONDS_APART", 0.0)

    def body():
        try:
            send(signal.SIGHUP)
        except KeyboardInterrupt:
            send(signal.SIGTERM)

    assert run(body) == 143


def test_what_is_ignored_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # `nohup`
    assert run(lambda: os.kill(os.getpid(), signal.SIGHUP)) == 0
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_handler_of_the_programs_own_is_kept():
    received = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    assert run(lambda: os.kill(os.getpid(), signal.SIGTERM)) == 0
    assert received == [signal.SIGTERM]


def test_a_command_in_another_thread_changes_no_handler():
    statuses = []
    thread = threading.Thread(target=lambda: statuses.append(run(lambda: None)))
    thread.start()
    thread.join()
    assert statuses == [0]


@pytest.mark.parametrize(
    ("name", "status"),
    [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130), ("a signal to another process", 130)],
)
def test_what_a_signal_stopped_in_order_ends_with_its_status(capsys, name, status):
    def body():
        raise signals.StoppedBySignal("saved", name)

    assert run(body) == status
    assert capsys.readouterr().err == "elmo-test-signals: saved\n"
