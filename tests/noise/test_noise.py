"""Every noise: its radius, its law, its draws."""

import math
import threading
from dataclasses import FrozenInstanceError, dataclass, fields

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.spatial.transform import Rotation as Turn
from scipy.stats import chi

from segcertify import AxisRotation, Gaussian, InputError, Laplace, Rotation, Uniform
from segcertify.noise import FAMILIES, from_plain, to_plain
from segcertify.noise.base import PARALLEL_FROM, ScaledNoise, filled
from segcertify.noise.rotation import heat_kernel_angle, heat_kernel_cdf, rotation_matrix
from segcertify.sampling.streams import DrawStream

IMAGE, CLOUD = (3, 8, 9), (50, 6)
CASES = [
    (Gaussian(0.25), IMAGE),
    (Gaussian(0.25, channels=(0, 1, 2), axis=1), CLOUD),
    (Gaussian(0.25, channels=(2,), axis=-3), IMAGE),
    (Laplace(0.3), IMAGE),
    (Uniform(0.5), IMAGE),
    (AxisRotation(0.25), CLOUD),
    (AxisRotation(0.25, axis=(1.0, 1.0, 0.0), vectors=1), CLOUD),
    (Rotation(0.25), CLOUD),
]
every = pytest.mark.parametrize(("noise", "shape"), CASES, ids=[str(noise) for noise, _ in CASES])


def streams(count, phase="agree", seed=0):
    return [DrawStream(seed, "x", phase, j) for j in range(count)]


def an_input(shape):
    return torch.from_numpy(np.random.default_rng(7).random(shape)).float()


def test_every_noise_is_a_case():
    assert {type(noise).__name__ for noise, _ in CASES} == set(FAMILIES)


@every
def test_draws_differ_and_do_not_depend_on_the_batch(noise, shape):
    x = an_input(shape)
    whole = noise.draw(x, streams(12))
    assert whole.shape == (12, *shape)
    assert whole.dtype == x.dtype
    parts = torch.cat([noise.draw(x, streams(12)[a:b]) for a, b in [(0, 1), (1, 6), (6, 12)]])
    assert torch.equal(whole, parts)
    assert len({entry.numpy().tobytes() for entry in whole}) == 12
    assert torch.equal(x, an_input(shape))  # the input itself is left alone
    other = noise.draw(x, streams(12, phase="candidate"))
    assert not any(torch.equal(a, b) for a in whole for b in other)  # n0 and n draws share nothing


@every
def test_round_trip_and_radius_properties(noise, shape):
    assert from_plain(to_plain(noise)) == noise
    p = np.linspace(0, 0.9999, 500)
    radii = noise.radius(p)
    assert [type(noise.radius(q)) for q in (0.9, p[-1])] == [float, float]
    assert noise.radius(0.9) == noise.radius(np.array([0.9]))[0]
    assert (radii[p <= 0.5] == 0).all()
    assert (np.diff(radii) >= 0).all()
    assert isinstance(noise.threat(noise.norm), str)
    with pytest.raises(InputError, match="proves nothing in norm='l7'"):
        noise.radius(0.75, norm="l7")
    with pytest.raises(InputError, match=r"probabilities in \[0, 1\)"):
        noise.radius(1.0)


@pytest.mark.parametrize("p", [0.5, 0.500001, 0.75, 0.9, 0.99, 1 - 1e-9])
def test_radii_are_rounded_down_in_50_digits(p):
    mpmath.mp.dps = 50
    exact = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1)
    laplace = -mpmath.log(2 * (1 - mpmath.mpf(p)))
    heat = mpmath.sqrt(2 * (mpmath.exp(mpmath.mpf(0.5) ** 2 / 2) - 1)) * exact
    for radius, truth in [
        (Gaussian(0.25).radius(p), exact / 4),
        (Gaussian(0.25).radius(p, "linf", (3, 4, 5)), exact / 4 / mpmath.sqrt(60)),
        (Gaussian(0.25, (0, 1), 0).radius(p, "linf", (3, 4, 5)), exact / 4 / mpmath.sqrt(40)),
        (Gaussian(0.25, (0, 1), 1).radius(p, "linf", (3, 4, 5)), exact / 4 / mpmath.sqrt(30)),
        (Laplace(0.25).radius(p), laplace / 4),
        (Uniform(0.25).radius(p), (2 * mpmath.mpf(p) - 1) / 4),
        (AxisRotation(0.25).radius(p), exact / 4),
        (Rotation(0.5).radius(p), min(heat, mpmath.pi)),
    ]:
        assert mpmath.mpf(radius) <= truth
        assert radius == pytest.approx(float(truth), rel=3e-7)


