"""Commands that the demo shows and runs: output, failures and signals."""

import os
import shlex
import signal
import sys
import threading

import pytest

from elmo_tf.errors import InputError
from examples import shell


def test_the_command_shown_can_be_pasted():
    arguments = ["-m", "some.module", "--path=a b/$c", *(f"--flag_number={n}" for n in range(12))]
    lines = shell.command_line(arguments).split("\n")
    assert len(lines) > 2
    assert max(map(len, lines)) <= shell.WIDTH
    assert all(line.endswith(" \\") for line in lines[:-1])
    words = shlex.split("\n".join(lines).replace("\\\n", ""))
    assert words == ["$", os.path.relpath(sys.executable), *arguments]


def test_shows_and_runs(capfd):
    shell.run_python(["-c", "print(2 + 3)"])
    assert capfd.readouterr().out.splitlines()[1:] == ["5"]


@pytest.mark.parametrize("hide_errors", [False, True])
def test_a_failure_is_an_input_error_and_shows_why(capfd, hide_errors):
    with pytest.raises(InputError, match="the command above failed with status 3"):
        shell.run_python(
            ["-c", "import sys; print('why', file=sys.stderr); sys.exit(3)"], hide_errors
        )
    assert capfd.readouterr().err == "why\n"


def test_hides_what_a_working_command_logs(capfd):
    shell.run_python(["-c", "import sys; print('log', file=sys.stderr)"], hide_errors=True)
    assert capfd.readouterr().err == ""


WAITS = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: None)
signal.signal(signal.SIGTERM, lambda *_: (print("told", flush=True), sys.exit(4)))
open(sys.argv[1], "w").close()
time.sleep(float(sys.argv[2]))
print("finished", flush=True)
"""


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.parametrize(
    ("number", "seconds", "printed"),
    [
        # The terminal sends Ctrl-C to the command too: wait for it, and do not send it again.
        (signal.SIGINT, "1", "finished"),
        (signal.SIGTERM, "60", "told"),
    ],
)
def test_signals(tmp_path, capfd, number, seconds, printed):
    started = tmp_path / "started"

    def send_when_started():
        while not started.exists():
            threading.Event().wait(0.02)
        threading.Event().wait(0.1)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    thread = threading.Thread(target=send_when_started)
    thread.start()
    with pytest.raises(shell.InterruptedCommand):
        shell.run_python(["-c", WAITS, str(started), seconds])
    thread.join()
    assert capfd.readouterr().out.splitlines()[-1] == printed
    assert signal.getsignal(number) is before


def test_a_signal_that_is_ignored_interrupts_nothing(capfd, terminal_signals):
    """A background job of a script ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    send = "import os, signal; os.kill(os.getppid(), signal.SIGINT); print('finished')"
    shell.run_python(["-c", send])
    assert capfd.readouterr().out.splitlines()[-1] == "finished"
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
