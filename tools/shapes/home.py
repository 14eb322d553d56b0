"""Generated lamps, laptops, mugs and bags: y is up, x is where they look or where the mug's handle is."""

from __future__ import annotations

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.metrics.shapenet import CATEGORIES
from tools.shapes.assembly import Piece, arc, bow, cushion, off, one_of, pair, rod, sheet
from tools.shapes.surfaces import Numbers, Surface, box, cylinder, ellipsoid, loft, placed, revolved, rounded, tube

BASE, SHADE, BRACKET, STEM = CATEGORIES["Lamp"]
KEYBOARD, SCREEN = CATEGORIES["Laptop"]
EAR, CUP = CATEGORIES["Mug"]
HANDLE, BODY = CATEGORIES["Bag"]


def lamp(rng: np.random.Generator) -> list[Piece]:
    """A lamp for the table, the floor, the desk, the ceiling or the wall."""
    return one_of(rng, {_table_lamp: 0.32, _floor_lamp: 0.18, _desk_lamp: 0.15, _ceiling_lamp: 0.23, _wall_lamp: 0.12})


def _shade(rng: np.random.Generator, size: float, place: Numbers) -> Piece:
    """A cone, a bell, a dome or a ball, of about this diameter around a place, and open below."""
    tall, top = size * rng.uniform(0.5, 0.9), rng.uniform(0.3, 0.9) * size / 2
    kind = int(rng.choice(4, p=[0.5, 0.2, 0.15, 0.15]))
    t = np.linspace(0, 1, 8)
    radius = {
        0: size / 2 + (top - size / 2) * t,
        1: top + (size / 2 - top) * (1 - t) ** 2.5,
        2: size / 2 * np.sqrt(1 - (0.95 * t) ** 2),
        3: size / 2 * np.sqrt(1 - (1.9 * (t - 0.45)).clip(-0.98, 0.98) ** 2),
    }[kind]
    sides = int(rng.choice([4, 6, 8, 20, 20, 20]))
    form = revolved(np.stack([radius, tall * (t - 0.5)], axis=1), sides=sides, sheet=True)
    return sheet(SHADE, placed(form, move=place))


def _foot(rng: np.random.Generator, size: float) -> Surface:
    """A plate, a dome or a block on the floor, of about this diameter."""
    tall = rng.uniform(0.03, 0.12)
    kind = rng.choice(3, p=[0.5, 0.3, 0.2])
    if kind == 2:
        return placed(box(size, tall, size), move=(0, tall / 2, 0))
    steps = [(1.0, 0.0), (1.0, 0.3), (0.85, 0.5), (0.4, 0.8), (0.2, 1.0)] if kind else [(1.0, 0.0), (1.0, 1.0)]
    return revolved([(r * size / 2, y * tall) for r, y in steps], sides=20)


def _table_lamp(rng: np.random.Generator) -> list[Piece]:
    """A turned stem, a vase or a thin bar, under a wide shade."""
    tall, size, foot = rng.uniform(0.6, 1.0), rng.uniform(0.6, 1.1), rng.uniform(0.3, 0.6)
    pieces = [Piece(BASE, _foot(rng, foot)), _shade(rng, size, (0, tall + size * 0.25, 0))]
    if rng.random() < 0.35:
        t = np.linspace(0, 1, 10)
        radius = 0.05 + rng.uniform(0.1, 0.25) * np.sin(np.pi * t ** rng.uniform(0.6, 1.2)) ** 2
        vase = np.stack([radius + foot * 0.2 * (1 - t), tall * 0.8 * t + 0.03], axis=1)
        bar = rod((0, tall * 0.8, 0), (0, tall + 0.2, 0), 0.02)
        return [*pieces, Piece(int(rng.choice([BASE, STEM])), revolved(vase, sides=20)), Piece(STEM, bar)]
    knots = rng.uniform(0.02, 0.11, 7) if rng.random() < 0.6 else np.full(7, rng.uniform(0.015, 0.04))
    return [*pieces, Piece(STEM, revolved(np.stack([knots, np.linspace(0, tall + 0.1, 7)], axis=1), sides=12))]