RADII = (0.01, 0.2, 1.0, 40.0)


@every
def test_worst_case_properties(noise, shape):
    """Monotone in p and in R, p itself at R = 0, inverted by `rare`; an event and its complement agree."""
    p = np.linspace(0, 1, 401)
    assert (noise.worst(p, 0) == p).all()
    assert [type(noise.worst(q, 0.1)) for q in (0.5, p[3])] == [float, float]
    before = p
    for R in RADII:
        reached = noise.worst(p, R)
        assert (np.diff(reached) >= -1e-12).all()
        assert ((before <= reached) & (reached <= 1)).all()
        assert noise.worst(0.3, R) == reached[120]
        before = reached
        rare = noise.rare(p, R)
        assert ((rare >= 0) & (rare <= p)).all()
        known = rare > 1e-6  # below, the margin of 1e-12 is felt
        np.testing.assert_allclose(noise.worst(rare, R)[known], p[known], atol=1e-5)
    if noise.norm == "angle":
        assert noise.worst(0.3, 40.0) == noise.worst(0.3, math.pi)  # no rotation is farther
    for bad, message in [((0.5, -0.1), "must not be negative"), ((1.1, 0.1), r"probabilities in \[0, 1\]")]:
        with pytest.raises(InputError, match=message):
            noise.worst(*bad)
    with pytest.raises(InputError, match="proves nothing in norm='l7'"):
        noise.worst(0.5, 0.1, "l7")


@every
def test_the_worst_case_agrees_with_the_radius(noise, shape):
    """All but a label of probability p stays below 1/2 within radius(p), and reaches it a little farther out."""
    for p in np.linspace(0.5001, 0.9999, 500):
        R = float(noise.radius(p))
        assert noise.worst(1 - p, R) <= 0.5
        assert math.pi == R or noise.worst(1 - p, R * (1 + 1e-6)) > 0.5


@pytest.mark.parametrize("p", [1e-12, 1e-3, 0.2, 0.5, 0.8, 0.999])
@pytest.mark.parametrize("R", [1e-6, 0.1, 0.7, 3.0])
def test_worst_cases_are_rounded_up_in_50_digits(p, R):
    """Also when single precision makes the noise narrower by 2^-24; by no more than a relative 1e-6 at these R."""
    mpmath.mp.dps = 50
    exact, narrow = mpmath.mpf(p), 1 - mpmath.mpf(2) ** -24

    def shifted(scale, radius=R):
        return mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(2 * exact - 1) + mpmath.mpf(radius) / (scale * narrow))

    def laplace(b):
        end = -mpmath.log(2 * exact) if exact <= 0.5 else mpmath.log(2 * (1 - exact))  # of the half-line above it
        end -= mpmath.mpf(R) / (b * narrow)
        return mpmath.exp(-end) / 2 if end >= 0 else 1 - mpmath.exp(end) / 2

    heat = mpmath.sqrt(2 * mpmath.expm1(mpmath.mpf(0.5) ** 2 / 2))
    for reached, truth in [
        (Gaussian(0.25).worst(p, R), shifted(0.25)),
        (Gaussian(0.25, (0, 1), 0).worst(p, R), shifted(0.25)),
        (Gaussian(0.25, (0, 1), 0).worst(p, R, "linf", (3, 4, 5)), shifted(0.25, R * mpmath.sqrt(40))),
        (Laplace(0.25).worst(p, R), laplace(0.25)),
        (Uniform(0.25).worst(p, R), min(exact + mpmath.mpf(R) / (0.5 * narrow), mpmath.mpf(1))),
        (AxisRotation(0.25).worst(p, R), shifted(0.25)),
        (Rotation(0.5).worst(p, R), shifted(heat)),
    ]:
        assert reached == 1 or mpmath.mpf(reached) >= truth  # 1 is the largest that there is
        assert reached == pytest.approx(float(truth), rel=2e-6)


