"""The progress bar: drawn where it is wanted, or left to the caller."""

from types import SimpleNamespace

import pytest

from segcertify import progress
from segcertify.progress import progress_bar


def test_a_function_is_called_instead_of_a_bar(capfd):
    steps = []
    with progress_bar(3, "drawing", show=steps.append) as advance:
        advance(1)
        advance(2)
    assert steps == [1, 2]
    assert not "".join(capfd.readouterr())


@pytest.mark.parametrize(("show", "drawn"), [(None, False), (False, False), (True, True)])
def test_a_bar_shows_on_a_terminal_or_when_told_to(capfd, show, drawn):
    with progress_bar(3, "drawing", news=lambda: "halfway", show=show) as advance:
        advance(3)
    out, err = capfd.readouterr()
    assert not out
    assert all((text in err) == drawn for text in ("drawing", "3/3", "halfway"))


def test_a_log_gets_a_line_a_minute_with_the_time_left(capfd, monkeypatch):
    """Where standard error is no terminal a long evaluation said nothing for hours."""
    now = iter([0.0, 30.0, 61.0, 90.0, 122.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(now)))
    with progress_bar(100, "drawing\x1b[2J", news=lambda: "halfway") as advance:
        for step in (10, 10, 10, 31):
            advance(step)
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition(": ")[2] for line in lines] == [
        "20/100, 1 min passed, about 4 min left, halfway",
        "61/100, 2 min passed, about 1 min left, halfway",
    ]
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize(("seconds", "show", "said"), [(59, None, False), (150, None, True), (150, False, False)])
def test_long_work_is_announced(capfd, seconds, show, said):
    with progress_bar(110, "sampling", expected=seconds, show=show) as advance:
        advance(110)
    assert capfd.readouterr().err == ("sampling: 110 draws, about 2 min on this machine\n" if said else "")


def test_short_work_and_quiet_work_leave_no_lines(capfd, monkeypatch):
    with progress_bar(3, "drawing") as advance:
        advance(3)
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    with progress_bar(3, "drawing", show=False) as advance:
        advance(3)
    assert not "".join(capfd.readouterr())


def test_the_time_left_is_not_judged_by_work_of_an_earlier_run(capfd, monkeypatch):
    now = iter([0.0, 0.1, 60.5])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(now)))
    with progress_bar(100, "drawing") as advance:
        advance(80)
        advance(10)
    assert capfd.readouterr().err == "drawing: 90/100, 1 min passed, about 1 min left\n"
