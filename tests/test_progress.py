"""The progress bar: drawn where it is wanted, or left to the caller."""

import pytest

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
