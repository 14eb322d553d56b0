"""Matrix products with what follows them: what plain torch gives, and only where oneDNN was right."""

import pytest
import torch
from torch import nn

from segcertify.models.networks import fused_linear
from segcertify.models.networks.fused_conv import trusted
from segcertify.models.networks.fused_linear import applied, plain, right


@pytest.fixture
def calls(monkeypatch):
    """How often oneDNN was asked for all at once."""
    found, onednn = [], fused_linear._onednn
    monkeypatch.setattr(fused_linear, "_onednn", lambda *given: found.append(given) or onednn(*given))
    trusted(torch.float32, right)
    found.clear()
    return found


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(70, 33), (2, 9, 33), (1, 33)])
@torch.no_grad()
def test_what_plain_torch_gives(shape, bias, calls):
    torch.manual_seed(0)
    layer, x = nn.Linear(33, 20, bias=bias), torch.randn(shape)
    for activation in (None, "relu"):
        torch.testing.assert_close(applied(layer, x, activation), plain(layer, x, activation))
    strided = torch.randn(7, 66)[:, ::2]
    torch.testing.assert_close(applied(layer, strided, "relu"), plain(layer, strided, "relu"))
    assert len(calls) == (3 if trusted(torch.float32, right) else 0)


def test_gradients_and_other_precisions_go_the_plain_way(calls):
    layer, x = nn.Linear(5, 4), torch.randn(3, 5)
    applied(layer, x, "relu").sum().backward()
    assert layer.weight.grad is not None
    with torch.no_grad():
        applied(layer.double(), x.double(), "relu")
        applied(layer.bfloat16(), x.bfloat16(), "relu")
        applied(layer.float(), x[:0], "relu")
    assert not calls


@pytest.mark.parametrize("failure", ["wrong", "raises"])
def test_an_operator_that_is_wrong_is_not_used(monkeypatch, failure):
    def onednn(layer, x, activation):
        if failure == "raises":
            raise RuntimeError("no such operator")
        return plain(layer, x)  # forgets the activation

    monkeypatch.setattr(fused_linear, "_onednn", onednn)
    trusted.cache_clear()
    try:
        layer, x = nn.Linear(5, 4), torch.randn(3, 5)
        with pytest.warns(RuntimeWarning, match="not used in torch.float32"), torch.no_grad():
            given = applied(layer, x, "relu")
        assert torch.equal(given, plain(layer, x, "relu"))
    finally:
        trusted.cache_clear()


def test_the_check_draws_no_global_random_numbers():
    state = torch.get_rng_state()
    right(torch.float32)
    assert torch.equal(torch.get_rng_state(), state)
