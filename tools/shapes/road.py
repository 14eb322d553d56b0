"""Generated cars and skateboards: they drive along x, y is up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from segcertify.metrics.shapenet import CATEGORIES
from tools.shapes.assembly import NOTHING, Piece, cushion, four, off, pair
from tools.shapes.surfaces import Surface, box, cylinder, ellipsoid, loft, normals, placed, revolved, rounded

ROOF, HOOD, WHEEL, BODY = CATEGORIES["Car"]
ROLL, DECK, TRUCK = CATEGORIES["Skateboard"]

_STYLES = {"saloon": 0.3, "estate": 0.22, "van": 0.1, "sports": 0.18, "open": 0.1, "pickup": 0.1}
_CABINS = {  # how tall it is, where it ends, how its rear leans
    "saloon": (0.27, -0.7, 1.2),
    "estate": (0.32, -0.92, 0.4),
    "van": (0.4, -0.97, 0.1),
    "sports": (0.21, -0.8, 2.2),
    "pickup": (0.3, -0.25, 0.2),
}


class _Plan(NamedTuple):
    """A car's style and measures: its width, where its floor and windows begin, and where the windscreen does."""

    style: str
    width: float
    floor: float
    belt: float
    cowl: float
    furnished: bool


def car(rng: np.random.Generator) -> list[Piece]:
    """A saloon, an estate or off-roader, a van, a sports car, an open car or a pick-up truck."""
    style = str(rng.choice([*_STYLES], p=[*_STYLES.values()]))
    floor = rng.uniform(0.08, 0.12)
    belt = floor + rng.uniform(0.27, 0.33) + (0.05 if style in {"van", "pickup"} else 0.0)
    cowl = rng.uniform(0.35, 0.5) + (0.2 if style == "van" else 0.0)
    furnished = style == "open" or rng.random() < 0.4
    plan = _Plan(style, rng.uniform(0.82, 1.0), floor, belt, cowl, furnished)
    pieces = [_lower_body(rng, plan), *(_seats(plan) if furnished else [])]
    pieces += _windscreen(rng, plan) if style == "open" else [_cabin(rng, plan)]
    if style == "pickup":
        bed = placed(box(0.78, belt - floor, plan.width * 0.85), move=(-0.55, belt - 0.02, 0))
        pieces.append(Piece(NOTHING, bed, hides=(BODY,)))
    radius = rng.uniform(0.14, 0.19)
    for x in (rng.uniform(0.55, 0.68), -rng.uniform(0.5, 0.66)):
        pieces += _wheels(rng, x, radius, plan.width)
    return pieces + _extras(rng, plan, radius)


def _lower_body(rng: np.random.Generator, plan: _Plan) -> Piece:
    """All below the windows, with the hood."""
    tall = plan.belt - plan.floor
    front, edge, rear = rng.uniform(0.5, 0.7), rng.uniform(0.75, 0.9), rng.uniform(0.8, 1.0)
    x = np.array([1.0, 0.96, 0.9, (0.9 + plan.cowl) / 2, plan.cowl, 0.0, -0.5, -0.88, -0.96, -1.0])
    high = [front, (front + edge) / 2, edge, edge / 2 + 0.53, 1.0, 1.0, 1.0, rear, rear - 0.06, rear - 0.25]
    low = [0.25, 0.06, 0.03, 0, 0, 0, 0, 0.03, 0.1, 0.3]
    wide = plan.width * np.array([0.78, 0.88, 0.95, 0.99, 1, 1, 1, 0.96, 0.9, 0.82])
    top, bottom = plan.floor + tall * np.array(high), plan.floor + tall * np.array(low)
    flat = rounded(1, 1, power=rng.uniform(4, 8), sides=20)
    stations = zip(x, (top + bottom) / 2, top - bottom, wide, strict=True)
    surface = loft([[(a, y + v * h, w * z) for z, v in flat] for a, y, h, w in stations])
    place = surface.mean(axis=1)[:, 0]
    hood = (normals(surface)[:, 1] > 0.75) & (place > plan.cowl) & (place < 0.97)
    return Piece(np.where(hood, HOOD, BODY), surface, hides=() if plan.furnished else (ROOF, HOOD, BODY))


