"""Convolutions with what follows them: what plain torch gives, and only where oneDNN was right."""

import itertools

import pytest
import torch
from torch import nn

from segcertify.models.networks import fused_conv
from segcertify.models.networks.fused_conv import convolved, plain, right, trusted

PADS = [None, ((0, 0), (0, 0)), ((1, 1), (1, 1)), ((0, 1), (0, 1)), ((1, 2), (1, 1)), ((2, 0), (0, 0))]


def conv_of(kernel, groups=1, stride=1, dtype=torch.float32):
    torch.manual_seed(kernel)
    conv = nn.Conv2d(12, 12, kernel, groups=groups, stride=stride, padding=kernel // 2, dtype=dtype)
    return conv.to(memory_format=torch.channels_last)


@pytest.fixture
def calls(monkeypatch):
    """How often oneDNN was asked for all at once."""
    found, onednn = [], fused_conv._onednn
    monkeypatch.setattr(fused_conv, "_onednn", lambda *given: found.append(given) or onednn(*given))
    trusted(torch.float32)
    trusted(torch.bfloat16)
    found.clear()
    return found


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize(("kernel", "groups", "stride"), [(1, 1, 1), (3, 1, 1), (3, 12, 1), (3, 12, 2), (5, 12, 2)])
@torch.no_grad()
def test_what_plain_torch_gives(kernel, groups, stride, pads, calls):
    conv, x = conv_of(kernel, groups, stride), 4 * torch.randn(2, 12, 9, 14).to(memory_format=torch.channels_last)
    if not trusted(torch.float32):
        pytest.skip("this torch has no such operators")
    for activation, added in itertools.product((None, "relu", "relu6"), (False, True)):
        wanted = plain(conv, x, activation, None, pads)
        shortcut = torch.randn(wanted.shape).to(memory_format=torch.channels_last) if added else None
        wanted = plain(conv, x, activation, shortcut, pads)
        given = convolved(conv, x, activation, shortcut, pads)
        assert torch.allclose(given, wanted, rtol=1e-5, atol=1e-5)
        assert given.is_contiguous(memory_format=torch.channels_last)
    assert len(calls) == 5  # a sum is not clipped


def test_gradients_and_mixed_precisions_go_the_plain_way(calls):
    conv, x = conv_of(3), torch.randn(1, 12, 9, 14)
    convolved(conv, x, "relu").sum().backward()
    assert conv.weight.grad is not None
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        convolved(conv, x.bfloat16(), "relu")
    with torch.no_grad():
        low = conv_of(3, dtype=torch.bfloat16)
        convolved(low, x.bfloat16(), "relu", torch.randn(1, 12, 9, 14))
    assert not calls
    with torch.no_grad():
        convolved(low, x.bfloat16(), "relu")
    assert len(calls) == trusted(torch.bfloat16)


@pytest.mark.parametrize("failure", ["wrong", "raises"])
def test_operators_that_are_wrong_are_not_used(monkeypatch, failure):
    def onednn(conv, x, activation, *others):
        if failure == "raises":
            raise RuntimeError("no such operator")
        return plain(conv, x, activation) * 1.01

    monkeypatch.setattr(fused_conv, "_onednn", onednn)
    trusted.cache_clear()
    try:
        conv, x = conv_of(3), torch.randn(1, 12, 9, 14)
        with pytest.warns(RuntimeWarning, match="not used in torch.float32"), torch.no_grad():
            given = convolved(conv, x, "relu")
        assert torch.equal(given, plain(conv, x, "relu"))
    finally:
        trusted.cache_clear()


@pytest.mark.parametrize("defect", ["activation", "shortcut", "pads"])
def test_each_part_is_compared(monkeypatch, defect):
    """An operator that forgets one part is found."""
    onednn = fused_conv._onednn

    def forgets(conv, x, activation, shortcut, kernel):
        weight, padding = kernel
        if defect == "activation":
            activation = None if activation == "relu6" else activation
        elif defect == "shortcut":
            shortcut = None
        elif weight.shape != conv.weight.shape:
            weight = weight.flip(2, 3)
        return onednn(conv, x, activation, shortcut, (weight, padding))

    if not right(torch.float32):
        pytest.skip("this torch has no such operators")
    monkeypatch.setattr(fused_conv, "_onednn", forgets)
    assert not right(torch.float32)
