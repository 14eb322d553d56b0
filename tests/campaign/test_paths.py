"""Odd paths in small: some pairs of a reader and a path, and the loops of links."""

from tests.campaign import paths
from tests.campaign.findings import Tally


def test_odd_paths_are_refused():
    tally = Tally("paths")
    paths.run(tally, count=200)
    assert tally.tried >= 200
    assert not tally.found, tally.examples