def _floor_lamp(rng: np.random.Generator) -> list[Piece]:
    """A long thin stem, straight or bent over, on a plate or three feet."""
    tall, thick, size = rng.uniform(1.5, 2.2), rng.uniform(0.012, 0.03), rng.uniform(0.35, 0.7)
    pieces = [Piece(BASE, _foot(rng, rng.uniform(0.35, 0.55)))]
    if rng.random() < 0.25:
        feet = [rod((0, tall * 0.7, 0), (0.35 * c, 0, 0.35 * s), thick) for c, s in arc(1, 0, 240, 3)]
        pieces = [Piece(STEM, foot) for foot in feet]
    if rng.random() < 0.7:
        return [*pieces, Piece(STEM, rod((0, 0, 0), (0, tall, 0), thick)), _shade(rng, size, (0, tall, 0))]
    reach = rng.uniform(0.3, 0.6)
    path = np.insert([(0, 0), *off(arc(reach, 180, 20, 10), reach, tall - reach)], 2, 0, axis=1)
    return [
        *pieces,
        Piece(STEM, tube(path, thick, side=(0, 0, 1))),
        _shade(rng, size, off(path[-1], 0, -size * 0.2, 0)),
    ]


def _desk_lamp(rng: np.random.Generator) -> list[Piece]:
    """One arm or two, and a shade that looks forward and down."""
    thick, size = rng.uniform(0.015, 0.035), rng.uniform(0.3, 0.6)
    elbow = np.array([rng.uniform(-0.35, 0.1), rng.uniform(0.4, 0.7), 0.0])
    pieces = [Piece(BASE, _foot(rng, rng.uniform(0.4, 0.7))), Piece(STEM, rod((0, 0.05, 0), elbow, thick))]
    hand = elbow
    if rng.random() < 0.65:
        hand = off(elbow, rng.uniform(0.3, 0.6), rng.uniform(-0.05, 0.4), 0)
        joint = placed(ellipsoid(thick * 3, thick * 3, thick * 3, sides=8), move=elbow)
        pieces += [Piece(STEM, rod(elbow, hand, thick)), Piece(STEM, joint)]
    cone = np.array([(0.25, 0.3), (0.3, 0.15), (0.5, -0.5)]) * [size, size * rng.uniform(1.0, 1.5)]
    turn, place = (0, 0, rng.uniform(20, 95)), off(hand, 0.15 * size, -0.05 * size, 0)
    holder = revolved([(size * 0.12, size * 0.5), (size * 0.25, size * 0.3)])
    shade = sheet(SHADE, placed(revolved(cone, sides=20, sheet=True), turn=turn, move=place))
    return [*pieces, shade, Piece(STEM, placed(holder, turn=turn, move=place))]


def _ceiling_lamp(rng: np.random.Generator) -> list[Piece]:
    """A bracket above, a rod or a cord, and one shade below or several around."""
    tall, thick, plate = rng.uniform(0.3, 1.4), rng.uniform(0.008, 0.025), rng.uniform(0.15, 0.35)
    bracket = revolved([(plate * 0.3, tall - 0.06), (plate / 2, tall - 0.02), (plate / 2, tall)], sides=20)
    pieces = [Piece(BRACKET, bracket)]
    if rng.random() < 0.6:
        size = rng.uniform(0.4, 1.0)
        return [*pieces, Piece(STEM, rod((0, tall, 0), (0, size * 0.2, 0), thick)), _shade(rng, size, (0, 0, 0))]
    count, reach = int(rng.integers(3, 7)), rng.uniform(0.35, 0.6)
    trunk = [(thick, tall), (thick, 0.2), (0.06, 0.05), (0.08, -0.1), (0.02, -0.2)]
    branch = tube([(0, 0, 0), (reach * 0.5, -0.12, 0), (reach, 0.0, 0), (reach, 0.1, 0)], 0.018, side=(0, 0, 1))
    around = [Piece(STEM, branch), _shade(rng, rng.uniform(0.2, 0.32), (reach, 0.15, 0))]
    pieces.append(Piece(STEM, revolved(trunk, sides=12)))
    for turn in 360 * np.arange(count) / count:
        pieces += [each._replace(surface=placed(each.surface, turn=(0, turn, 0))) for each in around]
    return pieces


def _wall_lamp(rng: np.random.Generator) -> list[Piece]:
    """A plate at the wall behind, an arm forward and often aside, a shade on its end."""
    size, plate, thick = rng.uniform(0.4, 0.7), rng.uniform(0.25, 0.5), rng.uniform(0.015, 0.035)
    wall = cylinder(plate / 2, 0.06, axis="x", sides=int(rng.choice([6, 8, 20])))
    wall = box(0.06, plate, plate * 0.6) if rng.random() < 0.3 else wall
    end = np.array([rng.uniform(0.3, 0.8), 0.0, rng.uniform(-0.25, 0.25)])
    pieces = [Piece(BASE, wall), Piece(STEM, rod((0, 0, 0), end, thick))]
    pieces.append(Piece(STEM, rod(off(end, 0, -0.05, 0), off(end, 0, 0.2, 0), thick)))
    return [*pieces, _shade(rng, size, off(end, 0, 0.15 + size * 0.3, 0))]


