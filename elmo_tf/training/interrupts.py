"""Signals that ask a run to stop, noticed between two steps."""

import contextlib
import signal
import threading
from types import FrameType
from typing import Any

# SIGHUP: the terminal is gone. Under `nohup` it is ignored, and stays so.
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class StopSignals(contextlib.AbstractContextManager):
    """Within its block the first signal is only noted; a second one ends the process as usual.

    Python code can't be stopped safely at any place, least of all while it saves. So a run looks
    at `received` between two steps. Outside the main thread nothing is noted, as Python delivers
    signals to that thread alone.
    """

    def __init__(self) -> None:
        self.received: str | None = None  # the name of the first signal
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
        self.received = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())