def _cabin(rng: np.random.Generator, plan: _Plan) -> Piece:
    """Windows and roof: a trapezium from the side and from the front."""
    tall, end, lean = _CABINS[plan.style] + rng.normal(0, (0.02, 0.03, 0.1))
    screen = tall * rng.uniform(1.0, 1.6) * (0.6 if plan.style == "van" else 1.0)
    front, rear = plan.cowl - screen, end + tall * lean
    stations = [(plan.cowl, 0.01), (front, 0.93), ((front + rear) / 2, 1.0), (rear, 0.93), (end, 0.01)]
    wide, slim = plan.width * 0.96, plan.width * rng.uniform(0.68, 0.8)
    rings = []
    for x, share in stations:
        top, half = plan.belt + tall * share, (wide + (slim - wide) * share) / 2
        side = [(-wide / 2, plan.belt - 0.02), (-half, top - 0.12 * tall * share), (-half * 0.9, top)]
        rings.append([(x, y, z) for z, y in [*side, *((-z, y) for z, y in side[::-1])]])
    surface = loft(rings)
    place = surface.mean(axis=1)[:, 0]
    roof = (normals(surface)[:, 1] > 0.6) & (place < front) & (place > rear)
    return Piece(np.where(roof, ROOF, BODY), surface, hides=() if plan.furnished else (HOOD, BODY))


def _seats(plan: _Plan) -> list[Piece]:
    """Seats in a hollow: nothing else of the body is left there."""
    end = -0.45
    middle, long, wide = (plan.cowl + end) / 2, plan.cowl - end, plan.width * 0.85
    hollow = placed(box(long, 0.2, wide), move=(middle, plan.belt - 0.07, 0))
    walls = np.where(normals(hollow)[:, 1] > 0.5, NOTHING, BODY)
    pieces = [Piece(NOTHING, hollow, hides=(BODY,)), Piece(walls, off(hollow, 0, -2e-3, 0), hides=())]
    cushions = placed(cushion(0.2, 0.08, wide * 0.36, bevel=0.02), move=(0, -0.12, 0))
    back = placed(cushion(0.06, 0.22, wide * 0.36), turn=(0, 0, 12), move=(-0.12, -0.01, 0))
    for x in (middle + 0.05, middle - 0.27):
        for form in (cushions, back):
            pieces += pair(Piece(BODY, off(form, x, plan.belt, wide * 0.24), hides=()))
    return pieces


def _windscreen(rng: np.random.Generator, plan: _Plan) -> list[Piece]:
    """All that an open car has above its windows' edge."""
    side = np.array([(0.0, 0.0), (-1.0, 1.0), (-0.95, 1.0), (0.07, 0.0)]) * (rng.uniform(0.15, 0.25), 0.16)
    half = plan.width * 0.45
    rings = [[(plan.cowl + x, plan.belt + y, z * (1 - y)) for x, y in side] for z in (-half, half)]
    return [Piece(BODY, loft(rings))]


def _wheels(rng: np.random.Generator, x: float, radius: float, width: float) -> list[Piece]:
    """A wheel on each side, in an arch that is cut out of the body."""
    thick = rng.uniform(0.1, 0.14)
    z, half = width / 2 - thick * rng.uniform(0.4, 0.6), thick / 2
    rim, deep = radius * rng.uniform(0.55, 0.75), thick * rng.uniform(0.05, 0.3)
    profile = [(0, -half), (radius * 0.9, -half), (radius, -half * 0.7), (radius, half * 0.7), (radius * 0.9, half)]
    profile += [(rim, half), (rim * 0.95, half - deep), (0.02, half - deep), (0, half - deep * 0.5)]
    wheel = placed(revolved(profile, axis="z", sides=18), move=(x, radius, z))
    arch = placed(cylinder(radius * 1.12, thick * 1.5, axis="z", sides=18), move=(x, radius, z + thick * 0.1))
    return pair(Piece(WHEEL, wheel, hides=())) + pair(Piece(NOTHING, arch, hides=(BODY, HOOD)))


