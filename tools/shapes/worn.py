"""Generated caps and earphones: y is up, a cap's visor points along x, the ears are along z."""

from __future__ import annotations

import numpy as np

from segcertify.metrics.shapenet import CATEGORIES
from tools.shapes.assembly import Piece, arc, off, one_of, pair, rod, sheet
from tools.shapes.surfaces import Surface, box, cylinder, ellipsoid, loft, placed, revolved, rounded, torus, tube

CROWN, VISOR = CATEGORIES["Cap"]
EARCUP, BAND, WIRE = CATEGORIES["Earphone"]


def cap(rng: np.random.Generator) -> list[Piece]:
    """A cap with a visor in front, or a hat with a brim all round."""
    return one_of(rng, {_visored: 0.78, _hat: 0.22})


def _crown(rng: np.random.Generator, tall: float, power: float) -> Surface:
    """A dome of radius 1, a thin sheet open below; a large power makes it upright with a flat top."""
    angle = np.linspace(0, np.pi / 2, 10)
    radius, level = np.cos(angle) ** (2 / power), np.sin(angle) ** (2 / power)
    flare = 1 - rng.uniform(0.0, 0.12) * level
    return revolved(np.stack([radius * flare, tall * level], axis=1), sides=24, sheet=True)


def _visored(rng: np.random.Generator) -> list[Piece]:
    """A dome, a visor, most often a button on top."""
    tall = rng.uniform(0.75, 1.15)
    long = rng.uniform(1.0, 1.2)
    crown = placed(_crown(rng, tall, rng.uniform(2.0, 3.5)), scale=(long, 1, 1))
    pieces = [sheet(CROWN, crown), Piece(VISOR, _visor(rng, long), hides=())]
    if rng.random() < 0.6:
        pieces.append(Piece(CROWN, placed(ellipsoid(0.12, 0.08, 0.12, sides=8), move=(0, tall, 0))))
    if rng.random() < 0.3:
        pieces.append(Piece(CROWN, placed(torus(1.0, 0.03, sides=24), scale=(long, 1.5, 1)), hides=()))
    return pieces


def _visor(rng: np.random.Generator, long: float) -> Surface:
    """A crescent in front, flat or bent down at its sides."""
    reach, open_to = rng.uniform(0.5, 0.85), rng.uniform(50, 80)
    droop, slope, thick = rng.uniform(0.0, 0.35), rng.uniform(0.0, 0.25), rng.uniform(0.01, 0.04)
    inner = rng.uniform(0.8, 1.0)
    rings = []
    for degrees in np.linspace(-open_to, open_to, 15):
        x, z = long * np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        out = reach * np.cos(np.pi / 2 * degrees / (open_to + 3)) ** 0.6
        near, far = (x * inner, -droop * z**2, z), (x + out, -droop * z**2 - slope * out, z * (1 + 0.1 * out))
        lift = np.array([0, thick, 0])
        rings.append([near, far, far + lift, near + lift])
    return loft(rings)


def _hat(rng: np.random.Generator) -> list[Piece]:
    """An upright crown, often creased on top, and a brim that may turn up at its sides."""
    tall, reach, up = rng.uniform(0.8, 1.2), rng.uniform(0.5, 1.0), rng.uniform(0.0, 0.5)
    deep = rng.uniform(0.0, 0.35)
    crown = placed(_crown(rng, tall, rng.uniform(3, 6)), scale=(rng.uniform(1.1, 1.4), 1, 1))
    dent = deep * (crown[..., 1] / tall).clip(0) ** 4 * np.exp(-((crown[..., 2] / 0.35) ** 2))
    crown[..., 1] -= dent * tall
    share = np.linspace(0, 1, 6)
    brim = revolved(np.stack([1 + reach * share, 0 * share], axis=1)[::-1], sides=28, sheet=True)
    brim = placed(brim, scale=(crown[..., 0].max(), 1, 1))
    side = (np.abs(brim[..., 2]) - 0.8).clip(0)
    brim[..., 1] += up * side**2 / max(reach, 0.5) ** 2 - rng.uniform(0, 0.1) * np.abs(brim[..., 0])
    return [sheet(CROWN, crown), sheet(VISOR, brim)]


