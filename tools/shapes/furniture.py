"""Generated chairs and tables: y is up, a chair looks along x, a table is long along z."""

from __future__ import annotations

import numpy as np

from segcertify.metrics.shapenet import CATEGORIES
from tools.shapes.assembly import Piece, arc, cushion, four, off, pair, rod
from tools.shapes.surfaces import Surface, box, cylinder, extruded, frustum, loft, placed, revolved, rounded, tube

BACK, SEAT, LEG, ARM = CATEGORIES["Chair"]
TOP, STAND, DRAWER = CATEGORIES["Table"]


def chair(rng: np.random.Generator) -> list[Piece]:
    """A chair on four legs, an office chair, an armchair or sofa, or one on a foot, bent tubes or panels."""
    bases = {_stretched_legs: 0.5, _star_base: 0.13, _foot: 0.07, _bent_tube: 0.07, _panels: 0.06, None: 0.17}
    base = [*bases][rng.choice(len(bases), p=[*bases.values()])]
    if base is None:
        return _sofa(rng)
    wide, deep = rng.uniform(0.75, 1.05), rng.uniform(0.72, 1.0)
    level, thick = rng.uniform(0.65, 0.95), rng.uniform(0.03, 0.16)
    if base is _stretched_legs and rng.random() < 0.12:  # a bar stool or a bench
        level, wide = (rng.uniform(1.2, 1.5), wide) if rng.random() < 0.5 else (level, rng.uniform(1.4, 2.2))
    power = rng.choice([2.5, 6, 20, 50], p=[0.15, 0.25, 0.3, 0.3])
    bevel = min(thick / 3, 0.04) * (rng.random() < 0.5)
    seat = placed(cushion(deep, thick, wide, bevel=bevel, power=power), move=(0, level - thick / 2, 0))
    pieces = [Piece(SEAT, seat), *_back(rng, wide, deep, level, rng.uniform(0.55, 1.15))]
    inner = 0.8 if power < 3 else 1.0
    pieces += base(rng, LEG, wide * inner, deep * inner, level - thick)
    if rng.random() < (0.7 if base is _star_base else 0.4):
        pieces += _arms(rng, wide, deep, level)
    return pieces


def _back(rng: np.random.Generator, wide: float, deep: float, level: float, tall: float) -> list[Piece]:
    """A board, one with a round top, a bent shell, bars upright or across; it leans back a little."""
    thick, kind = rng.uniform(0.03, 0.12), rng.choice(5, p=[0.35, 0.15, 0.15, 0.2, 0.15])
    start = rng.uniform(0.0, 0.3) * tall if rng.random() < 0.3 else -0.02
    if kind == 0:
        forms = [placed(cushion(thick, tall - start, wide, bevel=thick / 4), move=(0, (tall + start) / 2, 0))]
    elif kind == 1:
        half = wide / 2
        top = arc(half, 0, 180, 12) * [1, rng.uniform(0.3, 1.0)] + [0, tall * 0.6]
        forms = [placed(extruded([(-half, start), (half, start), *top], thick), turn=(0, 90, 0))]
    elif kind == 2:
        forms = [_shell(rng, wide, start, tall, thick * 0.6)]
    else:
        forms = _bars(rng, wide, tall, thick, upright=kind == 3)
    if start > 0:
        forms += [placed(box(0.04, start + 0.1, 0.05), move=(0, start / 2, z)) for z in (-wide / 3, wide / 3)]
    lean = rng.uniform(0, 14)
    return [Piece(BACK, placed(form, turn=(0, 0, lean), move=(thick / 2 - deep / 2, level, 0))) for form in forms]


def _shell(rng: np.random.Generator, wide: float, start: float, tall: float, thick: float) -> Surface:
    """A back that comes forward at its sides."""
    z = np.linspace(-0.5, 0.5, 9)
    bend = rng.uniform(0.2, 0.9) * wide * z**2
    corners = [(0, start), (0, tall), (thick, tall), (thick, start)]
    round_off = 1 - rng.uniform(0, 0.6) * (2 * np.abs(z)) ** 3
    return loft([[(x + a, y * k, b * wide) for x, y in corners] for a, b, k in zip(bend, z, round_off, strict=True)])


