"""Makes SIGTERM and SIGHUP end a command as Ctrl-C does: after cleanup, with one line."""

import contextlib
import signal
import threading
import time
from types import FrameType
from typing import Any

_SIGNALS = ("SIGTERM", "SIGHUP")
# A closing terminal sends SIGHUP more than once; the second must not interrupt the cleanup.
_SECONDS_APART = 1.0


class StoppedBySignal(KeyboardInterrupt):
    """A command saved its work and stopped because of a signal.

    Args:
      message: the message, one line.
      name: the signal's name, such as "SIGTERM". Any other text, such as that another process
        received a signal, counts as SIGINT.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.exit_status = 128 + signal.Signals.__members__.get(name, signal.SIGINT)


class EndingSignals(contextlib.AbstractContextManager):
    """Context in which SIGTERM and SIGHUP raise a `KeyboardInterrupt` that names the signal.

    A signal that is ignored, such as SIGHUP under `nohup`, or that has a handler, is not changed.
    Outside the main thread nothing changes, because Python delivers signals to the main thread.
    """

    def __init__(self) -> None:
        self._received: int | None = None
        self._time = 0.0
        self._installed: list[int] = []

    @property
    def exit_status(self) -> int:
        """128 plus the number of the signal received, or of SIGINT if none was, as in shells."""
        return 128 + (self._received or signal.SIGINT)

    def __enter__(self) -> "EndingSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)):
                if signal.getsignal(number) == signal.SIG_DFL:
                    signal.signal(number, self._end)
                    self._installed.append(number)
        return self

    def __exit__(self, *exception: Any) -> None:
        while self._installed:
            signal.signal(self._installed.pop(), signal.SIG_DFL)

    def _end(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._received is None or now - self._time > _SECONDS_APART:
            self._received, self._time = number, now
            raise KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")
