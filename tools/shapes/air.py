"""Generated airplanes and rockets: the nose points along x, y is up."""

from __future__ import annotations

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.metrics.shapenet import CATEGORIES
from tools.shapes.assembly import Piece, off, one_of, pair, rod
from tools.shapes.surfaces import Numbers, Surface, box, cylinder, ellipsoid, loft, placed, revolved, rounded

BODY, WING, TAIL, ENGINE = CATEGORIES["Airplane"]
HULL, FIN, NOSE = CATEGORIES["Rocket"]

_FOIL = np.array([(0.5, 0.0), (0.38, 0.4), (0.1, 0.5), (-0.2, 0.35), (-0.5, 0.04)])
_FOIL = np.concatenate([_FOIL, _FOIL[:0:-1] * (1, -1)])
"""The outline of a wing's section: along the chord, and across it."""


def airplane(rng: np.random.Generator) -> list[Piece]:
    """An airliner, a jet fighter, a light propeller plane, a biplane or a plane with engines in its wings."""
    return one_of(rng, {_airliner: 0.5, _fighter: 0.15, _light_plane: 0.12, _biplane: 0.08, _bomber: 0.15})


def rocket(rng: np.random.Generator) -> list[Piece]:
    """A slim missile, a rocket with fins, a bulging one as in comics, or one with boosters at its side."""
    slim, bulging = rng.random() < 0.35, rng.random() < 0.3
    radius = rng.uniform(0.05, 0.09) if slim else rng.uniform(0.1, 0.28)
    profile = _hull_profile(rng, radius, bulging)
    nose = off(_ogive(profile[-1, 0], rng.uniform(0.3, 0.7), rng.uniform(0.5, 1.0)), 0, 1.0)
    pieces = [Piece(HULL, revolved(profile, axis="x", sides=20)), Piece(NOSE, revolved(nose, axis="x", sides=20))]
    if rng.random() < 0.5:
        length = rng.uniform(0.06, 0.2)
        pieces.append(Piece(HULL, revolved([(radius * 0.8, -1 - length), (radius * 0.4, -1)], axis="x", sides=20)))
    if rng.random() < 0.25:
        fins = _boosters(rng, radius)
    else:
        fins = _fins(rng, radius, x=rng.uniform(-0.95, -0.75))
        if slim and rng.random() < 0.6:
            fins += [placed(fin, scale=0.7, move=(rng.uniform(0.9, 1.2), 0, 0)) for fin in fins]
    turns = rng.uniform(0, 360) + np.arange(0, 360, rng.choice([90, 120]))
    return pieces + [Piece(FIN, placed(fin, turn=(turn, 0, 0))) for fin in fins for turn in turns]


def _hull_profile(rng: np.random.Generator, radius: float, bulging: bool) -> FloatArray:
    """Radius and place along x, from the tail at -1 to the nose's root at 1."""
    x = np.linspace(-1, 1, 9)
    if bulging:
        return np.stack([radius * (0.6 + 0.6 * np.cos(0.5 * np.pi * (x + 0.2) / 1.3) ** 2), x], axis=1)
    neck, at = rng.uniform(0.6, 1.0), rng.integers(3, 9)
    return np.stack([np.where(x > x[at - 1], radius * neck, radius), x], axis=1)


def _ogive(radius: float, length: float, power: float) -> FloatArray:
    """A nose from radius to a point: a cone for power 1, rounder below."""
    along = np.linspace(0, 1, 7)
    return np.stack([radius * (1 - along ** (1 / power)) ** power, length * along], axis=1)


def _fins(rng: np.random.Generator, radius: float, *, x: float) -> list[Surface]:
    """One fin, which stands up on the hull."""
    height, chord = rng.uniform(0.05, 0.35), rng.uniform(0.2, 0.5)
    back = rng.uniform(-0.1, 0.4)
    tip = chord * rng.uniform(0.2, 0.8)
    return [_foil([(x, 0, 0, chord, 0.02), (x - back * chord, radius + height, 0, tip, 0.015)], across=(0, 0, 1))]


def _boosters(rng: np.random.Generator, radius: float) -> list[Surface]:
    """A pod beside the hull, on a strut, or against the hull."""
    thick, length = radius * rng.uniform(0.35, 0.6), rng.uniform(0.3, 1.0)
    height = (radius + thick) * rng.uniform(1.0, 1.5)
    x = -1 + length / 2
    pod = revolved([(thick * 0.7, -length / 2), (thick, -length / 4), (thick, length / 4), (0, length / 2)], axis="x")
    return [placed(pod, move=(x, height, 0)), rod((x, 0, 0), (x, height, 0), thick / 4)]