def _bars(rng: np.random.Generator, wide: float, tall: float, thick: float, *, upright: bool) -> list[Surface]:
    """Two posts, a rail on top, and bars between."""
    post, count = rng.uniform(0.04, 0.08), int(rng.integers(3, 8) if upright else rng.integers(1, 5))
    forms = [placed(box(post, tall, post), move=(0, tall / 2, z * (wide - post) / 2)) for z in (-1, 1)]
    rail = rng.uniform(0.06, 0.2)
    forms.append(placed(box(post, rail, wide), move=(0, tall - rail / 2, 0)))
    if upright:
        slat = rng.uniform(0.02, 0.06)
        return forms + [
            placed(box(post / 2, tall, slat), move=(0, tall / 2, z)) for z in np.linspace(-0.38, 0.38, count) * wide
        ]
    slat = min(rng.uniform(0.05, 0.15), 0.5 * tall / count)
    return forms + [placed(box(post / 2, slat, wide), move=(0, y, 0)) for y in np.linspace(0.25, 0.75, count) * tall]


def _legs(rng: np.random.Generator, part: int, wide: float, deep: float, tall: float) -> list[Piece]:
    """Four legs: square or round, straight or tapered, upright or spread."""
    thick, taper = rng.uniform(0.03, 0.1), rng.uniform(0.4, 1.0) if rng.random() < 0.6 else 1.0
    spread = tall * rng.uniform(0.0, 0.15) if rng.random() < 0.4 else 0.0
    inset = thick / 2 + (rng.uniform(0, 0.15) if rng.random() < 0.5 else 0.0)
    x, z = deep / 2 - inset, wide / 2 - inset
    path = [(x + spread, 0, z + spread), (x, tall + 0.01, z)]
    if rng.random() < 0.5:
        return four(Piece(part, tube(path, [thick * taper / 2, thick / 2], side=(1, 0, 0))))
    square = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * thick / 2
    rings = [
        [(px + a * k, py, pz + b * k) for a, b in square] for (px, py, pz), k in zip(path, (taper, 1.0), strict=True)
    ]
    return four(Piece(part, loft(rings)))


def _stretched_legs(rng: np.random.Generator, part: int, wide: float, deep: float, tall: float) -> list[Piece]:
    """Four legs, with or without bars between them."""
    pieces = _legs(rng, part, wide, deep, tall)
    if rng.random() < 0.6:
        return pieces
    level, thick = tall * rng.uniform(0.05, 0.6), rng.uniform(0.025, 0.06)
    x, z = deep / 2 - 0.06, wide / 2 - 0.06
    pieces += pair(Piece(part, placed(box(2 * x, thick, thick), move=(0, level, z))))
    across = placed(box(thick, thick, 2 * z), move=(0, level, 0))
    if rng.random() < 0.6:
        return pieces + pair(Piece(part, off(across, x, 0, 0)), "x")
    return [*pieces, Piece(part, across)]


def _star_base(rng: np.random.Generator, part: int, wide: float, deep: float, tall: float) -> list[Piece]:
    """A column on five spokes with castors."""
    reach, wheel = rng.uniform(0.42, 0.58), rng.uniform(0.04, 0.06)
    column = revolved([(0.07, 0.12), (0.06, tall * 0.5), (0.035, tall * 0.5), (0.035, tall + 0.01)])
    plate = placed(box(deep * 0.45, 0.05, wide * 0.4), move=(0, tall - 0.02, 0))
    pieces = [Piece(part, column), Piece(part, plate)]
    for turn in 72.0 * np.arange(5) + rng.uniform(0, 72):
        spoke = rod((0, 0.17, 0), (reach, 0.1, 0), [0.045, 0.028])
        castor = placed(cylinder(wheel, wheel * 1.2, axis="z", sides=10), move=(reach, wheel, 0))
        pieces += [Piece(part, placed(form, turn=(0, turn, 0))) for form in (spoke, castor)]
    return pieces


def _foot(rng: np.random.Generator, part: int, wide: float, deep: float, tall: float) -> list[Piece]:
    """A column on a round or square plate."""
    size = rng.uniform(0.5, 0.8) * min(wide, deep)
    thick = rng.uniform(0.03, 0.08)
    column = rng.uniform(0.04, 0.1)
    if rng.random() < 0.3:
        return [Piece(part, revolved([(size / 2, 0), (size / 2, thick), (column, tall / 2), (size / 3, tall + 0.01)]))]
    plate = cylinder(size / 2, thick) if rng.random() < 0.7 else box(size, thick, size)
    post = rod((0, 0, 0), (0, tall + 0.01, 0), column, sides=12)
    return [Piece(part, placed(plate, move=(0, thick / 2, 0))), Piece(part, post)]


