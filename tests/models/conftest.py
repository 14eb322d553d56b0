"""Shared by the tests of models: a small network, and its votes when called directly."""

import pytest
import torch
from torch import nn

import segcertify as sc


@pytest.fixture
def network():
    """A small network, in evaluation mode: 3 channels in, logits of 5 classes at half the resolution out."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(), nn.Conv2d(8, 5, 1)
    with torch.no_grad():
        layers[-1].weight.mul_(4)
    return nn.Sequential(*layers).eval()


@pytest.fixture
def image():
    return torch.rand(3, 16, 24, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def votes(image):
    """Votes of a model for the image."""

    def votes(model, batch_size=4):
        return sc.sample(model, image, noise=sc.Gaussian(0.3), n=30, n0=6, seed=5, batch_size=batch_size)

    return votes


@pytest.fixture
def same_votes(votes):
    """Whether two models give the same votes, more than one label among them."""

    def same(model, direct):
        ours, theirs = votes(model), votes(direct)
        assert len(set(theirs.candidate.ravel().tolist())) > 1
        assert len(set(theirs.agree.ravel().tolist())) > 2
        return (ours.candidate == theirs.candidate).all() and (ours.agree == theirs.agree).all()

    return same
