"""Balls: starts, directions, projections, and inputs that stay inside."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from segcertify import InputError
from segcertify.attacks.balls import L1, L2, Linf, ball_of
from segcertify.attacks.projected_gradient import Shifts
from segcertify.sampling.streams import DrawStream

BALLS = (L2, Linf, L1)
every = pytest.mark.parametrize("ball", BALLS)
ROUNDING = 1e-6
"""Projections in single precision, of a few hundred numbers, are this exact; inputs in a ball are exactly inside."""


def numbers(seed, shape=(3, 4, 5), scale=1.0):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", BALLS)
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    radius=st.floats(1e-9, 1e3),
    scale=st.floats(1e-9, 1e4),
    box=st.sampled_from([None, (0.0, 1.0)]),
    double=st.booleans(),
)
def test_inputs_never_leave_the_ball_or_the_box(kind, *, seed, radius, scale, box, double):
    x = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(seed))
    x, shift = (t.double() if double else t for t in (x, numbers(seed, scale=scale)))
    threat = Shifts(kind(radius), box)
    at = threat.apply(x, shift)
    assert (kind(radius).norm(at.double() - x.double()) <= radius).all()
    assert box is None or (at.min() >= 0 and at.max() <= 1)
    stepped = threat.apply(x, threat.step(x, at - x, shift, radius / 3))
    assert (kind(radius).norm(stepped.double() - x.double()) <= radius).all()
    assert stepped.dtype == x.dtype


@every
@pytest.mark.parametrize("radius", [0.01, 1.0, 50.0])
def test_projections_are_in_the_ball_and_leave_what_is_inside(ball, radius):
    shift = numbers(0)
    projected = ball(radius).project(shift)
    norms = ball(radius).norm(shift)
    assert (ball(radius).norm(projected) <= radius * (1 + ROUNDING)).all()
    inside = norms <= radius
    assert torch.equal(projected[inside], shift[inside])
    torch.testing.assert_close(ball(radius).norm(projected)[~inside], torch.full_like(norms[~inside], radius))


@every
def test_projections_are_nearest(ball):
    """No other point of the ball is nearer: checked against many, and the variational inequality."""
    shift, radius = numbers(1, (1, 6)), 0.7
    projected = ball(radius).project(shift)
    others = ball(radius).project(numbers(2, (2000, 6)))
    assert (((shift - projected) * (others - projected)).sum(1) <= 1e-6).all()


@pytest.mark.parametrize("radius", [0.05, 0.5, 5.0])
def test_the_l1_projection_equals_bisection(radius):
    """The amount by which sizes fall solves sum max(|s| - a, 0) = R: found here by Brent's method."""
    shift = numbers(3, (4, 60)).double()
    projected = L1(radius).project(shift)
    for entry, found in zip(shift, projected, strict=True):
        amount = brentq(
            lambda a, e=entry: float((e.abs() - a).clamp(min=0).sum()) - radius, 0, float(entry.abs().max())
        )
        torch.testing.assert_close(found, entry.sign() * (entry.abs() - amount).clamp(min=0), atol=1e-9, rtol=0)


@every
def test_starts_are_inside_and_differ(ball):
    like = torch.zeros(1, 3, 20, 20)
    starts = [ball(0.5).start(like, DrawStream(0, "", "probe", i)) for i in range(20)]
    norms = torch.cat([ball(0.5).norm(start) for start in starts])
    assert (norms <= 0.5 * (1 + ROUNDING)).all()
    assert (norms > 0).all()
    assert len({float(norm) for norm in norms}) == 20
    assert all((start < 0).any() and (start > 0).any() for start in starts)


@pytest.mark.parametrize("ball", [L2(1.0), Linf(1.0), L1(1.0, part=1e-9)], ids=lambda ball: type(ball).__name__)
def test_directions_maximise_the_linear_form(ball):
    """The largest <g, s> over a unit ball is the dual norm of g."""
    gradient = numbers(4, (2, 3, 8))
    flat = gradient.flatten(1)
    dual = {L2: flat.norm(dim=1), Linf: flat.abs().sum(1), L1: flat.abs().amax(1)}[type(ball)]
    towards = ball.direction(gradient)
    torch.testing.assert_close(ball.norm(towards), torch.ones(2))
    torch.testing.assert_close((towards * gradient).flatten(1).sum(1), dual)
    assert not ball.direction(torch.zeros(2, 3, 8)).any()


def test_tiny_gradients_have_directions():
    towards = L2(1.0).direction(1e-30 * numbers(5, (1, 10)))
    assert float(towards.norm()) == pytest.approx(1)


def test_the_l1_direction_shares_among_the_largest():
    gradient = torch.tensor([[0.1, -5.0, 3.0, 0.2], [0.0, 0.0, 2.0, 0.0]])
    assert L1(1.0, part=0.5).direction(gradient).tolist() == [[0, -0.5, 0.5, 0], [0, 0, 1, 0]]


def test_restricted_shifts_are_zero_elsewhere():
    free = torch.tensor([1.0, 0.0, 1.0, 1.0])
    shifts, x = Shifts(L2(0.5), None, free), torch.zeros(1, 4)
    far = shifts.apply(x, numbers(7, (1, 4), scale=9))
    for shift in (shifts.start(x, DrawStream(0, "", "probe", 0)), shifts.step(x, x, numbers(6, (1, 4)), 0.1), far):
        assert shift[0, 1] == 0
        assert shift[0, 0] != 0
    assert float(shifts.step(x, x, numbers(6, (1, 4)), 0.1).norm()) == pytest.approx(0.1)  # all of it where free
    assert float(far.norm()) == pytest.approx(0.5)


def test_bad_balls():
    for ball in BALLS:
        with pytest.raises(InputError, match="radius must be positive, but got 0"):
            ball(0)
    with pytest.raises(InputError, match=r"part must lie in \(0, 1\], but got 2"):
        L1(1.0, part=2)
    with pytest.raises(InputError, match="unknown norm of an attack 'l7': use l2, linf or l1"):
        ball_of("l7", 1.0)
    assert isinstance(ball_of("linf", math.pi), Linf)
