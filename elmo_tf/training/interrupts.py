"""Handles signals that ask a run to stop; the run reacts between two steps."""

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any

# SIGHUP: the terminal was closed. Under `nohup` it is ignored, which we do not change.
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_STDERR = 2


class StopSignals(contextlib.AbstractContextManager):
    """Context that records a signal and acknowledges it on stderr.

    Python code cannot be stopped safely at an arbitrary point, in particular while it saves. A run
    therefore checks `received` between steps, which may take half a minute, and then saves. A
    second signal ends the process only if nothing would be lost (`has_unsaved_work` is False);
    otherwise a third one does. Outside the main thread nothing is recorded, because Python delivers
    signals to the main thread.

    Attributes:
      received: the name of the first signal, or None.
      has_unsaved_work: whether ending the process now would lose steps; set by the run.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self.has_unsaved_work = False
        self._num_received = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        self._num_received += 1
        if self._num_received == 1:
            self.received = name
            _say(f"{name}: finishing the current step, then saving")
        elif self._num_received == 2 and self.has_unsaved_work:
            _say(f"{name}: still finishing the step; a third signal discards unsaved steps")
        else:
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())


def _say(line: str) -> None:
    """Writes to stderr without Python's buffers, which the interrupted code may be using."""
    with contextlib.suppress(OSError):
        os.write(_STDERR, f"{line}\n".encode())
