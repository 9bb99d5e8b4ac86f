"""SIGTERM and SIGHUP end a command as Ctrl-C does: with cleaning up, and in one line."""

import contextlib
import signal
import threading
import time
from types import FrameType
from typing import Any

_SIGNALS = ("SIGTERM", "SIGHUP")
# A terminal that closes sends SIGHUP more than once; the second must not end the cleaning up.
_SECONDS_APART = 1.0


class StoppedBySignal(KeyboardInterrupt):
    """A command has ended its work in order because a signal asked it to.

    Args:
      message: one line.
      name: of the signal, such as "SIGTERM"; anything else, such as that another process got one,
        counts as an interrupt.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.exit_status = 128 + signal.Signals.__members__.get(name, signal.SIGINT)


class EndingSignals(contextlib.AbstractContextManager):
    """Within its block SIGTERM and SIGHUP raise a `KeyboardInterrupt` that names them.

    A signal that is ignored, as SIGHUP under `nohup`, stays so; one with a handler keeps that.
    Outside the main thread nothing changes, as Python delivers signals to that thread alone.
    """

    def __init__(self) -> None:
        self._received: int | None = None
        self._time = 0.0
        self._installed: list[int] = []

    @property
    def exit_status(self) -> int:
        """As shells have it: 128 and the signal's number, which is that of SIGINT if none came."""
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
