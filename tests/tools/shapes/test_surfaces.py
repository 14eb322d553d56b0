"""Surfaces: points lie on them, evenly, with normals that point out; what is inside; how they are placed."""

import numpy as np
import pytest

from segcertify import InputError
from tools.shapes.surfaces import (
    areas,
    box,
    circle,
    cylinder,
    ellipsoid,
    extruded,
    frustum,
    inside,
    loft,
    mirrored,
    normals,
    placed,
    revolved,
    rounded,
    scatter,
    torus,
    tube,
)

L = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 3), (0, 3)]
ARC = [(np.cos(a), np.sin(a), 0) for a in np.linspace(0, np.pi, 65)]


def of_box(p):
    return np.max(np.abs(p) / [0.5, 1, 1.5], axis=1) - 1


def of_ball(p):
    return np.linalg.norm(p / [0.5, 1, 1.5], axis=1) - 1


def of_cylinder(p):
    return np.maximum(np.hypot(p[:, 0], p[:, 2]) / 0.5 - 1, np.abs(p[:, 1]) - 1)


def of_cone(p):
    return np.maximum(np.hypot(p[:, 1], p[:, 2]) - (1 - p[:, 0]) / 2, -1 - p[:, 0])


def of_torus(p):
    return np.hypot(np.hypot(p[:, 0], p[:, 1]) - 1, p[:, 2]) - 0.25


def of_handle(p):
    return np.maximum(-p[:, 1], of_torus(p))


def of_outline(p):
    across = np.minimum(np.max(p[:, :2] - [2, 1], axis=1), np.max(p[:, :2] - [1, 3], axis=1))
    return np.max([across, -p[:, 0], -p[:, 1], np.abs(p[:, 2]) - 0.5], axis=0)


# a surface, the function that is 0 on it and negative inside, its area, its volume
FORMS = {
    "box": (box(1, 2, 3), of_box, 22, 6),
    "ellipsoid": (ellipsoid(1, 2, 3, sides=64), of_ball, 12.19, np.pi),
    "cylinder": (cylinder(0.5, 2, sides=64), of_cylinder, 2.5 * np.pi, np.pi / 2),
    "cone": (frustum(1, 0, 2, axis="x", sides=64), of_cone, np.pi * (1 + np.sqrt(5)), 2 * np.pi / 3),
    "torus": (torus(1, 0.25, axis="z", sides=64), of_torus, np.pi**2, np.pi**2 / 8),
    "handle": (tube(ARC, 0.25, sides=32), of_handle, np.pi**2 / 2 + np.pi / 8, np.pi**2 / 16),
    "outline": (extruded(L, 1), of_outline, 18, 4),
}
every_form = pytest.mark.parametrize(("surface", "level", "area", "volume"), FORMS.values(), ids=FORMS)


@every_form
def test_points_lie_on_the_surface(surface, level, area, volume, rng):
    points, outward, triangles = scatter(surface, 2000, rng)
    assert points.shape == outward.shape == (2000, 3)
    assert np.abs(level(points)).max() < 0.03  # round forms are polyhedra
    assert np.allclose(np.linalg.norm(outward, axis=1), 1)
    corners = surface[triangles]
    for k in (1, 2):
        assert np.allclose(np.einsum("ni,ni->n", outward, corners[:, k] - corners[:, 0]), 0)
    assert (level(points + 0.05 * outward) > 0).all()
    assert (level(points - 0.05 * outward) < 0).mean() > 0.9  # but not across the tip of a cone


@every_form
def test_areas_and_volumes_are_right_and_the_surface_is_closed(surface, level, area, volume):
    vectors = areas(surface)[:, None] * normals(surface)
    assert areas(surface).sum() == pytest.approx(area, rel=0.04)
    assert np.abs(vectors.sum(axis=0)).max() < 1e-9
    assert np.einsum("ti,ti->", surface.mean(axis=1), vectors) / 3 == pytest.approx(volume, rel=0.08)


@every_form
def test_inside_is_where_the_function_is_negative(surface, level, area, volume, rng):
    points = rng.uniform(surface.min() - 0.2, surface.max() + 0.2, (4000, 3))
    clear = np.abs(level(points)) > 0.05
    assert np.array_equal(inside(points, surface)[clear], level(points)[clear] < 0)


def test_the_parts_of_a_surface_get_points_by_their_area(rng):
    small, large = box(1, 1, 1), placed(box(1, 1, 1), scale=2, move=(5, 0, 0))
    drawn = scatter(np.concatenate([small, large]), 5000, rng)
    assert np.array_equal(drawn.triangles >= len(small), drawn.points[:, 0] > 2)
    assert (drawn.triangles >= len(small)).mean() == pytest.approx(0.8, abs=0.03)


