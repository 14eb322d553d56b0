"""Interruption: what a signal asks for is raised once, later, and only where nobody else handles it."""

import os
import signal
import threading

import pytest

from segcertify.storage.interruption import STOPS, Stop, interruption, stoppable

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
            assert [signal.getsignal(number) for number in STOPS] == [signal.default_int_handler, *2 * [signal.SIG_DFL]]

    with pytest.raises(SystemExit):
        work()


def test_within_stoppable_every_signal_raises_what_it_asks_for():
    before = [signal.getsignal(number) for number in STOPS]
    for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)):
        with pytest.raises(Stop) as found, stoppable():
            signal.raise_signal(number)
        assert (found.value.code, found.value.signal) == (code, signal.Signals(number).name)
    waited = []
    with pytest.raises(Stop), stoppable(), interruption() as asked:
        waited.append(signal.raise_signal(signal.SIGTERM))
    assert isinstance(asked(), Stop)
    assert waited == [None]  # as outside
    assert [signal.getsignal(number) for number in STOPS] == before


def test_a_callers_own_handler_is_called():
    seen = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    with interruption() as asked:
        signal.raise_signal(signal.SIGTERM)
        assert asked() is None
    assert seen == [signal.SIGTERM]


def test_signals_that_are_ignored_stay_so():
    for number in (signal.SIGINT, signal.SIGHUP):  # as nohup does
        signal.signal(number, signal.SIG_IGN)
        with stoppable(), interruption() as asked:
            os.kill(os.getpid(), number)
            assert asked() is None
        assert signal.getsignal(number) == signal.SIG_IGN


def test_other_threads_are_not_asked():
    found = []

    def run():
        with interruption() as asked:
            found.append(asked())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [None]
