"""Small files that ask for much: those that are quick to make."""

from tests.campaign import bombs
from tests.campaign.findings import Tally

CHEAP = tuple(
    name for name in bombs.QUICK if not name.startswith(("records", "config", "text of", "ply of 30", "shapenet"))
)


def test_bombs_are_refused():
    tally = Tally("bombs")
    bombs.run(tally, names=CHEAP)
    assert tally.tried == len(CHEAP) > 30
    assert not tally.found, tally.examples