def _bent_tube(rng: np.random.Generator, part: int, wide: float, deep: float, tall: float) -> list[Piece]:
    """A tube on each side, along the floor, up in front and back below the seat."""
    x, thick = deep / 2 - 0.03, rng.uniform(0.02, 0.04)
    path = [(-x, thick), (x - 0.1, thick), (x, 0.1), (x, tall - 0.08), (x - 0.1, tall), (-x, tall)]
    line = np.insert(np.array(path), 2, wide / 2 - thick, axis=1)
    cross = rod((-x, thick, -wide / 2 + thick), (-x, thick, wide / 2 - thick), thick)
    return [*pair(Piece(part, tube(line, thick, side=(0, 0, 1)))), Piece(part, cross)]


def _panels(rng: np.random.Generator, part: int, wide: float, deep: float, tall: float) -> list[Piece]:
    """A board, or an open frame, on each side."""
    thick = rng.uniform(0.03, 0.08)
    z = wide / 2 - thick / 2
    if rng.random() < 0.5:
        return pair(Piece(part, placed(box(deep * rng.uniform(0.7, 1.0), tall, thick), move=(0, tall / 2, z))))
    x, half = deep / 2 - thick / 2, thick / 2
    loop = [(-x, half, z), (x, half, z), (x, tall - half, z), (-x, tall - half, z)]
    return pair(Piece(part, tube(loop, rounded(thick, thick, power=20, sides=8), side=(0, 0, 1), closed=True)))


def _arms(rng: np.random.Generator, wide: float, deep: float, level: float) -> list[Piece]:
    """Rests at both sides, on a post, on two, or bent from a tube."""
    high, thick = rng.uniform(0.22, 0.4), rng.uniform(0.03, 0.06)
    front, z = deep / 2 * rng.uniform(0.4, 0.95), wide / 2 + thick * rng.uniform(-0.4, 0.6)
    back = -deep / 2 + 0.02
    if rng.random() < 0.35:
        path = [(back, high, z), (front - 0.08, high, z), (front, high - 0.08, z), (front, -0.05, z)]
        bent = tube(off(path, 0, level, 0), rng.uniform(0.02, 0.04), side=(0, 0, 1))
        return pair(Piece(ARM, bent))
    rest = placed(cushion(front - back, thick, rng.uniform(0.05, 0.12)), move=((front + back) / 2, level + high, z))
    pieces = pair(Piece(ARM, rest))
    for x in (front - 0.08, back + 0.15) if rng.random() < 0.4 else (rng.uniform(0.0, 0.8) * front,):
        post = placed(box(thick, high + 0.1, thick), move=(x, level + high / 2 - 0.05, z))
        pieces += pair(Piece(ARM, post))
    return pieces


def _sofa(rng: np.random.Generator) -> list[Piece]:
    """Thick cushions between thick arms, for one or for several."""
    wide = rng.uniform(0.7, 1.0) if rng.random() < 0.55 else rng.uniform(1.3, 2.4)
    deep, thick, level = rng.uniform(0.75, 1.0), rng.uniform(0.14, 0.3), rng.uniform(0.4, 0.55)
    floor = rng.uniform(0.05, 0.2)
    tall, high = rng.uniform(0.4, 0.75), rng.uniform(0.12, 0.35)
    soft = rng.uniform(0.02, 0.06)
    pieces = [Piece(SEAT, placed(box(deep, (level - floor) * 0.5, wide), move=(0, floor + (level - floor) * 0.25, 0)))]
    count = 1 if wide < 1.2 else int(rng.integers(2, 4))
    each = wide / count
    for z in (np.arange(count) - (count - 1) / 2) * each:
        seat = cushion(deep - thick * 0.7, (level - floor) * 0.5, each, bevel=soft)
        pieces.append(Piece(SEAT, placed(seat, move=(thick * 0.35, floor + (level - floor) * 0.75, z))))
        back = placed(cushion(thick, tall + level - floor, each, bevel=soft), turn=(0, 0, rng.uniform(0, 10)))
        pieces.append(Piece(BACK, placed(back, move=(thick / 2 - deep / 2, (tall + level + floor) / 2, z))))
    if rng.random() < 0.85:
        side = rng.uniform(0.08, 0.22)
        arm = cushion(deep, level + high - floor, side, bevel=soft)
        pieces += pair(Piece(ARM, placed(arm, move=(0, (level + high + floor) / 2, wide / 2 + side / 2))))
        wide += 2 * side
    return pieces + _legs(rng, LEG, wide * 0.95, deep * 0.95, floor)


