"""The guard around attempts: what it finds, and that a failure of its own neither spreads nor counts."""

import os
import random
import signal

import pytest

from segcertify import InputError
from tests.campaign.findings import Tally
from tests.campaign.guard import HarnessError, SilentError, guarded
from tests.campaign.mutations import VALUES, plain_changed


def _raises(error):
    def tried():
        raise error

    return tried


def test_each_kind_of_defect_is_found_and_the_next_attempt_is_made():
    outcomes = {
        "refused": (_raises(InputError("no")), None),
        "raw": (_raises(KeyError("planted")), "raw"),
        "believed": (_raises(SilentError("planted")), "silent"),
        "crashed": (lambda: os.kill(os.getpid(), signal.SIGKILL), "raw"),
        "read": (lambda: None, None),
    }
    tally, names = Tally("formats"), list(outcomes)
    guarded(tally, lambda number: outcomes[names[number]][0], len(names), lambda number: names[number])
    assert tally.tried == len(names)
    assert dict(tally.found) == {"raw": 2, "silent": 1}


def test_what_cannot_be_prepared_is_no_finding_and_removes_nothing(tmp_path):
    """The cause of hundreds of false findings: a worker that failed removed the folder that its parent had made."""
    tally = Tally("formats")

    def prepare(number):
        raise ValueError("planted")

    def with_a_folder():
        try:
            guarded(tally, prepare, 3, str)
        finally:
            (tmp_path / f"cleaned by {os.getpid()}").touch()

    with pytest.raises(HarnessError, match="planted"):
        with_a_folder()
    assert not tally.tried
    assert [path.name for path in tmp_path.glob("cleaned*")] == [f"cleaned by {os.getpid()}"]


def test_changes_do_not_reach_the_values_that_they_are_made_of():
    before = repr(VALUES)
    for seed in range(3000):
        plain_changed({"a": {"b": [1, {"c": []}]}, "d": [[1, 2], [3]]}, random.Random(seed))
    assert repr(VALUES) == before
