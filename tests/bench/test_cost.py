"""The cost of a certificate: its stages add up, the bare network makes the same passes, estimates are linear."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify.bench.cost import STAGES, Cost, measure
from segcertify.models import MultiScale, adapt

IMAGE = torch.rand(3, 12, 16, generator=torch.Generator().manual_seed(0))


class Convolution(nn.Module):
    """A convolution that keeps the sizes of its batches."""

    def __init__(self):
        super().__init__()
        self.layer, self.sizes = nn.Conv2d(3, 2, 3, padding=1), []

    def forward(self, batch):
        self.sizes.append(len(batch))
        return self.layer(batch)


def test_stages_add_up_and_the_passes_are_the_same():
    network = Convolution().eval()
    model = MultiScale(adapt(network), [0.5]).eval()
    smooth = sc.Smooth(model, sigma=0.25, seed=0, batch_size=8)
    found = measure(smooth, IMAGE, n=20, n0=10, repeats=2)
    assert list(found.stages) == list(STAGES)
    assert sum(found.stages.values()) == pytest.approx(found.instrumented)
    assert all(found.stages[name] > 0 for name in ("noise", "network", "resize", "labels", "counting", "tests"))
    assert (len(found.totals), len(found.networks), found.n, found.n0, found.batch_size) == (2, 2, 20, 10, 8)
    assert found.components == 12 * 16
    passes = [8, 8, 7, 7]
    assert network.sizes[-1] == 1  # one draw, whose operations are counted
    assert network.sizes[-13:-1] == passes * 3  # a warm-up and two measurements
    assert found.flops_per_draw == 2 * 6 * 8 * 2 * 3 * 9
    assert found.cuda_gib is None


def test_a_plain_function_is_measured_too():
    found = measure(sc.Smooth(lambda batch: (batch > 0.5).long(), sigma=0.25, seed=0), IMAGE, n=5, n0=2, repeats=1)
    assert found.stages["network"] > 0
    assert (found.stages["resize"], found.flops_per_draw, found.certified) == (0.0, 0, 0)


def test_what_follows_from_the_times():
    stages = dict.fromkeys(STAGES, 0.0) | {"tests": 1.0, "checks": 1.0, "network": 6.0}
    found = Cost(
        9.0, (5.0, 4.0, 3.0), stages, 8.0, (2.0, 1.0, 4.0), 10**12, n=18, n0=2, components=6, batch_size=4,
        certified=1, cuda_gib=None, resident_gib=1.0,
    )  # fmt: skip
    assert (found.total, found.network, found.ratio) == (4.0, 2.0, 2.0)
    assert (found.tflops, found.tflops_of_network) == (5.0, 10.0)
    assert found.seconds_at(18) == pytest.approx(4.0)
    assert found.seconds_at(98) == pytest.approx(1.0 + 3.0 * 5)  # a quarter is tests and checks
    assert replace(found, instrumented=1.0).seconds_at(98) == 4.0


def test_an_input_that_cannot_be_certified_is_refused_first():
    with pytest.raises(sc.InputError, match="repeats must be an integer not less than 1"):
        measure(sc.Smooth(Convolution().eval(), sigma=0.25, seed=0), IMAGE, repeats=0)
    with pytest.raises(sc.InputError, match="training mode"):
        measure(sc.Smooth(Convolution(), sigma=0.25, seed=0), IMAGE)