def _airliner(rng: np.random.Generator) -> list[Piece]:
    """Swept wings, jets below them or at the tail."""
    radius = rng.uniform(0.1, 0.14)
    pieces = [Piece(BODY, _fuselage(rng, radius, nose=rng.uniform(0.1, 0.2), tail=rng.uniform(0.3, 0.45)))]
    at_tail = rng.random() < 0.25
    span, chord = rng.uniform(0.75, 1.1), rng.uniform(0.32, 0.45)
    back, rise = span * rng.uniform(0.15, 0.6), span * rng.uniform(0.02, 0.12)
    x, y = rng.uniform(0.0, 0.15) - 0.1 * at_tail, -radius * rng.uniform(0.3, 0.7)
    wing: list[tuple[float, ...]] = [(x, y, 0, chord, chord * 0.12)]
    wing.append((x - back * 0.35, y + rise * 0.35, span * 0.38, chord * 0.6, chord * 0.06))
    wing.append((x - back, y + rise, span, chord * rng.uniform(0.2, 0.35), chord * 0.03))
    if rng.random() < 0.35:
        wing.append((x - back - 0.06, y + rise + rng.uniform(0.05, 0.15), span + 0.03, chord * 0.12, chord * 0.02))
    pieces += pair(Piece(WING, _foil(wing)))
    pieces += _tail(rng, radius, high=at_tail or rng.random() < 0.1)
    size = radius * rng.uniform(0.38, 0.55)
    length = size * rng.uniform(3.5, 6)
    if at_tail:
        pieces += pair(Piece(ENGINE, placed(_jet(size, length), move=(-0.55, radius * 0.3, radius + size * 1.2))))
        pieces += pair(Piece(ENGINE, placed(box(length / 2, size / 4, size * 2), move=(-0.55, radius * 0.3, radius))))
    else:
        places = [0.33] if rng.random() < 0.7 else [0.3, 0.6]
        pieces += [each for place in places for each in _below(wing, place, size, length)]
    return pieces + (_gear(rng, radius, ENGINE, third=0.75) if rng.random() < 0.6 else [])


def _fighter(rng: np.random.Generator) -> list[Piece]:
    """A pointed nose, delta or swept wings, one fin or two, nozzles at the end."""
    radius = rng.uniform(0.08, 0.13)
    body = _fuselage(rng, radius, nose=rng.uniform(0.35, 0.5), tail=0.15, end=0.8, power=0.8)
    canopy = placed(ellipsoid(0.45, radius * 1.6, radius * 1.2), move=(rng.uniform(0.35, 0.5), radius * 0.6, 0))
    pieces = [Piece(BODY, placed(body, scale=(1, 0.9, rng.uniform(1.0, 1.5)))), Piece(BODY, canopy)]
    span, chord = rng.uniform(0.5, 0.75), rng.uniform(0.6, 1.0)
    tip = chord * rng.uniform(0.08, 0.35)
    x = -0.3 - rng.uniform(0.0, 0.1)
    wing = [(x + 0.1, 0, 0, chord, 0.05), (x - (chord - tip) * rng.uniform(0.25, 0.5), 0, span, tip, 0.015)]
    pieces += pair(Piece(WING, _foil(wing)))
    if rng.random() < 0.4:
        missile = revolved([(0.025, -0.2), (0.025, 0.15), (0, 0.2)], axis="x", sides=8)
        pieces += pair(Piece(WING, placed(missile, move=(wing[1][0], 0, span))))
    twin = rng.random() < 0.5
    lean = rng.uniform(0.0, 0.2) if twin else 0.0
    z = radius * 1.1 if twin else 0.0
    height = rng.uniform(0.3, 0.45)
    fin = [(-0.7, radius * 0.2, z, 0.4, 0.03), (-0.92, radius + height, z + lean, 0.15, 0.015)]
    pieces += pair(Piece(TAIL, _foil(fin, across=(0, 0, 1)))) if twin else [Piece(TAIL, _foil(fin, across=(0, 0, 1)))]
    if rng.random() < 0.8:
        plane = [(-0.8, 0, 0, 0.3, 0.03), (-0.98, 0, rng.uniform(0.3, 0.42), 0.12, 0.015)]
        pieces += pair(Piece(TAIL, _foil(plane)))
    nozzle = revolved([(radius * 0.6, -0.12), (radius * 0.8, 0.06)], axis="x")
    if rng.random() < 0.5:
        return [*pieces, *pair(Piece(ENGINE, placed(nozzle, scale=(1, 0.8, 0.8), move=(-1, 0, radius * 0.7))))]
    return [*pieces, Piece(ENGINE, placed(nozzle, move=(-1, 0, 0)))]