def test_a_noise_of_ones_own_has_no_worst_case_unless_it_says_so():
    @dataclass(frozen=True, repr=False)
    class Other(ScaledNoise):
        norm = "l2"
        sigma: float

    with pytest.raises(InputError, match=r"Other\(sigma=1.0\) does not say what an attack can do to a probability"):
        Other(1.0).worst(0.5, 0.1)


def test_known_radii():
    """R in the paper's tables; its 0.52, 1.17 (Table 2) and .085 (appendix B) should read 0.54, 1.16 and .0843."""
    for sigma, tau, expected in [(0.25, 0.75, 0.17), (0.33, 0.75, 0.22), (0.5, 0.75, 0.34), (0.25, 0.95, 0.41)]:
        assert round(Gaussian(sigma).radius(tau), 2) == expected
    assert round(Gaussian(0.33).radius(0.95), 2) == 0.54
    assert round(Gaussian(0.5).radius(0.99), 2) == 1.16
    assert round(AxisRotation(0.125).radius(0.75), 4) == 0.0843
    assert AxisRotation(10).radius(0.99) == math.pi  # no rotation is farther
    assert Rotation(3).radius(0.99) == math.pi


def test_gaussian_channels_leave_the_rest():
    assert Gaussian(0.25, channels=[0, 2]) == Gaussian(0.25, channels=(0, 2))  # a list is no other noise
    x = an_input(CLOUD)
    batch = Gaussian(0.25, channels=(0, 1, 2), axis=1).draw(x, streams(4))
    assert torch.equal(batch[:, :, 3:], x[:, 3:].expand(4, -1, -1))
    assert (batch[:, :, :3] != x[:, :3]).all()
    assert "channels [0, 1, 2] of axis 1" in Gaussian(0.25, channels=(0, 1, 2), axis=1).threat("l2")


def test_rotation_matrix_is_scipys():
    rng = np.random.default_rng(0)
    for _ in range(20):
        axis, angle = rng.normal(size=3), rng.uniform(-4, 4)
        expected = Turn.from_rotvec(axis / np.linalg.norm(axis) * angle).as_matrix()
        np.testing.assert_allclose(rotation_matrix(axis, angle), expected, atol=1e-14)


