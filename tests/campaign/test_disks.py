"""The campaign's full and read-only disks and failing models, a few of each, with a fixed seed."""

from tests.campaign import disks
from tests.campaign.findings import Tally


def test_every_failure_ends_in_words_and_nothing_is_lost():
    disks.run(tally := Tally("disks"), count=60, seed=1)
    assert tally.tried >= 60
    assert not tally.found, tally.examples