def laptop(rng: np.random.Generator) -> list[Piece]:
    """Two flat boxes that meet at a hinge."""
    deep, wide = rng.uniform(0.85, 1.1), rng.uniform(1.2, 1.5)
    low, thin = rng.uniform(0.02, 0.08), rng.uniform(0.015, 0.06)
    base = placed(cushion(deep, low, wide, power=rng.choice([8.0, 20.0, 50.0])), move=(deep / 2, 0, 0))
    long = deep * rng.uniform(0.85, 1.0)
    screen = placed(cushion(thin, long, wide * rng.uniform(0.97, 1.0)), move=(0, long / 2 + low * 0.4, 0))
    pieces = [Piece(KEYBOARD, base), Piece(SCREEN, placed(screen, turn=(0, 0, rng.uniform(-4, 32))))]
    if rng.random() < 0.5:
        keys = placed(box(deep * 0.45, low * 0.2, wide * 0.85), move=(deep * 0.4, low * 0.55, 0))
        pad = placed(box(deep * 0.2, low * 0.1, wide * 0.25), move=(deep * 0.8, low * 0.5, 0))
        pieces += [Piece(KEYBOARD, keys), Piece(KEYBOARD, pad)]
    if rng.random() < 0.4:
        hinge = cylinder(max(low, thin) * 0.6, wide * 0.8, axis="z", sides=10)
        pieces.append(Piece(int(rng.choice([KEYBOARD, SCREEN])), hinge))
    return pieces


def mug(rng: np.random.Generator) -> list[Piece]:
    """A cup, straight, tapered, bellied or rounded below, with its handle along x."""
    radius, tall = rng.uniform(0.45, 0.6), rng.uniform(0.9, 1.6)
    wall = rng.uniform(0.03, 0.08)
    t = np.linspace(0, 1, 9)
    taper, belly = rng.uniform(-0.2, 0.25) * (rng.random() < 0.6), rng.uniform(0.0, 0.3) * (rng.random() < 0.4)
    round_off = 1 - rng.uniform(0.1, 0.5) * (1 - t / 0.3).clip(0) ** 2 * (rng.random() < 0.35)
    outer = radius * (1 + taper * (t - 0.5) * 2 + belly * np.sin(np.pi * t)) * round_off
    up = np.stack([outer, tall * t], axis=1)
    down = np.stack([outer - wall, wall + (tall - wall) * t], axis=1)[::-1]
    cup = revolved(np.concatenate([[(0, 0)], up, down, [(0, wall)]]), sides=24)
    return [Piece(CUP, cup, hides=(EAR,)), Piece(EAR, _ear(rng, outer, tall))]


def _ear(rng: np.random.Generator, outer: FloatArray, tall: float) -> Surface:
    """A handle: round, angular or like an ear."""
    low, high = rng.uniform(0.1, 0.3), rng.uniform(0.7, 0.92)
    reach = tall * rng.uniform(0.2, 0.45)
    start, stop = (np.interp(y, np.linspace(0, 1, 9), outer) - 0.02 for y in (low, high))
    curve = bow(-90, 90, rng.uniform(0.4, 1.0))
    y = (curve[:, 1] + 1) / 2
    x = start + (stop - start) * y + reach * curve[:, 0] * (1 + rng.uniform(-0.3, 0.5) * (y - 0.5))
    path = np.stack([x, tall * (low + (high - low) * y), 0 * x], axis=1)
    thick = rng.uniform(0.06, 0.13)
    return tube(path, rounded(thick * rng.uniform(1.0, 2.2), thick, power=3, sides=10), side=(0, 0, 1))


def bag(rng: np.random.Generator) -> list[Piece]:
    """A handbag, a case, a roll or a rucksack."""
    return one_of(rng, {_handbag: 0.45, _case: 0.2, _roll: 0.15, _rucksack: 0.2})


