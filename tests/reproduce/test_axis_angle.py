"""The paper's noise on rotations: its law, and a label that changes within the radius it claims."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, special
from scipy.spatial.transform import Rotation as Turn
from scipy.stats import chi

import segcertify as sc
from segcertify.noise import FAMILIES, NAMES, Noise, to_plain
from segcertify.noise.rotation import heat_kernel_cdf, rotation_matrix
from segcertify.reproduce.axis_angle import CAVEAT, UnprovenAxisAngle
from segcertify.sampling.streams import DrawStream


def streams(count):
    return [DrawStream(0, "x", "agree", j) for j in range(count)]


def test_nobody_mistakes_it_for_a_certificate(tmp_path):
    noise = UnprovenAxisAngle(0.25)
    assert isinstance(noise, Noise)
    assert not {"UnprovenAxisAngle", "axis-angle"} & {*FAMILIES, *NAMES, *dir(sc)}
    with pytest.raises(sc.InputError, match="cannot be written to a file"):
        to_plain(noise)
    votes = sc.Votes(np.zeros(9, int), np.full(9, 100), n=100, n0=1, noise=noise)
    assert CAVEAT in sc.certify_votes(votes, tau=0.75, alpha=0.001).claim
    assert float(noise.radius(0.75)) == pytest.approx(0.1686, abs=1e-4)
    with pytest.raises(sc.InputError, match=r"\(points, columns\)"):
        noise.check((3, 8, 9))


def kept(sigma, bound, turned):
    """P(the rotation angle is below ``bound``) when the cloud has been turned by ``turned`` before, exactly.

    The drawn angle t is sigma times a chi of 3 degrees, its axis uniform, so that u, its cosine with the other axis, is
    uniform in [-1, 1], and the angle a of both rotations has |cos(a/2)| = |cos(t/2) cos(d/2) - sin(t/2) sin(d/2) u|.
    """
    t = np.linspace(0, 9 * sigma, 100_001)
    c, s = np.cos(t / 2) * math.cos(turned / 2), np.abs(np.sin(t / 2) * math.sin(turned / 2)) + 1e-300
    below, above = ((c + sign * math.cos(bound / 2)) / s for sign in (-1, 1))
    share = (np.clip(below, -1, 1) + 1) / 2 + (1 - np.clip(above, -1, 1)) / 2
    return integrate.trapezoid(share * chi.pdf(t / sigma, 3) / sigma, x=t)


def test_a_label_changes_within_the_radius_that_is_claimed():
    """The paper's advice for invariance to all rotations, sigma = sqrt(3) pi / Phi^-1(tau), at tau = 0.75.

    The label "turned by less than 2.4" has probability above tau, so that a radius of sqrt(3) pi, all rotations, is
    claimed for it. After half a turn it has probability below 1/2: the claim is false. With the sigma that `Rotation`
    needs for all rotations the label has probability below tau, and is not certified.
    """
    tau, bound = 0.75, 2.4
    sigma = math.sqrt(3) * math.pi / special.ndtri(tau)
    assert float(UnprovenAxisAngle(sigma * (1 + 1e-6)).radius(tau)) >= math.sqrt(3) * math.pi
    assert kept(sigma, bound, 0.0) > tau + 0.01
    assert kept(sigma, bound, math.pi) < 0.4
    assert heat_kernel_cdf(bound, sc.scale_for(sc.Rotation, math.pi, tau=tau)) < tau - 0.1
    drawn = UnprovenAxisAngle(sigma).draw(torch.eye(3, dtype=torch.float64), streams(4000)).numpy().transpose(0, 2, 1)
    for turned in (0.0, math.pi):  # the same by sampling, within 5 standard errors
        matrices = drawn @ rotation_matrix(np.array([0.0, 0.0, 1.0]), turned)
        rate = (Turn.from_matrix(matrices).magnitude() < bound).mean()
        assert abs(rate - kept(sigma, bound, turned)) < 5 * 0.5 / math.sqrt(4000)