def table(rng: np.random.Generator) -> list[Piece]:
    """A table on four legs, on a foot, a desk with drawers, on trestles or on panels."""
    bases = {_four_legs: 0.42, _pillar: 0.14, _desk: 0.22, _trestles: 0.1, _panels: 0.12}
    base = [*bases][rng.choice(len(bases), p=[*bases.values()])]
    deep = rng.uniform(0.65, 1.1)
    wide = deep if base is _pillar or rng.random() < 0.2 else deep * rng.uniform(1.2, 2.4)
    tall, thick = rng.uniform(0.35, 1.0) * max(wide / 2, 0.6), rng.uniform(0.02, 0.1)
    power = 2.0 if rng.random() < (0.7 if base is _pillar else 0.12) else rng.choice([6.0, 50.0])
    top = placed(cushion(deep, thick, wide, power=power), move=(0, tall + thick / 2, 0))
    inner = 0.68 if power == 2.0 else rng.uniform(0.85, 1.0)
    return [Piece(TOP, top), *base(rng, STAND, wide * inner, deep * inner, tall)]


def _four_legs(rng: np.random.Generator, part: int, wide: float, deep: float, tall: float) -> list[Piece]:
    """Legs, often with a frame below the top, a shelf or a drawer between them."""
    pieces = _legs(rng, part, wide, deep, tall)
    if rng.random() < 0.4:
        high = rng.uniform(0.05, 0.12) * tall * 2
        pieces += pair(Piece(TOP, placed(box(deep - 0.1, high, 0.02), move=(0, tall - high / 2, wide / 2 - 0.06))))
        pieces += pair(Piece(TOP, placed(box(0.02, high, wide - 0.1), move=(deep / 2 - 0.06, tall - high / 2, 0))), "x")
    if rng.random() < 0.3:
        pieces.append(
            Piece(DRAWER, placed(box(deep - 0.08, 0.03, wide - 0.08), move=(0, tall * rng.uniform(0.15, 0.5), 0)))
        )
    if rng.random() < 0.2:
        high = tall * rng.uniform(0.15, 0.3)
        pieces.append(Piece(DRAWER, placed(box(deep - 0.12, high, wide - 0.12), move=(0, tall - high / 2, 0))))
    return pieces


def _pillar(rng: np.random.Generator, part: int, wide: float, deep: float, tall: float) -> list[Piece]:
    """A column in the middle, on a plate, a bell or several feet."""
    if rng.random() < 0.6:
        return _foot(rng, part, wide, deep, tall)
    column, reach = rng.uniform(0.03, 0.06), 0.5 * min(wide, deep)
    pieces = [Piece(part, placed(frustum(column * 1.3, column, tall), move=(0, tall / 2, 0)))]
    count = int(rng.integers(3, 6))
    for turn in 360 * np.arange(count) / count:
        path = [(0, tall * 0.25, 0), (reach * 0.5, tall * 0.15, 0), (reach, 0.03, 0)]
        pieces.append(Piece(part, placed(tube(path, column * 0.6, side=(0, 0, 1)), turn=(0, turn, 0))))
    return pieces


def _desk(rng: np.random.Generator, part: int, wide: float, deep: float, tall: float) -> list[Piece]:
    """Drawers at one end or both, short legs below, a board at the back."""
    floor = tall * rng.uniform(0.0, 0.3)
    chest, high = wide * rng.uniform(0.2, 0.36), tall - floor
    body = placed(box(deep * 0.95, high, chest), move=(0, floor + high / 2, wide / 2 - chest / 2))
    both = rng.random() < 0.55
    chests = pair(Piece(DRAWER, body)) if both else [Piece(DRAWER, body)]
    if rng.random() < 0.5:
        for level in floor + high * (np.arange(3) + 0.5) / 3:
            knob = placed(box(0.02, high * 0.26, chest * 0.9), move=(deep * 0.475, level, wide / 2 - chest / 2))
            chests += pair(Piece(DRAWER, knob)) if both else [Piece(DRAWER, knob)]
    if rng.random() < 0.6:
        chests.append(Piece(DRAWER, placed(box(0.02, high * 0.8, wide), move=(-deep * 0.42, tall - high * 0.4, 0))))
    return chests + _legs(rng, part, wide, deep * 0.95, tall if not both else max(floor, 0.03))


def _trestles(rng: np.random.Generator, part: int, wide: float, deep: float, tall: float) -> list[Piece]:
    """Crossed legs at both ends, and a bar between them."""
    thick, z = rng.uniform(0.015, 0.05), wide * rng.uniform(0.3, 0.46)
    x = deep * rng.uniform(0.3, 0.45)
    pieces = pair(Piece(part, rod((-x, 0, z), (x, tall, z), thick))) + pair(
        Piece(part, rod((x, 0, z), (-x, tall, z), thick))
    )
    return [*pieces, Piece(DRAWER, rod((0, tall / 2, -z), (0, tall / 2, z), thick))]
