"""Denoisers: the small one against its formula, and the public one against a second computation."""

import pytest
import torch
from torch import nn

from segcertify import InputError
from segcertify.models.families import build, describe, new
from segcertify.models.formats.weights import State
from segcertify.models.networks.denoiser import SPREAD, Denoiser, FDnCNN, fdncnn_from


def images(batch=2, height=24, width=32, seed=0):
    return torch.rand(batch, 3, height, width, generator=torch.Generator().manual_seed(seed))


def shaken(model, seed=0):
    """The network with random weights in every layer, the last one too."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.1 * torch.randn(weight.shape, generator=generator))
    return model.eval()


@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_a_new_denoiser_is_the_best_linear_estimate(sigma):
    """Colours of standard deviation SPREAD around 0.5: the estimate's error is s^2 sigma^2 / (s^2 + sigma^2)."""
    generator = torch.Generator().manual_seed(1)
    clean = 0.5 + SPREAD * torch.randn(4, 3, 64, 64, generator=generator)
    noisy = clean + sigma * torch.randn(clean.shape, generator=generator)
    found = Denoiser().eval()(noisy, torch.full((4,), sigma))
    share = SPREAD**2 / (SPREAD**2 + sigma**2)
    assert torch.allclose(found, 0.5 + share * (noisy - 0.5), atol=1e-6)
    expected = SPREAD**2 * sigma**2 / (SPREAD**2 + sigma**2)
    assert (found - clean).square().mean().item() == pytest.approx(expected, rel=0.05)  # 7 standard errors


def test_every_entry_has_its_own_sigma_and_does_not_see_the_others():
    model, x = shaken(Denoiser((8, 8), 1)), images(3)
    sigma = torch.tensor([0.1, 0.25, 1.0])
    with torch.no_grad():
        together = model(x, sigma)
        alone = torch.cat([model(x[i : i + 1], sigma[i : i + 1]) for i in range(3)])
        other = model(x, torch.tensor([0.1, 0.5, 1.0]))
    assert torch.allclose(together, alone, atol=1e-5)
    assert [torch.allclose(a, b, atol=1e-5) for a, b in zip(together, other, strict=True)] == [True, False, True]


@pytest.mark.parametrize("size", [(8, 8), (1, 1), (21, 30), (7, 9)])
def test_images_of_any_size(size):
    found = shaken(Denoiser((8, 12, 16)))(images(1, *size), torch.tensor([0.25]))
    assert found.shape == (1, 3, *size)
    assert found.isfinite().all()


def test_the_default_is_small_in_a_file_and_is_built_again_from_its_description():
    model = new("denoiser", classes=7)
    assert 2 * sum(weight.numel() for weight in model.parameters()) < 3e6  # bytes, in half precision
    other = new("denoiser?widths=8,12&blocks=2", classes=3)
    assert describe(other) == {"family": "denoiser", "widths": [8, 12], "blocks": 2}
    again = build(describe(other))
    assert {name: value.shape for name, value in again.state_dict().items()} == {
        name: value.shape for name, value in other.state_dict().items()
    }


def test_it_learns_more_than_the_linear_estimate():
    """On flat images the mean over the neighbours is better than any one pixel."""
    torch.manual_seed(0)
    model = Denoiser((16,), 1)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    sigma, linear = torch.full((8,), 0.25), SPREAD**2 / 2
    for _ in range(60):
        clean = torch.rand(8, 3, 1, 1).expand(-1, -1, 16, 16)
        error = (model(clean + 0.25 * torch.randn(8, 3, 16, 16), sigma) - clean).square().mean()
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
    assert error.item() < 0.5 * linear


def test_fdncnn_is_twenty_convolutions_on_the_image_and_a_map_of_sigma():
    model, x = shaken(FDnCNN(4)), images()
    assert [*model.state_dict()][:2] + [*model.state_dict()][-2:] == ["0.weight", "0.bias", "38.weight", "38.bias"]
    sigma = torch.tensor([0.25, 0.5])
    level = sigma.view(2, 1, 1, 1) * torch.ones(2, 1, 24, 32)
    expected = torch.cat([x, level], 1)
    for layer in range(20):
        weights = (model.state_dict()[f"{2 * layer}.{part}"] for part in ("weight", "bias"))
        expected = nn.functional.conv2d(expected.relu() if layer else expected, *weights, padding=1)
    assert torch.allclose(model(x, sigma), expected, atol=1e-6)
    again = fdncnn_from(State("file", model.state_dict()))
    assert torch.equal(again(x, sigma), model(x, sigma))
    assert not again.training


def test_other_weights_and_other_inputs_are_refused():
    with pytest.raises(InputError, match=r"FILE is no denoiser: 0.weight of 4 input channels .* segcertify train"):
        fdncnn_from(State("FILE", nn.Sequential(nn.Conv2d(3, 8, 3)).state_dict()))
    for model in (Denoiser((4,)), FDnCNN(4)):
        with pytest.raises(InputError, match=r"RGB images \(B, 3, H, W\), but got shape \(2, 1, 8, 8\)"):
            model(torch.zeros(2, 1, 8, 8), torch.full((2,), 0.25))
    with pytest.raises(InputError, match="at least one width"):
        Denoiser(())
