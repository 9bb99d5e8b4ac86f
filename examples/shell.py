"""The demo's terminal output: titles, and commands, which it prints and runs."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from types import FrameType

from elmo_tf.errors import InputError

WIDTH = 96  # columns
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class InterruptedCommand(Exception):  # noqa: N818, not an error
    """The command stopped because of a signal."""


def show_title(title: str) -> None:
    """Prints the title of a section."""
    print(f"\n== {title}", flush=True)


def run_python(arguments: Sequence[str], hide_errors: bool = False) -> None:
    """Prints a command line for this Python interpreter, runs it, and waits for its end.

    Ctrl-C and SIGTERM are passed on to the command, which may need a moment to save its work.

    Args:
      arguments: arguments of the interpreter.
      hide_errors: whether to show stderr only if the command fails, for programs that log there.

    Raises:
      InterruptedCommand: a signal came while it ran.
      InputError: it failed.
    """
    print(command_line(arguments), flush=True)
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments], stderr=errors if hide_errors else None
        )
        status, is_interrupted = _wait(process)
        if status and hide_errors and not is_interrupted:
            errors.seek(0)
            sys.stderr.write(errors.read().decode(errors="replace"))
    if is_interrupted:
        raise InterruptedCommand
    if status:
        raise InputError(f"the command above failed with status {status}")


def command_line(arguments: Sequence[str]) -> str:
    """The command in a form to paste into a shell, wrapped if it is long."""
    words = [os.path.relpath(sys.executable), *map(shlex.quote, arguments)]
    lines = ["$"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) + 2 > WIDTH:
            lines.append("   ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines)


def _wait(process: subprocess.Popen) -> tuple[int, bool]:
    """The exit status, and whether a signal came meanwhile."""
    received = []

    def pass_on(number: int, _: FrameType | None) -> None:
        received.append(number)
        # The terminal sends Ctrl-C to every process; a second one would abort the command.
        if number == signal.SIGTERM:
            process.terminate()

    # Keep ignoring signals that are ignored: Ctrl-C is not meant for a script's background jobs.
    heard = [each for each in _STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    handlers = {number: signal.signal(number, pass_on) for number in heard}
    try:
        return process.wait(), bool(received)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
