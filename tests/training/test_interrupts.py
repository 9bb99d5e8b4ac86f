"""A first signal is recorded and acknowledged; a later one has its usual effect."""

import os
import signal
import threading

import pytest

from elmo_tf.training.interrupts import StopSignals

pytestmark = pytest.mark.usefixtures("terminal_signals")


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_noted(number):
    before = signal.getsignal(number)
    with StopSignals() as signals:
        assert signals.received is None
        send(number)
        assert signals.received == signal.Signals(number).name
    assert signal.getsignal(number) == before


def test_the_second_signal_acts_where_nothing_is_lost(capfd):
    with StopSignals() as signals:
        send(signal.SIGINT)
        assert capfd.readouterr().err == "SIGINT: finishing the current step, then saving\n"
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        assert signals.received == "SIGINT"


def test_otherwise_the_third_does(capfd):
    with StopSignals() as signals:
        signals.has_unsaved_work = True
        send(signal.SIGTERM)
        send(signal.SIGINT)
        _, second = capfd.readouterr().err.splitlines()
        assert second == ("SIGINT: still finishing the step; a third signal discards unsaved steps")
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        assert signals.received == "SIGTERM"


def test_handlers_are_put_back_without_a_signal_too():
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_what_is_ignored_stays_ignored():
    """As `nohup` does with SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            send(signal.SIGHUP)
            assert signals.received is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_nothing_changes():
    before, during = signal.getsignal(signal.SIGTERM), []

    def body():
        with StopSignals():
            during.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert during == [before]
