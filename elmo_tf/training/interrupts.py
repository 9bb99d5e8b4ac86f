"""Signals that ask a run to stop, noticed between two steps."""

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any

# SIGHUP: the terminal is gone. Under `nohup` it is ignored, and stays so.
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_STDERR = 2


class StopSignals(contextlib.AbstractContextManager):
    """Within its block a signal is noted, and answered at once on stderr.

    Python code can't be stopped safely at any point, least of all while it saves. So a run looks
    at `received` between two steps, which may take half a minute, and saves then. A second signal
    ends the process as usual only where nothing would be lost (`has_unsaved_work` is False);
    otherwise it takes a third. Outside the main thread nothing is noted, as Python delivers signals
    to that thread alone.

    Attributes:
      received: the name of the first signal, or None.
      has_unsaved_work: set by the run: whether ending it now would lose steps.
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
            _say(f"{name}: finishing the step at hand, then saving")
        elif self._num_received == 2 and self.has_unsaved_work:
            _say(f"{name}: still finishing the step; a third signal loses what is not saved")
        else:
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())


def _say(line: str) -> None:
    """Writes past Python's buffers, which the code that was interrupted may be using."""
    with contextlib.suppress(OSError):
        os.write(_STDERR, f"{line}\n".encode())
