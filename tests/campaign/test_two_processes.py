"""The campaign's pairs of commands, a few of them, with a fixed seed."""

from tests.campaign import two_processes
from tests.campaign.findings import Tally


def test_two_commands_in_one_folder_never_mix():
    two_processes.run(tally := Tally("two_processes"), count=8, seed=1)
    assert tally.tried == 8
    assert not tally.found, tally.examples
