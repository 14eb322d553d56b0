"""The campaign's small part in CI: random command lines, and exploits, each in a forked process."""

import os

import pytest

from tests.campaign import commands, exploits
from tests.campaign.command_lines import Lines
from tests.campaign.command_lines import commands as all_commands
from tests.campaign.findings import Tally

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.fresh_seed]


def test_no_command_line_ends_in_a_traceback():
    tally = Tally("commands")
    commands.run(tally, count=20, seed=5)
    assert tally.tried == 20
    assert not tally.found, tally.examples


def test_lines_reach_every_command_and_follow_from_the_seed():
    lines, again = Lines(0), Lines(0)
    drawn = [lines.line() for _ in range(3000)]
    assert drawn == [again.line() for _ in range(3000)]
    for words in all_commands():
        assert any(line[: len(words)] == list(words) for line in drawn), words


def test_a_traceback_and_a_write_elsewhere_are_found(tmp_path):
    """The attempts themselves notice what they look for."""
    from tests.campaign.attempts import forked
    from tests.campaign.world import World

    world = World(tmp_path / "outer")
    for name in ("work", "temp", "home"):
        (world.outer / name).mkdir(parents=True)

    def fails():
        raise KeyError("planted")

    assert forked(world, fails).finding()[0] == "raw"
    assert forked(world, (world.outer / "home" / "x").touch).finding()[0] == "ran"
    assert forked(world, (world.work / "x").touch).finding()[0] is None
    os.mkfifo(world.work / "pipe")
    assert forked(world, lambda: os.replace("x", "pipe")).finding()[0] == "ran"


def test_exploits_do_nothing():
    tally = Tally("exploits")
    chosen = {"a hub folder with code", "a pickle as hrnet", "links in place of outputs", "an input called ...png"}
    wanted = [each for each in exploits.attempts() if each[0] in chosen]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exploits, "attempts", lambda: wanted[::3])
        exploits.run(tally)
    assert tally.tried == len(wanted[::3]) > 3
    assert not tally.found, tally.examples
