"""The campaign's kills, a few of them, with a fixed seed."""

from tests.campaign import kills
from tests.campaign.findings import Tally


def test_a_killed_command_goes_on_to_the_same_end():
    kills.run(tally := Tally("kills"), count=20, seed=1)
    assert tally.tried >= 20
    assert not tally.found, tally.examples
