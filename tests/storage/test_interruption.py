"""Interruption: what a signal asks for is raised once, later, and only where nobody else handles it."""

import os
import signal
import threading

import pytest

from segcertify.storage.interruption import STOPS, interruption

pytestmark = pytest.mark.usefixtures("usual_signals")


def test_what_nobody_raised_is_raised_at_the_end():
    def work():
        with interruption() as asked:
            signal.raise_signal(signal.SIGINT)
            assert isinstance(asked(), KeyboardInterrupt)

    with pytest.raises(KeyboardInterrupt):
        work()


def test_after_the_first_signal_any_other_does_what_it_always_does():
    def work():
        with interruption():
            signal.raise_signal(signal.SIGTERM)
            assert [signal.getsignal(number) for number in STOPS] == [signal.default_int_handler, signal.SIG_DFL]

    with pytest.raises(SystemExit):
        work()


def test_a_callers_own_handler_is_called():
    seen = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    with interruption() as asked:
        signal.raise_signal(signal.SIGTERM)
        assert asked() is None
    assert seen == [signal.SIGTERM]


def test_signals_that_are_ignored_stay_so():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruption() as asked:
        os.kill(os.getpid(), signal.SIGINT)
        assert asked() is None
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_other_threads_are_not_asked():
    found = []

    def run():
        with interruption() as asked:
            found.append(asked())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [None]