def test_placed_scales_then_turns_then_moves():
    form = box(1, 2, 3)
    assert np.allclose(extent(placed(form, scale=(1, 2, 3))), [1, 4, 9])
    assert np.allclose(extent(placed(form, turn=(90, 0, 0))), [1, 3, 2])
    assert np.allclose(extent(placed(form, turn=(90, 0, 90))), [3, 1, 2])
    assert np.allclose(placed(form, scale=2, move=(1, 2, 3)).mean(axis=(0, 1)), [1, 2, 3])
    tip = np.array([[(1.0, 0, 0), (0, 0, 0), (0, 0, 0)]])
    assert np.allclose(placed(tip, turn=(0, 0, 90))[0, 0], [0, 1, 0])
    assert np.allclose(placed(tip, turn=(0, 90, 0))[0, 0], [0, 0, -1])


@pytest.mark.parametrize(("axis", "expected"), [("x", [4, 2, 2]), ("y", [2, 4, 2]), ("z", [2, 2, 4])])
def test_the_axis_of_a_form(axis, expected):
    form = frustum(1, 0.5, 4, axis=axis)
    assert np.allclose(extent(form), expected)
    along = form[..., "xyz".index(axis)]
    assert form[along < 0].max() == pytest.approx(1)
    assert np.einsum("ti,ti->", form[:, 0], np.cross(form[:, 1], form[:, 2])) > 0


def test_mirrored_keeps_the_outside_outside(rng):
    form = placed(frustum(1, 0.5, 1), move=(0, 0, 3))
    points, outward, _ = scatter(mirrored(form), 100, rng)
    assert points[:, 2].max() < 0
    assert inside(points - 1e-6 * outward, mirrored(form)).all()
    assert np.allclose(mirrored(mirrored(form)), form)


def test_a_sheet_is_open():
    profile = [(1, 0), (1, 1)]
    open_form, closed = revolved(profile, sheet=True, sides=64), revolved(profile, sides=64)
    assert areas(open_form).sum() == pytest.approx(2 * np.pi, rel=0.01)
    assert areas(closed).sum() == pytest.approx(4 * np.pi, rel=0.01)
    assert (np.einsum("ti,ti->t", open_form.mean(axis=1) * [1, 0, 1], normals(open_form)) > 0).all()


def test_sections_of_a_tube():
    straight = [(0, 0, 0), (0, 0, 2)]
    strap = tube(straight, rounded(0.6, 0.1, power=100), side=(0, 1, 0))
    assert np.allclose(extent(strap), [0.1, 0.6, 2], atol=0.02)
    taper = tube(straight, [0.1, 0.5])
    assert np.abs(taper[taper[..., 2] < 1]).max() == pytest.approx(0.1)
    loop = tube(np.insert(circle(32), 2, 0, axis=1), 0.1, closed=True)
    assert not inside(np.zeros((1, 3)), loop).any()
    assert inside(np.array([[1.0, 0, 0], [-1, 0, 0]]), loop).all()


def test_outlines():
    assert np.allclose(np.linalg.norm(circle(7), axis=1), 1)
    assert np.allclose(np.abs(rounded(2, 4, power=200, sides=16)[[2, 6]]), [(1, 2), (1, 2)], atol=0.02)
    assert np.allclose(areas(extruded(L, 1)), areas(extruded(L[::-1], 1))[::-1].sum() / 18 * areas(extruded(L, 1)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: revolved([(1, 0)]), r"profile must be \(2 or more, 2\), but got \(1, 2\)"),
        (lambda: tube([(0, 0), (1, 1)], 1), r"path must be \(2 or more, 3\), but got \(2, 2\)"),
        (lambda: loft(np.zeros((1, 4, 3))), r"rings must be \(2 or more, 3 or more, 3\), but got \(1, 4, 3\)"),
        (lambda: extruded([(0, 0), (1, 1), (1, 0), (0, 1)], 1), "outline must not cross or touch itself"),
        (lambda: placed(box(1, 1, 1), axis="w"), "axis must be 'x', 'y' or 'z', but got 'w'"),
        (lambda: placed(box(1, 1, 1), scale=-1), "scale must not be negative, but got -1: use mirrored"),
        (lambda: circle(2), "sides must be an integer not less than 3, but got 2"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


def extent(surface):
    return np.ptp(surface.reshape(-1, 3), axis=0)


@pytest.fixture
def rng():
    return np.random.default_rng(1)