def _sack(rng: np.random.Generator, bottom: Numbers, top: Numbers, tall: float) -> Surface:
    """A body from one rectangle (x, z) below to another above, rounded at its corners."""
    power, swell = rng.uniform(3, 10), rng.uniform(0.0, 0.2)
    rings = []
    for t in np.linspace(0, 1, 7):
        x, z = (np.asarray(bottom, float) * (1 - t) + np.asarray(top, float) * t) * (
            1 + swell * np.sin(np.pi * t) - 0.1 * (t == 0)
        )
        rings.append(np.insert(rounded(x, z, power=power, sides=20), 1, tall * t, axis=1))
    return loft(rings)


def _loop(rng: np.random.Generator, wide: float, high: float, section: float | Numbers) -> Surface:
    """A handle that stands up in the plane of y and z."""
    curve = bow(180, 0, rng.uniform(0.6, 1.0), 14)
    return tube(
        np.stack([0 * curve[:, 0], high * curve[:, 1], wide / 2 * curve[:, 0]], axis=1), section, side=(1, 0, 0)
    )


def _handbag(rng: np.random.Generator) -> list[Piece]:
    """Wide below, narrow above, with one handle or two."""
    wide, tall = rng.uniform(1.0, 1.4), rng.uniform(0.6, 1.1)
    thick, neck = rng.uniform(0.3, 0.65), rng.uniform(0.06, 0.3)
    body = _sack(rng, (thick, wide), (neck, wide * rng.uniform(0.7, 1.05)), tall)
    strap = rounded(rng.uniform(0.03, 0.09), rng.uniform(0.02, 0.04), power=4, sides=8)
    loop = placed(_loop(rng, wide * rng.uniform(0.4, 0.8), rng.uniform(0.25, 0.8), strap), move=(0, tall - 0.05, 0))
    if rng.random() < 0.6:
        return [Piece(BODY, body), *pair(Piece(HANDLE, placed(loop, turn=(0, 0, -4), move=(neck * 0.45, 0, 0))), "x")]
    return [Piece(BODY, body), Piece(HANDLE, loop)]


def _case(rng: np.random.Generator) -> list[Piece]:
    """A box with a short handle on top."""
    wide, tall, thick = rng.uniform(1.0, 1.4), rng.uniform(0.7, 1.2), rng.uniform(0.2, 0.5)
    body = placed(cushion(thick, tall, wide, bevel=rng.uniform(0.0, 0.06)), move=(0, tall / 2, 0))
    loop = _loop(rng, wide * rng.uniform(0.2, 0.4), rng.uniform(0.08, 0.2), rounded(0.06, 0.035, sides=8))
    return [Piece(BODY, body), Piece(HANDLE, placed(loop, move=(0, tall - 0.02, 0)))]


def _roll(rng: np.random.Generator) -> list[Piece]:
    """A lying cylinder with two loops."""
    radius, wide = rng.uniform(0.25, 0.4), rng.uniform(1.2, 1.6)
    body = placed(cylinder(radius, wide, axis="z", sides=20), scale=(1, rng.uniform(0.8, 1.1), 1))
    loop = _loop(rng, wide * 0.4, radius * rng.uniform(1.4, 2.0), rounded(0.08, 0.02, sides=8))
    return [Piece(BODY, body), *pair(Piece(HANDLE, placed(loop, turn=(0, 0, -12), move=(radius * 0.2, 0, 0))), "x")]


def _rucksack(rng: np.random.Generator) -> list[Piece]:
    """Taller than wide, with a pocket in front and straps behind."""
    wide, tall, thick = rng.uniform(0.7, 0.95), rng.uniform(1.0, 1.3), rng.uniform(0.35, 0.55)
    body = _sack(rng, (thick, wide), (thick * 0.6, wide * 0.8), tall)
    pocket = placed(cushion(thick * 0.5, tall * 0.45, wide * 0.7, bevel=0.04), move=(thick * 0.45, tall * 0.3, 0))
    curve = arc(1.0, 90, 270, 12) * [rng.uniform(0.15, 0.3), tall * 0.42]
    strap = np.insert(off(curve, -thick * 0.35, tall * 0.5), 2, wide * 0.25, axis=1)
    grip = placed(_loop(rng, wide * 0.25, 0.1, rounded(0.05, 0.03, sides=8)), move=(-thick * 0.1, tall, 0))
    straps = pair(Piece(HANDLE, tube(strap, rounded(0.09, 0.03, sides=8), side=(0, 0, 1))))
    return [Piece(BODY, body), Piece(BODY, pocket), *straps, Piece(HANDLE, grip)]
