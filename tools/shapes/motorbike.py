"""Generated motorbikes: they drive along x, y is up, the ground is at 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.metrics.shapenet import CATEGORIES
from tools.shapes.assembly import Piece, arc, cushion, off, pair, rod, sheet
from tools.shapes.surfaces import box, cylinder, ellipsoid, extruded, loft, placed, revolved, rounded, torus, tube

TANK, SADDLE, TYRE, BAR, LIGHT, FRAME = CATEGORIES["Motorbike"]

_STYLES = {"naked": 0.3, "cruiser": 0.25, "sports": 0.25, "scooter": 0.1, "cycle": 0.1}


class _Plan(NamedTuple):
    """A motorbike's style and measures: its wheels' radius, their places along x, and the head above the fork."""

    style: str
    radius: float
    front: float
    rear: float
    head: FloatArray


def motorbike(rng: np.random.Generator) -> list[Piece]:
    """A naked bike, a cruiser, a sports bike with a fairing, a scooter or a light one like a bicycle."""
    style = str(rng.choice([*_STYLES], p=[*_STYLES.values()]))
    radius = rng.uniform(0.2, 0.25) if style == "scooter" else rng.uniform(0.26, 0.33)
    front, rear = rng.uniform(0.62, 0.7), -rng.uniform(0.6, 0.7)
    rake = rng.uniform(0.3, 0.5) if style == "cruiser" else rng.uniform(0.18, 0.3)
    plan = _Plan(style, radius, front, rear, np.array([front - rake, radius + rng.uniform(0.38, 0.48), 0.0]))
    pieces = _wheel(rng, plan, front) + _wheel(rng, plan, rear) + _fork(rng, plan) + _handlebar(rng, plan)
    if style == "cycle":
        return pieces + _cycle_frame(rng, plan)
    pieces += _seat(rng, plan)
    if style == "scooter":
        return pieces + _scooter_body(plan)
    pieces += [*_engine(rng, plan), _tank(rng, plan)]
    return pieces + (_fairing(rng, plan) if style == "sports" or rng.random() < 0.15 else [])


def _wheel(rng: np.random.Generator, plan: _Plan, x: float) -> list[Piece]:
    """A tyre, with hub, brake discs, spokes and a mudguard, which belong to the frame."""
    thick = rng.uniform(0.03, 0.045) if plan.style == "cycle" else rng.uniform(0.045, 0.07)
    radius = plan.radius
    tyre = placed(torus(radius - thick, thick, axis="z"), scale=(1, 1, rng.uniform(0.8, 1.2)))
    forms = [cylinder(radius * 0.15, thick * 3, axis="z", sides=12)]
    if plan.style != "cycle" and rng.random() < 0.6:
        disc = cylinder(radius * rng.uniform(0.35, 0.55), 0.01, axis="z")
        forms += [off(disc, 0, 0, z) for z in (-thick * 1.2, thick * 1.2)]
    if plan.style != "cycle" and rng.random() < 0.5:
        spoke = placed(box(0.03, radius - thick, 0.03), move=(0, (radius - thick) / 2, 0))
        forms += [placed(spoke, turn=(0, 0, turn)) for turn in range(0, 360, 72)]
    if plan.style != "cycle" and rng.random() < 0.7:
        guard = arc(radius + 0.03, *((10, 110) if x > 0 else (30, 170)))
        forms.append(tube(np.insert(guard, 2, 0, axis=1), rounded(thick * 2.6, 0.012), side=(0, 0, 1)))
    return [Piece(TYRE, off(tyre, x, radius, 0)), *(Piece(FRAME, off(form, x, radius, 0)) for form in forms)]


def _fork(rng: np.random.Generator, plan: _Plan) -> list[Piece]:
    """Two legs from the head to the front axle."""
    leg = rod(off(plan.head, 0, 0.02, 0.07), (plan.front, plan.radius, 0.07), rng.uniform(0.02, 0.03))
    neck = rod(off(plan.head, 0, 0.03, 0), off(plan.head, 0.02, -0.12, 0), 0.035)
    return [*pair(Piece(FRAME, leg)), Piece(FRAME, neck)]


def _handlebar(rng: np.random.Generator, plan: _Plan) -> list[Piece]:
    """A bar, and most often a lamp in front and mirrors."""
    half, back = rng.uniform(0.22, 0.36), rng.uniform(0.03, 0.15)
    high = -0.02 if plan.style == "sports" else rng.uniform(0.0, 0.2)
    path = [(0, 0.02, 0), (0, high * 0.7 + 0.03, half * 0.35), (-back * 0.4, high + 0.04, half * 0.6)]
    path.append((-back, high + 0.03, half))
    pieces = pair(Piece(BAR, tube(off(path, *plan.head), rng.uniform(0.014, 0.022), side=(1, 0, 0))))
    if plan.style == "cycle":
        return pieces
    lamp = np.array([(0.3, -0.5), (0.55, 0.1), (0.55, 0.4), (0, 0.55)]) * rng.uniform(0.09, 0.15)
    place = off(plan.head, rng.uniform(0.08, 0.14), rng.uniform(-0.04, 0.06), 0)
    pieces.append(Piece(LIGHT, placed(revolved(lamp, axis="x", sides=12), move=place)))
    if rng.random() < 0.4:
        mirror = placed(ellipsoid(0.02, 0.06, 0.1, sides=8), move=off(plan.head, -0.05, high + 0.14, half * 0.8))
        pieces += pair(Piece(FRAME, mirror))
    return pieces


def _tank(rng: np.random.Generator, plan: _Plan) -> Piece:
    """The tank between head and seat."""
    form = cushion(rng.uniform(0.36, 0.55), rng.uniform(0.12, 0.2), rng.uniform(0.18, 0.26), bevel=0.05, power=3)
    return Piece(TANK, placed(form, turn=(0, 0, rng.uniform(0, 15)), move=off(plan.head, -0.27, -0.05, 0)))


def _seat(rng: np.random.Generator, plan: _Plan) -> list[Piece]:
    """A seat, often with a rest behind it, on the rear end of the frame."""
    drop = rng.uniform(0.15, 0.22) if plan.style == "cruiser" else rng.uniform(0.08, 0.15)
    length = rng.uniform(0.35, 0.6)
    middle = np.array([plan.head[0] - 0.45 - length / 2, plan.head[1] - drop, 0])
    seat = cushion(length, 0.07, rng.uniform(0.14, 0.22), bevel=0.025, power=4)
    pieces = [Piece(SADDLE, placed(seat, turn=(0, 0, rng.uniform(-8, 4)), move=middle))]
    if rng.random() < 0.4:
        rest = placed(cushion(0.05, 0.12, 0.15), turn=(0, 0, 15), move=off(middle, -length / 2, 0.06, 0))
        pieces.append(Piece(SADDLE, rest))
    end = cushion(rng.uniform(0.3, 0.5), 0.08, 0.14, bevel=0.03, power=3)
    end = placed(end, turn=(0, 0, rng.uniform(-25, 0)), move=off(middle, -length / 2, -0.06, 0))
    return [*pieces, Piece(FRAME, end)]


def _engine(rng: np.random.Generator, plan: _Plan) -> list[Piece]:
    """Block, cylinders with fins, frame tubes, swing arm, foot pegs, exhausts."""
    x, y, wide = rng.uniform(-0.08, 0.08), plan.radius, rng.uniform(0.2, 0.28)
    forms = [placed(cushion(0.42, 0.2, wide, bevel=0.03), move=(x, y, 0))]
    for turn in (-20, 20) if rng.random() < 0.5 else (-10,):
        fins = [placed(box(0.16, 0.03, wide * 0.8), move=(0, 0.12 + 0.055 * k, 0)) for k in range(4)]
        forms += [placed(fin, turn=(0, 0, turn), move=(x, y, 0)) for fin in fins]
    sides = [
        placed(cylinder(0.09, 0.03, axis="z", sides=14), move=(x - 0.1, y - 0.02, wide / 2)),
        placed(box(0.06, 0.02, 0.1), move=(x + 0.1, y - 0.12, wide / 2 + 0.05)),
        rod((plan.rear, y, 0.09), (x - 0.15, y, 0.07), 0.022),
        rod((plan.rear + 0.05, y, 0.1), (plan.rear + 0.2, y + 0.34, 0.08), 0.026),
        rod((x + 0.22, y - 0.1, 0.08), (plan.head[0] - 0.04, y + 0.36, 0.04), 0.02),
        rod((plan.head[0] - 0.04, y + 0.36, 0.04), (plan.rear + 0.1, y + 0.3, 0.06), 0.02),
    ]
    pipe = [(x + 0.2, y + 0.15, 0.1), (x + 0.26, y, 0.13), (x + 0.1, y - 0.12, 0.15)]
    pipe += [(plan.rear, y - 0.08, 0.15), (plan.rear - 0.25, y, 0.16)]
    sides.append(tube(pipe, [0.02, 0.02, 0.025, 0.045, 0.05], side=(0, 0, 1)))
    return [*(Piece(FRAME, form) for form in forms), *(each for form in sides for each in pair(Piece(FRAME, form)))]


def _fairing(rng: np.random.Generator, plan: _Plan) -> list[Piece]:
    """Panels beside head and engine, and a screen before them."""
    x, y = plan.head[:2]
    low, tip, half = plan.radius - rng.uniform(0.0, 0.15), x + rng.uniform(0.18, 0.28), rng.uniform(0.12, 0.16)
    side = [(tip, y), (x + 0.02, y + 0.2), (x - 0.08, y - 0.02), (-0.15, plan.radius + 0.1), (-0.25, low), (0.2, low)]
    panel = placed(extruded(side, 0.008), move=(0, 0, half))
    rings = [[(tip, y, z * 0.3), (x + 0.02, y + 0.2, z), (x + 0.01, y + 0.2, z)] for z in (-half, 0, half)]
    return [*pair(Piece(FRAME, panel, hides=())), sheet(FRAME, loft(rings))]


def _scooter_body(plan: _Plan) -> list[Piece]:
    """A leg shield, a footboard and a housing below the seat."""
    x, y = plan.head[:2]
    shield = cushion(0.05, y - plan.radius, 0.36, bevel=0.02)
    forms = [
        placed(shield, turn=(0, 0, 15), move=(x - 0.02, (y + plan.radius) / 2, 0)),
        placed(cushion(0.7, 0.05, 0.3), move=(0.1, plan.radius * 0.9, 0)),
        placed(cushion(0.6, 0.3, 0.28, bevel=0.06, power=3), move=(plan.rear + 0.25, plan.radius + 0.15, 0)),
    ]
    return [Piece(FRAME, form) for form in forms]


def _cycle_frame(rng: np.random.Generator, plan: _Plan) -> list[Piece]:
    """Thin tubes, pedals and a small saddle."""
    crank = np.array([rng.uniform(-0.2, -0.1), plan.radius - 0.02, 0.0])
    seat = np.array([crank[0] - 0.15, plan.head[1] - rng.uniform(0.05, 0.15), 0.0])
    joint, thick = off(seat, 0, -0.1, 0), rng.uniform(0.018, 0.028)
    bars = [(plan.head, crank), (off(plan.head, 0, -0.08, 0), joint), (seat, crank)]
    forms = [rod(start, stop, thick) for start, stop in bars]
    forms.append(placed(cylinder(0.08, 0.02, axis="z"), move=off(crank, 0, 0, 0.05)))
    for sign in (-1, 1):
        pedal = off(crank, sign * 0.12, sign * -0.06, sign * 0.08)
        forms.append(rod(off(crank, 0, 0, sign * 0.08), pedal, 0.014))
        forms.append(placed(box(0.09, 0.03, 0.1), move=off(pedal, 0, 0, sign * 0.05)))
        forms += [
            rod(off(end, 0, 0, sign * 0.03), (plan.rear, plan.radius, sign * 0.06), thick * 0.7)
            for end in (crank, joint)
        ]
    saddle = placed(cushion(0.25, 0.05, 0.12, bevel=0.02, power=2.5), turn=(0, 0, rng.uniform(0, 20)), move=seat)
    return [*(Piece(FRAME, form) for form in forms), Piece(SADDLE, saddle)]