def earphone(rng: np.random.Generator) -> list[Piece]:
    """Headphones with a band over the head, some with a wire or a microphone, or plugs on wires."""
    return one_of(rng, {_headphones: 0.8, _plugs: 0.2})


def _headphones(rng: np.random.Generator) -> list[Piece]:
    """Two cups and a band, some with a wire or a microphone."""
    size, thick, gap = rng.uniform(0.28, 0.55), rng.uniform(0.12, 0.3), rng.uniform(0.62, 0.78)
    tilt = (rng.uniform(-8, 8), rng.uniform(-8, 8), 0)
    cup = placed(
        _cup(rng, size, thick), scale=(1, rng.uniform(1.0, 1.25), 1), turn=tilt, move=(0, 0, gap + thick * 0.2)
    )
    start = size * rng.uniform(0.5, 0.9)
    curve = off(arc(1.0, 180, 0, int(rng.choice([8, 16]))) * [gap, rng.uniform(0.5, 0.85)], 0, start)
    strap = rounded(rng.uniform(0.1, 0.35), rng.uniform(0.02, 0.07), power=5, sides=10)
    band = tube(np.insert(curve[:, ::-1], 0, 0, axis=1), strap, side=(1, 0, 0))
    slide = placed(box(0.08, start + 0.1, 0.04), move=(0, start / 2, gap))
    pieces = [*pair(Piece(EARCUP, cup)), Piece(BAND, band), *pair(Piece(BAND, slide))]
    if rng.random() < 0.2:
        cord = [(0, -size * 0.8, gap), (0.02, -size - 0.2, gap - 0.1), (0.1, -size - 0.5, gap - 0.3)]
        pieces.append(Piece(WIRE, tube(cord, 0.015)))
    if rng.random() < 0.15:
        microphone = [(0, -size * 0.3, gap), (0.35, -size * 0.8, gap - 0.1), (0.6, -size, gap - 0.35)]
        pieces.append(Piece(WIRE, tube(microphone, 0.02)))
    return pieces


def _cup(rng: np.random.Generator, size: float, thick: float) -> Surface:
    """A round cup with a soft ring, or a flat one; its outside is towards z."""
    soft = [(0.0, -0.5), (0.75, -0.5), (1.0, -0.3), (1.0, 0.1), (0.8, 0.5), (0.0, 0.5)]
    flat = [(1.0, -0.5), (1.0, 0.0), (0.85, 0.05), (0.6, 0.5)]
    profile = soft if rng.random() < 0.7 else flat
    return revolved(np.array(profile) * [size, thick], axis="z", sides=20)


def _plugs(rng: np.random.Generator) -> list[Piece]:
    """A plug for each ear, with wires that meet and hang down."""
    size, apart = rng.uniform(0.15, 0.25), rng.uniform(0.2, 0.4)
    bud = revolved([(0.3, -0.6), (0.45, -0.2), (1.0, 0.0), (0.95, 0.4), (0.4, 0.6), (0, 0.65)], axis="x")
    stalk = rod((-0.2, 0, 0), (-0.3, -rng.uniform(1.2, 2.2), 0), [0.3, 0.2])
    plug = np.concatenate([bud, stalk]) * size
    pieces = pair(Piece(EARCUP, placed(plug, move=(0, 0, apart)), hides=()))
    low, end = -rng.uniform(0.7, 1.0), -rng.uniform(1.2, 1.8)
    wire = [(-0.3 * size, -1.5 * size, apart), (-0.1, low * 0.6, apart * 0.7), (0, low, 0.01)]
    pieces += pair(Piece(WIRE, tube(wire, 0.016, side=(1, 0, 0))))
    pieces.append(Piece(WIRE, rod((0, low, 0), (0, end, 0), 0.02)))
    return [*pieces, Piece(WIRE, placed(cylinder(0.04, 0.15), move=(0, end, 0)))]
