"""The fused Lite: the same function as the folded one, whatever the size, the batch and the strips."""

import pytest
import torch
from torch import nn

from segcertify import InputError
from segcertify.models.folding import folded
from segcertify.models.networks import fused_conv, fused_lite, lite
from segcertify.models.networks.fused_lite import FusedLite
from segcertify.models.networks.lite import Lite


def lively(stride=16, size=0):
    torch.manual_seed(stride + size)
    net = Lite(classes=4, width=8, stride=stride, size=size)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the statistics of one batch, so that each layer's signal is alive
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
    with torch.no_grad():
        net(torch.rand(4, 3, 64, 64))
    return net.eval()


def without_norms(net):
    return folded(net, torch.rand(1, 3, 64, 64))[0]


def assert_same(net, fused, batch):
    with torch.no_grad():
        a, b = net(batch), fused(batch)
    assert b.shape == a.shape
    assert float((a - b).abs().max()) <= 2e-5 * float(a.max() - a.min())


@pytest.mark.parametrize("extent", [(64, 64), (53, 70), (38, 33), (6, 5)])
@pytest.mark.parametrize(("stride", "size"), [(16, 0), (32, 0), (16, 2)])
def test_the_function_is_the_same(stride, size, extent):
    net = lively(stride, size)
    assert_same(net, FusedLite(without_norms(net)), torch.rand(3, 3, *extent) + 0.5)


def test_it_is_the_same_without_onednn(monkeypatch):
    monkeypatch.setattr(fused_conv, "trusted", lambda dtype: False)
    net = lively()
    assert_same(net, FusedLite(without_norms(net)), torch.rand(2, 3, 53, 70))


@pytest.mark.parametrize("rows", [1, 5])
def test_strips_are_the_whole(monkeypatch, rows):
    """Of a photograph the wide features are computed some rows at a time."""
    net, batch, strips = lively(), torch.rand(2, 3, 67, 90), []
    fused, wide = FusedLite(without_norms(net)), fused_lite._wide
    monkeypatch.setattr(fused_lite, "_wide", lambda *given: strips.append(given) or wide(*given))
    monkeypatch.setattr(lite, "ROWS_OF", 1)
    monkeypatch.setattr(lite, "LEAST_ROWS", 2 * rows)
    assert_same(net, fused, batch)
    assert len(strips) > 1.5 * len(net.encoder.blocks)


def test_a_batch_is_computed_some_images_at_a_time(monkeypatch):
    net, sizes = lively(), []
    fused = FusedLite(without_norms(net))
    assert fused.widest == 24  # 96 features at half the resolution
    monkeypatch.setattr(fused_lite, "AT_ONCE", 24 * 2 * 32 * 32)
    logits = fused._logits
    monkeypatch.setattr(fused, "_logits", lambda batch: sizes.append(len(batch)) or logits(batch))
    assert_same(net, fused, torch.rand(5, 3, 32, 32))
    assert sizes == [2, 2, 1]
    sizes.clear()
    assert_same(net, fused, torch.rand(2, 3, 64, 64))
    assert sizes == [1, 1]


@pytest.mark.parametrize("layer", ["stem", "depthwise", "project", "context", "head"])
def test_a_planted_defect_shows(layer):
    """The comparison above can fail: each part of the network moves the logits."""
    fused, batch = FusedLite(without_norms(lively())), torch.rand(1, 3, 64, 64)
    net = fused.net
    block = net.encoder.blocks[5]
    conv = {
        "stem": net.encoder.conv_stem, "depthwise": block.depthwise_conv, "project": block.project_conv,
        "context": net.context.far[0], "head": net.head,
    }[layer]  # fmt: skip
    with torch.no_grad():
        before = fused(batch)
        conv.weight += 0.05
        assert float((fused(batch) - before).abs().max()) > 1e-4 * float(before.max() - before.min())


def test_only_folded_networks_and_images():
    with pytest.raises(InputError, match="fold them first"):
        FusedLite(lively())
    with pytest.raises(InputError, match="takes RGB images"):
        FusedLite(without_norms(lively()))(torch.rand(1, 4, 64, 64))


def test_the_network_that_was_given_is_not_changed():
    net = without_norms(lively())
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    fused = FusedLite(net)
    with torch.no_grad():
        fused.net.head.weight += 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
