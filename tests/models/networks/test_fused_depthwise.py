"""Depthwise convolutions with ReLU6: what torch's layers give, and the kernel only where it was right."""

import copy
import sys
import warnings
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn.functional import relu6

from segcertify.models.networks import fused_depthwise
from segcertify.models.networks.fused_depthwise import depthwise, is_laid, lay, plain
from segcertify.models.networks.lite import SameConv
from segcertify.sampling.kernels import trust

KERNEL = "segcertify.models.networks.triton_depthwise"


def conv_of(size=3, stride=1, channels=48):
    torch.manual_seed(size)
    conv = SameConv(channels, channels, size, stride=stride, groups=channels)
    conv.bias = nn.Parameter(torch.randn(channels), requires_grad=False)
    return conv


def laid(conv):
    conv = copy.deepcopy(conv)
    lay(conv)
    return conv


def features(*extent, channels=48):
    return 10 * torch.randn(2, channels, *extent)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [3, 5])
def test_plain_torch_gives_what_the_layers_give(size, stride, device):
    conv, x = conv_of(size, stride), features(9, 14)
    other = laid(conv)
    assert is_laid(other)
    assert not is_laid(conv)
    for pads in (conv.pads(x), ((2, 0), (1, 3))):
        with torch.no_grad():
            given = plain(*(each.to(device) for each in (x, other.weight, other.bias)), stride, pads)
            wanted = relu6(conv.padded(x, pads))
        assert given.is_contiguous(memory_format=torch.channels_last)
        assert torch.allclose(given.cpu(), wanted, atol=1e-4)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_gradients_pass(device):
    conv, x, gradients = conv_of().to(device), features(7, 8).to(device), []
    for run in (lambda x: relu6(conv(x)), lambda x: depthwise(laid(conv), x, conv.pads(x))):
        given = x.clone().requires_grad_()
        run(given).sum().backward()
        gradients.append(given.grad)
    assert gradients[0].any()
    assert torch.allclose(*gradients, atol=1e-4)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_weights_follow_the_precision_of_the_features(device):
    """Under autocast features come in half precision."""
    conv, x = laid(conv_of()).to(device), features(7, 8).to(device)
    with torch.no_grad():
        whole, half = (depthwise(conv, each, ((1, 1), (1, 1))) for each in (x, x.bfloat16()))
    assert half.dtype == torch.bfloat16
    assert float((whole - half).abs().max()) < 0.2


@pytest.fixture
def planted(monkeypatch):
    """Kernels are asked for although there is no GPU: stand-ins. Nothing is known of them yet."""
    monkeypatch.setattr(trust, "_KNOWN", {})
    monkeypatch.setattr(trust, "interpreted", lambda: False)
    monkeypatch.setattr(fused_depthwise, "fused", lambda x: True)
    module = ModuleType(KERNEL)
    monkeypatch.setitem(sys.modules, KERNEL, module)
    module.calls = []

    def plant(launch):
        module.launch = lambda *given: module.calls.append(given[0]) or launch(*given)
        return module.calls

    return plant


def test_a_right_kernel_is_used_without_gradients_in_precisions_that_it_knows(planted):
    calls, conv, x = planted(plain), laid(conv_of()), features(7, 8)
    with torch.no_grad():
        depthwise(conv, x, ((1, 1), (1, 1)))
    assert [len(calls), calls[-1] is x] == [2, True]
    depthwise(conv, x, ((1, 1), (1, 1)))
    depthwise(conv, x.requires_grad_(), ((1, 1), (1, 1)))
    with torch.no_grad():
        depthwise(conv, x.double(), ((1, 1), (1, 1)))
    assert len(calls) == 3


def test_each_form_of_the_kernel_is_compared_once(planted):
    calls = planted(plain)
    forms = [(size, stride, channels) for size in (3, 5) for stride in (1, 2) for channels in (48, 41)]
    with torch.no_grad():
        for count, (size, stride, channels) in enumerate(forms, 1):
            conv = laid(conv_of(size, stride, channels))
            for extent in ((7, 8), (9, 5)):
                depthwise(conv, features(*extent, channels=channels), ((1, 1), (1, 1)))
            assert len(calls) == 3 * count


def fails(*given):
    raise RuntimeError("ptxas fatal: unresolved\nmore")


DEFECTS = {
    "fails": fails,
    "no bias": lambda x, weight, bias, *others: plain(x, weight, 0 * bias, *others),
    "no clip": lambda x, *others: plain(x / 2, *others) * 2,
    "turned": lambda x, weight, *others: plain(x, weight.flip(0), *others),
    "transposed": lambda x, weight, *others: plain(x, weight.transpose(0, 1), *others),
    "pads": lambda *given: plain(*given[:4], tuple(each[::-1] for each in given[4])),
    "rows and columns": lambda *given: plain(*given[:4], given[4][::-1]),
    "channels": lambda x, weight, *others: plain(x, weight.roll(1, 2), *others),
    "images": lambda x, *others: plain(x[:1].expand_as(x), *others),
    "beyond 32 channels": lambda x, *others: plain(torch.cat([x[:, :32], 0 * x[:, 32:]], 1), *others),
}


@pytest.mark.parametrize("dtype", fused_depthwise.TYPES)
@pytest.mark.parametrize("name", DEFECTS)
def test_a_wrong_kernel_is_left_out(planted, name, dtype):
    calls, conv, x = planted(DEFECTS[name]), laid(conv_of()), features(7, 8).to(dtype)
    said = "RuntimeError: ptxas fatal: unresolved" if name == "fails" else "it differs from plain torch"
    with torch.no_grad():
        with pytest.warns(RuntimeWarning, match=f"kernel depthwise is not used for 3 x 3, stride 1, .*{dtype}.*{said}"):
            given = depthwise(conv, x, ((1, 1), (1, 1)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            depthwise(conv, x, ((1, 1), (1, 1)))
    assert len(calls) == 1
    assert torch.equal(given, plain(x, conv.weight.to(dtype), conv.bias.to(dtype), 1, ((1, 1), (1, 1))))
