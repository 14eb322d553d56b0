"""Scales for a radius: they prove it, nothing much smaller does, and the known values."""

import math

import mpmath
import pytest

from segcertify import AxisRotation, Gaussian, InputError, Laplace, Rotation, Uniform, scale_for
from segcertify.noise import FAMILIES

TAUS = [0.5001, 0.75, 0.9, 0.99, 1 - 1e-9]


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("radius", [0.01, 0.17, 1.0, math.pi])
@pytest.mark.parametrize("noise", [family.noise for family in FAMILIES.values()], ids=FAMILIES)
def test_the_scale_proves_the_radius_and_a_smaller_one_does_not(noise, radius, tau):
    scale = scale_for(noise, radius, tau=tau)
    assert noise(scale).radius(tau) >= radius
    assert noise(scale * (1 - 1e-5)).radius(tau) < radius


def test_known_scales_in_30_digits():
    """From mpmath: Phi^-1(0.75) = 0.67448975...; all rotations take sigma 2.2236, or by the paper's rule 8.0676."""
    mpmath.mp.dps = 30
    z = mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(1) / 2)
    for noise, radius, exact, known in [
        (Gaussian, math.sqrt(3) * math.pi, mpmath.sqrt(3) * mpmath.pi / z, 8.0675),
        (AxisRotation, math.pi, mpmath.pi / z, 4.6577),
        (Rotation, math.pi, mpmath.sqrt(2 * mpmath.log(1 + (mpmath.pi / z) ** 2 / 2)), 2.2235),
        (Rotation, 0.17, mpmath.sqrt(2 * mpmath.log(1 + (mpmath.mpf("0.17") / z) ** 2 / 2)), 0.2501),
        (Laplace, 1.0, 1 / mpmath.log(2), 1.4427),
        (Uniform, 1.0, mpmath.mpf(2), 2.0),
    ]:
        scale = scale_for(noise, radius, tau=0.75)
        assert float(exact) <= scale <= float(exact) * (1 + 1e-6)
        assert scale == pytest.approx(known, abs=1e-4)


@pytest.mark.parametrize("noise", [AxisRotation, Rotation])
@pytest.mark.parametrize("pi", [3.14159265359, 3.1416])
def test_pi_may_be_rounded_up(noise, pi):
    assert pi > math.pi
    assert scale_for(noise, pi, tau=0.75) == scale_for(noise, math.pi, tau=0.75)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Rotation, 3.142, 0.75), "no rotation is farther than pi, but the radius is 3.142"),
        ((Rotation, 3.2, 0.75), "no rotation is farther than pi, but the radius is 3.2"),
        ((Gaussian, 0.0, 0.75), "radius must be positive"),
        ((Gaussian, 1.0, 0.5), r"tau must lie in \(0.5, 1\), but got 0.5"),
        ((Gaussian(0.25), 1.0, 0.75), "noise must be one of the classes Gaussian, Laplace"),
    ],
)
def test_bad_input(arguments, message):
    noise, radius, tau = arguments
    with pytest.raises(InputError, match=message):
        scale_for(noise, radius, tau=tau)