def _light_plane(rng: np.random.Generator) -> list[Piece]:
    """Straight wings above or below, a propeller in front, wheels that stay out."""
    radius = rng.uniform(0.13, 0.19)
    pieces = [Piece(BODY, _fuselage(rng, radius, nose=rng.uniform(0.15, 0.3), tail=rng.uniform(0.5, 0.65), end=0.15))]
    high = rng.random() < 0.5
    span, chord = rng.uniform(0.9, 1.25), rng.uniform(0.28, 0.42)
    y = radius * (0.9 if high else -0.6)
    x = rng.uniform(0.2, 0.35)
    wing = [(x, y, 0, chord, chord * 0.14), (x, y + 0.05, span, chord * rng.uniform(0.5, 1.0), chord * 0.07)]
    pieces += pair(Piece(WING, _foil(wing)))
    if high:
        pieces += pair(Piece(WING, rod((x, -radius * 0.7, radius * 0.5), (x, y, span * 0.5), 0.012)))
    elif rng.random() < 0.7:
        pieces.append(Piece(BODY, placed(ellipsoid(0.5, radius * 1.5, radius * 1.5), move=(x - 0.05, radius * 0.7, 0))))
    pieces += _tail(rng, radius * 0.8, high=rng.random() < 0.15)
    return pieces + _propeller(rng, 1.0, 0, 0) + _gear(rng, radius, BODY, third=rng.choice([0.75, -0.85]))


def _biplane(rng: np.random.Generator) -> list[Piece]:
    """Two straight wings, one above the other, with struts between them."""
    radius = rng.uniform(0.13, 0.18)
    pieces = [Piece(BODY, _fuselage(rng, radius, nose=0.1, tail=0.85, end=0.2, power=0.3))]
    span, chord = rng.uniform(0.8, 1.15), rng.uniform(0.35, 0.55)
    x, low, top = rng.uniform(0.3, 0.5), -radius * rng.uniform(0.5, 1.0), radius * rng.uniform(2.0, 3.0)
    for y, ahead in ((low, 0.0), (top, rng.uniform(0.0, 0.15))):
        wing = [(x + ahead, y, 0, chord, 0.05), (x + ahead, y + 0.03, span, chord * rng.uniform(0.8, 1.0), 0.04)]
        pieces += pair(Piece(WING, _foil(wing)))
    for z in (radius, span * 0.7):
        for ahead in (-0.12, 0.12):
            pieces += pair(Piece(WING, rod((x + ahead, low, z), (x + ahead, top, z), 0.01)))
    pieces += _tail(rng, radius * 0.7, high=False)
    return pieces + _propeller(rng, 1.0, 0, 0) + _gear(rng, radius * 1.5, int(rng.choice([WING, BODY])), third=-0.85)


def _bomber(rng: np.random.Generator) -> list[Piece]:
    """Nearly straight wings with two or four propellers or jets in them."""
    radius = rng.uniform(0.11, 0.16)
    pieces = [Piece(BODY, _fuselage(rng, radius, nose=rng.uniform(0.1, 0.2), tail=rng.uniform(0.4, 0.6)))]
    span, chord = rng.uniform(0.95, 1.3), rng.uniform(0.3, 0.4)
    y = radius * rng.uniform(-0.6, 0.9)
    x, rise = rng.uniform(0.1, 0.25), rng.uniform(0.0, 0.1)
    wing = [(x, y, 0, chord, chord * 0.15), (x - rng.uniform(0.0, 0.1), y + rise, span, chord * 0.4, chord * 0.06)]
    pieces += pair(Piece(WING, _foil(wing)))
    size = rng.uniform(0.05, 0.08)
    jets = rng.random() < 0.3
    for place in [0.3] if rng.random() < 0.5 else [0.28, 0.55]:
        z = place * span
        cx, cy, cz = x + chord * 0.35, y + rise * place, z
        shape = revolved([(size * 0.2, -0.3), (size, -0.05), (size, 0.2), (size * 0.5, 0.22)], axis="x", sides=12)
        shape = _jet(size * 0.9, 0.4) if jets else shape
        pieces += pair(Piece(ENGINE, placed(shape, move=(cx, cy, cz))))
        if not jets:
            pieces += [each for one in _propeller(rng, cx + 0.2, cy, cz) for each in pair(one)]
    return pieces + _tail(rng, radius, high=rng.random() < 0.2)