@pytest.mark.parametrize("noise", [AxisRotation(0.4, "y"), Rotation(0.4)], ids=str)
def test_rotations_turn_points_and_normals_alike_and_nothing_else(noise):
    x = torch.cat([an_input(CLOUD).double(), torch.ones(50, 2)], 1)
    with pytest.raises(InputError, match="8 columns: say how many leading triples"):
        noise.draw(x, streams(1))
    assert torch.equal(
        noise.draw(x[:, :6], streams(5)),
        type(noise)(**to_plain_fields(noise) | {"vectors": 2}).draw(x[:, :6], streams(5)),
    )
    full = type(noise)(**{**to_plain_fields(noise), "vectors": 2})
    batch = full.draw(x, streams(5))
    assert torch.equal(batch[:, :, 6:], x[:, 6:].expand(5, -1, -1))
    for turned in batch:
        fit, *_ = np.linalg.lstsq(x[:, :3].numpy(), turned[:, :3].numpy(), rcond=None)
        np.testing.assert_allclose(fit @ fit.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(fit) == pytest.approx(1)
        np.testing.assert_allclose(x[:, 3:6].numpy() @ fit, turned[:, 3:6].numpy(), atol=1e-12)


def to_plain_fields(noise):
    return {name: value for name, value in to_plain(noise).items() if name != "type"}


@pytest.mark.parametrize("sigma", [0.05, 0.25, 1.0, 3.0])
def test_heat_kernel_cdf_integrates_the_density(sigma):
    """Against numerical integration of the density as DESIGN states it."""
    l = np.arange(400)  # noqa: E741

    def density(a):
        series = (2 * l + 1) * np.exp(-l * (l + 1) * sigma**2 / 2) * np.sin((l + 0.5) * a) / np.sin(a / 2)
        return (1 - np.cos(a)) / np.pi * series.sum()

    for a in (0.3 * min(sigma, 1), min(sigma, 1.0), 2.5):
        expected = integrate.quad(density, 1e-9, a, limit=500, points=[min(sigma, a) / 2])[0]
        assert heat_kernel_cdf(a, sigma) == pytest.approx(expected, abs=1e-8)
    assert heat_kernel_cdf(0.0, sigma) == pytest.approx(0, abs=1e-12)
    assert heat_kernel_cdf(math.pi, sigma) == pytest.approx(1, abs=1e-12)
    u = np.linspace(0.01, 0.99, 33)
    np.testing.assert_allclose(heat_kernel_cdf(heat_kernel_angle(u, sigma), sigma), u, atol=1e-12)


@pytest.mark.parametrize("size", [1e-200, 1e-3, 1e200])
def test_the_size_of_the_axis_does_not_matter(size):
    x = an_input((5, 3))
    expected = AxisRotation(0.5, "x").draw(x, streams(3))
    assert torch.equal(AxisRotation(0.5, (size, 0.0, 0.0)).draw(x, streams(3)), expected)
    assert not torch.allclose(expected, x.expand_as(expected))


def test_claims_name_the_columns_that_turn():
    assert "the first 3 turn" in Rotation(0.5, vectors=1).threat("angle")
    assert "all column triples turn" in AxisRotation(0.5).threat("angle")


def test_claims_name_the_centre_of_rotations():
    """A cloud that is not centred turns about the origin all the same, not about its own middle."""
    for noise in (AxisRotation(0.5), Rotation(0.5)):
        assert "through the origin" in noise.threat("angle")
        shifted = torch.zeros(1, 3) + 5
        assert noise.draw(shifted, streams(3)).norm(dim=-1).numpy() == pytest.approx(math.sqrt(75), rel=1e-6)


def test_heat_kernel_limits():
    """Narrow: the angle is sigma times a chi of 3 degrees. Wide: the uniform (Haar) law, (a - sin a) / pi."""
    a = np.linspace(0.01, 0.2, 20)
    np.testing.assert_allclose(heat_kernel_cdf(a, 0.02), chi.cdf(a / 0.02, 3), atol=1e-3)
    np.testing.assert_allclose(heat_kernel_cdf(a * 15, 10.0), (a * 15 - np.sin(a * 15)) / np.pi, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(0), "sigma must be positive, but got 0"),
        (lambda: Gaussian(float("nan")), "sigma must be finite"),
        (lambda: Gaussian("a"), "sigma must be a number"),
        (lambda: Gaussian(1, channels=()), "at least one"),
        (lambda: Gaussian(1, channels=(1, 1)), "must be different"),
        (lambda: Gaussian(1, channels=(3,)).check((3, 4, 5)), "which has 3"),
        (lambda: Gaussian(1, channels=(0,), axis=5).check((3, 4)), "axis=5 is outside"),
        (lambda: Gaussian(1).radius(0.75, "linf"), "needs the input's shape"),
        (lambda: Laplace(-1), "b must be positive"),
        (lambda: Uniform(math.inf), "lam must be finite"),
        (lambda: AxisRotation(1, "w"), "axis must be 'x', 'y', 'z'"),
        (lambda: AxisRotation(1, (0, 0, 0)), "not all 0"),
        (lambda: AxisRotation(1, None), "axis must be 'x', 'y', 'z' or three numbers"),
        (lambda: Gaussian(1, channels=3), "channels must be a sequence"),
        (lambda: Gaussian(1, channels=(0,), axis=-17), "axis must be an integer not less than -16"),
        (lambda: Rotation(1e-5), r"sigma in \[0.001, 10\]"),
        (lambda: Rotation(1).check((3, 4, 5)), "shape \\(points, columns\\)"),
        (lambda: Rotation(1, vectors=3).check((9, 6)), "needs 9 columns"),
        (lambda: from_plain({"type": "Cauchy"}), "unknown noise 'Cauchy'"),
        (lambda: from_plain({"type": "Gaussian", "scale": 1}), "unreadable noise"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


@every
def test_a_noise_does_not_change(noise, shape):
    """It is a key of what was sampled with it."""
    with pytest.raises(FrozenInstanceError):
        setattr(noise, fields(noise)[0].name, 9.0)
    assert len({noise, from_plain(to_plain(noise))}) == 1


@pytest.mark.parametrize("noise", [family.noise for family in FAMILIES.values()], ids=FAMILIES)
@pytest.mark.parametrize(
    ("scale", "message"), [(0, "positive"), (-1.0, "positive"), (math.nan, "finite"), ("a", "number")]
)
def test_every_scale_is_a_positive_number(noise, scale, message):
    with pytest.raises(InputError, match=f"must be .*{message}"):
        noise(scale)


@pytest.mark.parametrize("noise", [AxisRotation, Rotation])
def test_rotated_triples_are_counted(noise):
    for vectors in (0, 1.5, "all"):
        with pytest.raises(InputError, match="vectors must be an integer"):
            noise(0.5, vectors=vectors)


@pytest.mark.parametrize(("column", "axis"), list(enumerate("xyz")))
def test_a_rotation_about_a_named_axis_leaves_its_coordinate(column, axis):
    """To the last bit, also in double precision."""
    x = an_input((5, 3)).double()
    others = [each for each in range(3) if each != column]
    for drawn in AxisRotation(0.5, axis).draw(x, streams(3)):
        assert torch.equal(drawn[:, column], x[:, column])
        assert (drawn[:, others] != x[:, others]).all()


@pytest.mark.parametrize("axis", [[1, 1, 0], (1, 1, 0), np.array([1, 1, 0])], ids=["list", "tuple", "array"])
def test_an_axis_of_any_sequence_is_the_same_noise(axis):
    expected = AxisRotation(0.25, (1.0, 1.0, 0.0))
    assert repr(AxisRotation(0.25, axis)) == repr(expected)
    assert len({AxisRotation(0.25, axis), expected}) == 1


@every
def test_additive_noise_does_not_depend_on_the_input(noise, shape):
    """Attacks add to an input what such a noise protects, and rotate what the others do."""
    x = an_input(shape).double()
    moved = noise.draw(x + 1, streams(3)) - noise.draw(x, streams(3))
    assert noise.additive == torch.allclose(moved, torch.ones_like(moved))


@pytest.mark.parametrize("noise", [Gaussian(0.3), Gaussian(0.3, (0, 2)), Laplace(0.2), Uniform(0.4)], ids=repr)
def test_threads_change_no_bit(noise, monkeypatch):
    """Each stream's numbers are its own. The input is larger than what one thread fills by itself."""
    x, made = torch.rand(3, 90, 100), []
    for threads in (1, 2, 5):
        monkeypatch.setattr(DrawStream, "threads", threads)
        made.append(noise.draw(x, [DrawStream(3, "x", "agree", index) for index in range(7)]))
    alone = torch.cat([noise.draw(x, [DrawStream(3, "x", "agree", index)]) for index in range(7)])
    assert x.numel() >= PARALLEL_FROM
    assert all(torch.equal(each, alone) for each in made)


class Dry(DrawStream):
    """A stream that has no numbers, for several threads."""

    threads = 2

    def normal_(self, out):
        raise InputError("no numbers left")


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(InputError, match="no numbers left"):
        filled(torch.rand(3, 90, 100), [Dry(3, "x", "agree", index) for index in range(3)], "normal")


def test_streams_that_say_nothing_of_threads_are_filled_one_after_the_other():
    threads = []

    class Plain:
        def normal_(self, out):
            threads.append(threading.get_ident())
            return out.zero_()

    filled(torch.rand(3, 90, 100), [Plain(), Plain(), Plain()], "normal")
    assert threads == [threading.get_ident()] * 3