def _extras(rng: np.random.Generator, plan: _Plan, radius: float) -> list[Piece]:
    """Mirrors, a spoiler, bumpers: some of them."""
    pieces = []
    if rng.random() < 0.6:
        mirror = placed(ellipsoid(0.06, 0.05, 0.08, sides=8), move=(plan.cowl - 0.12, plan.belt + 0.03, plan.width / 2))
        pieces += pair(Piece(BODY, mirror))
    if rng.random() < 0.15:
        pieces.append(Piece(BODY, placed(box(0.12, 0.02, plan.width * 0.8), move=(-0.92, plan.belt + 0.1, 0))))
        pieces += pair(Piece(BODY, placed(box(0.06, 0.12, 0.02), move=(-0.9, plan.belt + 0.04, plan.width * 0.3))))
    if rng.random() < 0.4:
        bumper = placed(cushion(0.08, 0.07, plan.width * 0.9), move=(0.99, radius + 0.05, 0))
        pieces += pair(Piece(BODY, bumper), "x")
    return pieces


def skateboard(rng: np.random.Generator) -> list[Piece]:
    """A deck with bent or flat ends, on two trucks with two wheels each."""
    half, thick = rng.uniform(0.22, 0.32), rng.uniform(0.02, 0.06)
    return [Piece(DECK, _deck(rng, half, thick)), *_trucks(rng, half, thick)]


def _deck(rng: np.random.Generator, half: float, thick: float) -> Surface:
    """A long board with round ends that may be bent up."""
    blunt, bend = rng.uniform(0.15, 0.32), rng.uniform(0.0, 0.14) * (rng.random() < 0.75)
    end = 1 - blunt * (1 - np.cos(np.linspace(0, np.pi / 2, 8)))
    x = np.concatenate([-end, np.linspace(blunt - 1, 1 - blunt, 7)[1:-1], end[::-1]])
    wide = half * np.sqrt(1 - ((np.abs(x) - 1 + blunt) / blunt).clip(0) ** 2).clip(0.02)
    rise = bend * ((np.abs(x) - 0.62) / 0.38).clip(0) * np.where(x > 0, 1.0, rng.uniform(0.6, 1.2))
    edge = np.array([(-0.5, -1.0), (-0.5, 1.0), (0.5, 1.0), (0.5, -1.0)])
    return loft([[(a, up + t * thick, w * b) for t, b in edge] for a, up, w in zip(x, rise, wide, strict=True)])


def _trucks(rng: np.random.Generator, half: float, thick: float) -> list[Piece]:
    """Base plate, hanger and axle at both ends, and the wheels."""
    at, radius, drop = rng.uniform(0.42, 0.62), rng.uniform(0.05, 0.13), rng.uniform(0.03, 0.1)
    wide, track = rng.uniform(0.07, 0.13), half * rng.uniform(0.65, 0.95)
    level = -thick / 2 - drop - radius * 0.6
    wheel = placed(cylinder(radius, wide, axis="z", sides=18), move=(at, level, track))
    plate = placed(box(0.2, 0.02, half * 0.5), move=(at, -thick / 2 - 0.01, 0))
    outlines = [(0.14, 0.12, -thick / 2), (0.06, track, level)]
    hanger = off(loft([np.insert(rounded(a, b), 1, y, axis=1) for a, b, y in outlines]), at, 0, 0)
    axle = placed(cylinder(radius * 0.25, track * 2, axis="z", sides=8), move=(at, level, 0))
    metal = [each for form in (plate, hanger, axle) for each in pair(Piece(TRUCK, form), "x")]
    return four(Piece(ROLL, wheel)) + metal