def _fuselage(
    rng: np.random.Generator, radius: float, *, nose: float, tail: float, end: float = 0.12, power: float = 0.5
) -> Surface:
    """A body from x = 1 to -1; nose and tail are the shares of it that taper, the tail to ``end`` and upwards."""
    t = np.concatenate([nose * np.linspace(0, 1, 7) ** 2, np.linspace(nose, 1 - tail, 5)[1:], 1 - tail * _EIGHTHS])
    thin = np.clip((t - 1 + tail) / tail, 0, 1) ** 1.5
    size = radius * np.clip(1 - (1 - t / nose).clip(0) ** 2, 0, 1) ** power * (1 - (1 - end) * thin)
    rise = radius * rng.uniform(0.3, 0.8) * thin
    ring = rounded(2, 2 * rng.uniform(0.9, 1.2), power=rng.uniform(2.0, 2.8), sides=16)
    rings = [[(1 - 2 * a, s * v + up, s * w) for w, v in ring] for a, s, up in zip(t, size, rise, strict=True)]
    return loft(rings)


_EIGHTHS = np.linspace(1, 0, 8)[1:]


def _foil(stations: Numbers, *, across: Numbers = (0, 1, 0)) -> Surface:
    """A wing through stations x, y, z, chord, thickness; ``across`` is the direction in which it is thin."""
    table = np.asarray(stations, float)
    sections = table[:, None, 3:] * _FOIL
    along = sections[..., :1] * [1.0, 0, 0] + sections[..., 1:] * np.asarray(across, float)
    return loft(table[:, None, :3] + along)


def _jet(radius: float, length: float) -> Surface:
    """An engine's housing with a hollow front."""
    profile = [
        (0, -0.55),
        (0.4, -0.5),
        (0.65, -0.4),
        (1, -0.05),
        (1, 0.35),
        (0.85, 0.5),
        (0.7, 0.4),
        (0.6, 0.1),
        (0, 0.1),
    ]
    return placed(revolved(profile, axis="x", sides=14), scale=(length, radius, radius))


def _below(wing: list[tuple[float, ...]], place: float, radius: float, length: float) -> list[Piece]:
    """An engine under each wing at this share of its span, and what it hangs on."""
    table = np.array(wing)
    z = place * table[-1, 2]
    x, y, chord = (np.interp(z, table[:, 2], table[:, k]) for k in (0, 1, 3))
    ahead, low = x + chord * 0.5, y - radius * 1.1
    hold = placed(box(chord * 0.6, radius, radius * 0.25), move=(ahead - chord * 0.2, y - radius * 0.5, z))
    return pair(Piece(ENGINE, placed(_jet(radius, length), move=(ahead, low, z)))) + pair(Piece(ENGINE, hold))


def _tail(rng: np.random.Generator, radius: float, *, high: bool) -> list[Piece]:
    """A fin with two small wings beside it, or on top of it."""
    height, chord = rng.uniform(0.25, 0.4), rng.uniform(0.24, 0.36)
    lean = rng.uniform(0.05, 0.25)
    base = radius * 0.4
    fin = [(-0.78, base, 0, chord, chord * 0.12), (-0.78 - lean, base + height, 0, chord * rng.uniform(0.4, 0.6), 0.02)]
    x, y = (fin[1][0], base + height) if high else (-0.82, base * 1.2)
    span, wide = rng.uniform(0.25, 0.42), chord * rng.uniform(0.6, 0.85)
    plane = [
        (x, y, 0, wide, wide * 0.12),
        (x - rng.uniform(0.0, 0.2), y + 0.02, span, wide * rng.uniform(0.4, 0.7), 0.015),
    ]
    return [Piece(TAIL, _foil(fin, across=(0, 0, 1))), *pair(Piece(TAIL, _foil(plane)))]


def _propeller(rng: np.random.Generator, x: float, y: float, z: float) -> list[Piece]:
    """A spinner with two to four blades."""
    count, long = int(rng.integers(2, 5)), rng.uniform(0.12, 0.22)
    blade = placed(box(0.015, long, 0.035), move=(0, long / 2, 0))
    blades = [placed(blade, turn=(turn, 0, 0), move=(x + 0.03, y, z)) for turn in 360 * np.arange(count) / count]
    spinner = placed(ellipsoid(0.12, 0.06, 0.06, sides=8), move=(x + 0.02, y, z))
    return [Piece(ENGINE, spinner), *(Piece(ENGINE, each) for each in blades)]


def _gear(rng: np.random.Generator, radius: float, part: int, *, third: float) -> list[Piece]:
    """Wheels on struts below the body: two in the middle, and a third at the nose or the tail."""
    wheel, low = rng.uniform(0.03, 0.05), -radius * rng.uniform(1.4, 1.9)
    pieces = []
    for x, z in ((0.0, radius * 0.8), (third, 0.015)):
        pieces += pair(Piece(part, placed(cylinder(wheel, wheel * 0.7, axis="z", sides=10), move=(x, low, z))))
        pieces += pair(Piece(part, rod((x, low, z), (x, -radius * 0.3, z * 0.7), 0.012)))
    return pieces
