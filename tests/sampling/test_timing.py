"""How long draws take."""

import time

import pytest
import torch

import segcertify as sc
from segcertify.sampling.timing import time_draws


def test_draws_are_timed():
    """A model that takes 5 ms a draw, in batches of 4; the first batch is not counted."""
    sizes = []

    def slow(batch):
        sizes.append(len(batch))
        time.sleep(0.005 * len(batch))
        return (batch > 0.5).long()

    found = time_draws(sc.Smooth(slow, sigma=0.25, seed=0, batch_size=4), torch.zeros(5, 6), seconds=0.01)
    assert (found.batches, found.batch_size, found.components, found.device) == (2, 4, 30, "cpu")
    assert found.seconds_per_draw >= 0.005
    assert found.seconds(110) == pytest.approx(110 * found.seconds_per_draw)
    assert sizes[-2:] == [4, 4]


def test_bad_numbers():
    smooth = sc.Smooth(lambda batch: (batch > 0.5).long(), sigma=0.25)
    with pytest.raises(sc.InputError, match="batches must be an integer not less than 2"):
        time_draws(smooth, torch.zeros(3), batches=1)
    with pytest.raises(sc.InputError, match="seconds must be positive"):
        time_draws(smooth, torch.zeros(3), seconds=0)
