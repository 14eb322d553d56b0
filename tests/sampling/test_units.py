"""Images and volumes whose values are not those that sigma is meant for."""

import warnings

import pytest
import torch

import segcertify as sc
from segcertify.sampling.units import warn_of_units

IMAGE = torch.rand(3, 8, 12, generator=torch.Generator().manual_seed(0))


def bright(batch):
    return (batch.mean(1) > 128).long()


@pytest.mark.parametrize("noise", [sc.Gaussian(0.25), sc.Laplace(0.25), sc.Uniform(0.5)])
def test_an_image_in_0_to_255_is_a_warning(noise):
    with pytest.warns(UserWarning, match=r"values in .* 25\d.*divide by 255.*such as (63.75|127.5)"):
        sc.certify(bright, 255 * IMAGE, noise=noise, n=60, seed=0)


@pytest.mark.parametrize(
    ("x", "noise"),
    [
        (IMAGE, sc.Gaussian(0.25)),
        (1.2 * IMAGE, sc.Gaussian(0.001)),
        (255 * IMAGE, sc.Gaussian(64.0)),
        (255 * torch.rand(40, 3), sc.Gaussian(0.25)),
        (255 * torch.rand(2, 8, 12), sc.Gaussian(0.25)),
        (3 * torch.randn(1, 4, 8, 12), sc.Gaussian(0.25)),
        (1000 * torch.rand(1, 4, 8, 12), sc.Gaussian(64.0)),
    ],
)
def test_other_inputs_are_none(x, noise):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sc.sample(lambda b: ((b[:, 0] if x.ndim > 2 else b[..., 0]) > 1).long(), x, noise=noise, n=3, n0=1, seed=0)


def test_a_grey_image_and_a_volume_in_other_units_are_warnings():
    """A CT in Hounsfield units under noise for [0, 1] would be certified nearly everywhere, within next to nothing."""
    with pytest.warns(UserWarning, match=r"the image has values in .*divide by 255"):
        sc.certify(lambda b: (b[:, 0] > 128).long(), 255 * IMAGE[:1], noise=sc.Gaussian(0.25), n=60, seed=0)
    scan = torch.linspace(-1000, 1000, 96).reshape(1, 2, 6, 8)
    with pytest.warns(UserWarning, match=r"volume has values in -1000 .. 1000, of which .* is 0.00013.* such as 500"):
        sc.certify(lambda b: (b[:, 0] > 0).long(), scan, noise=sc.Gaussian(0.25), n=60, seed=0)


def test_rotations_have_no_units():
    warn_of_units(255 * IMAGE, sc.Rotation(0.1))
