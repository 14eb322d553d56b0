"""Denoised smoothing: the pair is a base model like any other."""

import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify import InputError
from segcertify.models import Denoised, Denoiser, MultiScale, sigma_note, with_precision
from segcertify.models.wrappers.denoised import sigma_note as note
from segcertify.sampling.identity import identity


class Shrink(nn.Module):
    """A denoiser that moves colours towards 0.5, more for a larger sigma."""

    def __init__(self, strength=1.0):
        super().__init__()
        self.strength = nn.Parameter(torch.tensor(strength))
        self.last = None

    def forward(self, noisy, sigma):
        self.last = noisy.dtype, sigma
        return 0.5 + (noisy - 0.5) / (1 + self.strength * sigma.view(-1, 1, 1, 1))


def test_the_model_sees_the_denoised_image_clipped(network, image, same_votes):
    denoised = Denoised(network, Shrink().eval(), 0.5)

    def direct(batch):
        return network((0.5 + (batch - 0.5) / 1.5).clamp(0, 1))

    assert same_votes(denoised, direct)
    votes = sc.sample(denoised, image, noise=sc.Gaussian(0.5), n=20, n0=5, seed=0)
    assert votes.model["settings"][""] == {"class": "Denoised", "denoiser": "Shrink", "sigma": 0.5}


def test_the_certificate_names_the_denoiser_and_its_sigma(network):
    shown = identity(Denoised(network, Shrink(), 0.25))
    assert shown["settings"][""] == {"class": "Denoised", "denoiser": "Shrink", "sigma": 0.25}
    others = [
        Denoised(network, Shrink(), 0.5),
        Denoised(network, Shrink(2.0), 0.25),
        Denoised(network, lambda noisy, sigma: noisy, 0.25),
        Denoised(network, Denoiser((4,)), 0.25),
        network,
    ]
    found = [str(identity(model)) for model in others]
    assert len({str(shown), *found}) == 6


def test_votes_of_another_denoiser_do_not_merge(network, image):
    def votes(strength):
        model = Denoised(network, Shrink(strength).eval(), 0.25)
        return sc.sample(model, image, noise=sc.Gaussian(0.25), n=20, n0=5, seed=0)

    with pytest.raises(InputError, match="votes of different models do not merge"):
        votes(1.0).merge(votes(2.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_the_denoiser_works_in_its_own_precision(dtype):
    denoiser = Shrink().to(dtype)
    batch = torch.rand(2, 3, 4, 4)
    clean = Denoised(nn.Identity(), denoiser, 0.25).denoise(batch)
    seen, sigma = denoiser.last
    assert (seen, sigma.dtype, clean.dtype) == (dtype, dtype, torch.float32)
    assert sigma.tolist() == [0.25, 0.25]


def test_a_denoiser_in_training_mode_is_refused(network, image):
    with pytest.raises(InputError, match=r"training mode \(denoiser\)"):
        sc.sample(Denoised(network, Shrink().train(), 0.25), image, noise=sc.Gaussian(0.25), n=20, n0=5, seed=0)


def test_what_is_no_denoiser_is_refused(network):
    with pytest.raises(InputError, match="denoiser must be callable on a batch, but got int"):
        Denoised(network, 3, 0.25)
    with pytest.raises(InputError, match="sigma must be positive"):
        Denoised(network, Shrink(), 0)
    with pytest.raises(InputError, match=r"images of shape \(1, 3, 8, 8\), but gave \(1, 1, 8, 8\)"):
        Denoised(network, lambda noisy, sigma: noisy[:, :1], 0.25)(torch.rand(1, 3, 8, 8))


def test_a_note_where_the_noise_is_not_the_one_that_was_removed(network):
    model = with_precision(Denoised(MultiScale(network, (0.5,)), Shrink(), 0.25), "bf16")
    assert sigma_note is note
    assert note(model, 0.25) is None
    assert note(network, 0.5) is None
    assert "expects noise of sigma 0.25, but noise of 0.5 is drawn" in note(model, 0.25, 0.5)


def test_gradients_reach_the_input(network):
    """Attacks go through the denoiser."""
    batch = torch.rand(1, 3, 8, 8, requires_grad=True)
    Denoised(network, Shrink().eval(), 0.25)(batch).sum().backward()
    assert batch.grad.abs().sum() > 0
