"""A captured network gives what the network gives; on a GPU from the fourth input of a kind on by replaying."""

import copy

import pytest
import torch
from torch import nn

from segcertify.models.networks import captured
from segcertify.models.networks.captured import Captured, capture
from segcertify.sampling.batch_size import measured_takes, takes_are_measured


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1)).eval()


def recorded(net: nn.Module) -> int:
    """How many graphs a captured network holds."""
    return sum(graph is not None for graph in net.forward._graphs.values())


def test_on_the_cpu_it_is_the_network():
    plain, net, batch = network(), network(), torch.rand(2, 3, 8, 8)
    capture(net)
    with torch.no_grad():
        assert all(torch.equal(net(batch), plain(batch)) for _ in range(3))
    assert recorded(net) == 0


def test_a_copy_runs_the_copys_weights():
    net, batch = network(), torch.rand(2, 3, 8, 8)
    capture(net)
    other = copy.deepcopy(net)
    assert isinstance(other.forward, Captured)
    with torch.no_grad():
        other[0].weight.zero_()
        other[0].bias.zero_()
        other[2].bias.zero_()
        assert not other(batch).any()
        assert net(batch).any()


def test_what_a_model_takes_is_measured_within_the_block_alone():
    assert not takes_are_measured()
    with measured_takes():
        assert takes_are_measured()
    assert not takes_are_measured()


@pytest.fixture
def pair():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    plain, net = network().cuda(), network().cuda()
    capture(net)
    with torch.no_grad():
        yield plain, net


def batches(count, size=8):
    draw = torch.Generator().manual_seed(1)
    return [torch.rand(2, 3, size, size, generator=draw).cuda() for _ in range(count)]


@pytest.mark.cuda
def test_replayed_answers_are_those_of_the_network(pair):
    plain, net = pair
    for number, batch in enumerate(batches(6), 1):
        assert torch.equal(net(batch), plain(batch))
        assert recorded(net) == (number >= captured.RECORDED)
    for batch in batches(5, size=16):
        assert torch.equal(net(batch), plain(batch))
    first, second = (net(batch) for batch in batches(2))
    assert not torch.equal(first, second), "an answer lies in memory that the next pass writes to"
    assert recorded(net) == 2


@pytest.mark.cuda
def test_weights_that_change_in_place_are_seen(pair):
    plain, net = pair
    for batch in batches(5):
        net(batch)
    plain[2].weight.mul_(2), net[2].weight.mul_(2)
    assert torch.equal(net(batch), plain(batch))


@pytest.mark.cuda
def test_the_precision_of_autocast_and_strides_are_kinds_of_their_own(pair):
    plain, net = pair
    for batch in batches(5):
        net(batch)
        with torch.autocast("cuda", torch.bfloat16):
            assert torch.equal(net(batch), plain(batch))
        last = batch.to(memory_format=torch.channels_last)
        assert torch.equal(net(last), plain(last))
    assert recorded(net) == 3


@pytest.mark.cuda
def test_it_is_not_replayed_with_gradients_nor_where_memory_is_measured_nor_for_large_inputs(pair, monkeypatch):
    _, net = pair
    for batch in batches(5):
        with torch.enable_grad():
            assert net(batch).requires_grad
        with measured_takes():
            net(batch)
    monkeypatch.setattr(captured, "LARGEST", 10)
    for batch in batches(5):
        net(batch)
    assert recorded(net) == 0


@pytest.mark.cuda
def test_a_pass_that_asks_for_numbers_runs_as_ever(pair):
    def forward(batch):
        return batch * float(batch.mean().cpu())  # waits for the device, which a recording cannot

    net = nn.Identity().cuda()
    net.forward = forward
    capture(net)
    for batch in batches(6):
        assert torch.equal(net(batch), forward(batch))
    assert recorded(net) == 0


@pytest.mark.cuda
def test_only_so_many_kinds_are_recorded(pair, monkeypatch):
    plain, net = pair
    monkeypatch.setattr(captured, "MOST", 2)
    for size in (4, 8, 12, 16):
        for batch in batches(5, size):
            assert torch.equal(net(batch), plain(batch))
    assert recorded(net) == 2


@pytest.mark.cuda
def test_a_recording_that_would_hold_much_memory_is_dropped(pair, monkeypatch):
    plain, net = pair
    monkeypatch.setattr(captured, "HELD", 0.0)
    for batch in batches(6, 512):
        assert torch.equal(net(batch), plain(batch))
    assert recorded(net) == 0
