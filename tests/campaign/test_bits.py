"""Flipped bits in small: some of every kind of file that has a digest."""

import pytest

from tests.campaign.bits import WITH_DIGEST, flip
from tests.campaign.findings import Tally


@pytest.mark.parametrize("subject", WITH_DIGEST, ids=lambda subject: subject.name)
def test_no_flipped_bit_changes_anything_unnoticed(subject):
    tally = Tally("bits")
    flip(tally, subject, most=150)
    assert tally.tried > 100
    assert not tally.found, tally.examples
