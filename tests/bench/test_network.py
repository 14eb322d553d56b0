"""The bare network: its own calls, without what is around them, made again."""

import pytest
import torch
from torch import nn

from segcertify.bench import network
from segcertify.models import MultiScale, adapt, with_precision
from segcertify.sampling.stages import Stopwatch, stage

CPU = torch.device("cpu")


class Convolution(nn.Module):
    """One convolution, 3 to 2 channels, that keeps what it was given."""

    def __init__(self):
        super().__init__()
        self.layer, self.seen = nn.Conv2d(3, 2, 3, padding=1), []

    def forward(self, batch):
        self.seen.append((tuple(batch.shape), torch.is_autocast_enabled("cpu")))
        return self.layer(batch)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_network_sees_again_what_it_saw_inside_its_wrappers(precision):
    inner = Convolution().eval()
    model = with_precision(MultiScale(adapt(inner), [0.5]).eval(), precision)
    (call,) = network.calls(model, torch.rand(4, 3, 16, 20))
    network.run([[call], [call]], CPU)
    assert inner.seen == [((4, 3, 8, 10), precision == "bf16")] * 3
    assert not inner._forward_pre_hooks


def test_each_scale_is_a_call():
    inner = Convolution().eval()
    found = network.calls(MultiScale(adapt(inner), [0.5, 1.0], flip=True).eval(), torch.rand(1, 3, 16, 20))
    assert [tuple(call.arguments[0].shape[2:]) for call in found] == [(8, 10), (8, 10), (16, 20), (16, 20)]


def test_a_function_is_its_own_network_and_random_models_get_seeds():
    def model(batch, seeds):
        asked.append(seeds)
        return batch

    asked, model.random = [], True
    network.run([network.calls(model, torch.rand(3, 2))], CPU)
    assert asked == [[0, 1, 2]] * 2


def test_operations_are_counted_as_two_for_each_product_and_sum():
    inner = nn.Conv2d(3, 5, 3, padding=1).eval()
    assert network.flops(adapt(inner), torch.rand(3, 16, 20)) == 2 * 16 * 20 * 5 * 3 * 9
    assert network.flops(lambda batch: batch, torch.rand(3, 16, 20)) == 0


def test_passes_of_the_network_are_a_stage(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr("segcertify.sampling.stages.time.perf_counter", lambda: float(next(now)))
    inner = Convolution().eval()
    model = MultiScale(adapt(inner), [0.5]).eval()
    with Stopwatch(CPU) as watch, network.marked(model, watch), stage("model"):
        model(torch.rand(1, 3, 16, 20))
    assert watch.seconds() == {"network": 1.0, "model": 2.0}
    assert not inner._forward_hooks
    assert not inner._forward_pre_hooks
