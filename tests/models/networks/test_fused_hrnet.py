"""The fused HRNet: the same function as the folded one, with and without padded channels."""

import pytest
import torch
from torch import nn

from segcertify import InputError
from segcertify.models.folding import folded
from segcertify.models.networks.fused_hrnet import FusedHRNet, fast_width
from segcertify.models.networks.hrnet import Architecture, HRNet


def lively(width, blocks=2, modules=(1, 2, 1)):
    torch.manual_seed(width)
    net = HRNet(Architecture(width=width, classes=7, blocks=blocks, modules=modules)).eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
    return net


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("width", [3, 18, 40])
def test_the_function_is_the_same(width, pad):
    net = lively(width, blocks=1 if width == 40 else 2)
    copy, count = folded(net, torch.rand(1, 3, 64, 64))
    assert count == sum(isinstance(module, nn.BatchNorm2d) for module in net.modules())
    fused = FusedHRNet(copy, pad=pad)
    batch = torch.rand(2, 3, 53, 70)
    with torch.no_grad():
        a, b = net(batch), fused(batch)
    assert b.shape == a.shape
    assert float((a - b).abs().max()) <= 1e-5 * float(a.max() - a.min())


@pytest.mark.parametrize("layer", ["stem", "branch", "bias"])
def test_a_planted_defect_shows(layer):
    """The comparison above can fail: each part of the network moves the logits."""
    copy, _ = folded(lively(18), torch.rand(1, 3, 64, 64))
    fused, batch = FusedHRNet(copy, pad=True), torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        before = fused(batch)
        if layer == "stem":
            fused.stem[0].weight[:, 0] += 0.01
        elif layer == "branch":
            fused.stages[2][0].branches[3][0].conv1.weight[0] += 0.01
        else:
            fused.stages[0][0].fuse_layers[0].bias[0] += 0.1
        assert float((fused(batch) - before).abs().max()) > 1e-4 * float(before.max() - before.min())


def test_only_folded_networks_and_images():
    with pytest.raises(InputError, match="fold them first"):
        FusedHRNet(lively(3), pad=False)
    fused = FusedHRNet(folded(lively(3), torch.rand(1, 3, 64, 64))[0], pad=False)
    with pytest.raises(InputError, match="takes RGB images"):
        fused(torch.rand(1, 4, 64, 64))


def test_the_network_that_was_given_is_not_changed():
    copy, _ = folded(lively(18), torch.rand(1, 3, 64, 64))
    before = {name: tensor.clone() for name, tensor in copy.state_dict().items()}
    FusedHRNet(copy, pad=True)
    after = copy.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


@pytest.mark.parametrize(("channels", "wide"), [(3, 8), (18, 24), (32, 32), (33, 64), (48, 64), (64, 64), (96, 96)])
def test_widths_with_fast_kernels(channels, wide):
    assert fast_width(channels) == wide
