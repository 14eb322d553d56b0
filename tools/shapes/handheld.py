"""Generated guitars, knives and pistols: a guitar faces x, a blade points up, a pistol along x."""

from __future__ import annotations

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.metrics.shapenet import CATEGORIES
from tools.shapes.assembly import Piece, bow, cushion, off, one_of, pair, rod
from tools.shapes.surfaces import Numbers, Surface, box, cylinder, extruded, loft, placed, revolved, rounded, tube

HEAD, NECK, BODY = CATEGORIES["Guitar"]
BLADE, HANDLE = CATEGORIES["Knife"]
BARREL, GRIP, TRIGGER = CATEGORIES["Pistol"]


def smooth(outline: Numbers, rounds: int = 2) -> FloatArray:
    """An outline (P, 2) with its corners cut off again and again."""
    points = np.asarray(outline, float)
    for _ in range(rounds):
        after = np.roll(points, -1, axis=0)
        points = np.stack([0.75 * points + 0.25 * after, 0.25 * points + 0.75 * after], axis=1).reshape(-1, 2)
    return points


def guitar(rng: np.random.Generator) -> list[Piece]:
    """An acoustic guitar, an electric one with horns, or a V."""
    outline = [_figure_eight, _horned, _vee][rng.choice(3, p=[0.4, 0.45, 0.15])]
    acoustic = outline is _figure_eight
    tall, half = rng.uniform(0.65, 0.8), rng.uniform(0.24, 0.31)
    thick = rng.uniform(0.08, 0.15) if acoustic else rng.uniform(0.04, 0.08)
    body = placed(extruded(outline(rng, half, tall), thick), turn=(0, 90, 0))
    long, wide, slim = rng.uniform(0.45, 0.7), rng.uniform(0.05, 0.075), rng.uniform(0.03, 0.045)
    front = thick / 2 + (slim * 0.2 if acoustic else -slim * 0.2)
    overlap = tall * rng.uniform(0.05, 0.3)
    neck = placed(box(slim, long + overlap, wide), move=(front, tall + (long - overlap) / 2, 0))
    pieces = [Piece(BODY, body), Piece(NECK, neck), *_head(rng, front, tall + long, wide)]
    if rng.random() < 0.7:
        bridge = placed(box(0.03, 0.04, half * 0.6), move=(thick / 2, tall * rng.uniform(0.2, 0.35), 0))
        pieces.append(Piece(BODY, bridge))
    return pieces


def _figure_eight(rng: np.random.Generator, half: float, tall: float) -> FloatArray:
    """A wide lower bout, a waist, an upper bout."""
    t = (1 - np.cos(np.linspace(0, np.pi, 14))) / 2
    upper, waist = rng.uniform(0.68, 0.82), rng.uniform(0.55, 0.68)
    wide = np.interp(t, [0, 0.28, 0.6, 0.82, 1], [1, 1, waist, upper, upper])
    wide = half * wide * (1 - np.abs(2 * t - 1) ** 5) ** 0.5
    right = np.stack([wide, tall * t], axis=1)[1:-1]
    return smooth(np.concatenate([right, right[::-1] * [-1, 1]]), 1)


def _horned(rng: np.random.Generator, half: float, tall: float) -> FloatArray:
    """A solid body with two horns beside the neck, one of them longer."""
    left, right = rng.uniform(0.9, 1.12), rng.uniform(0.75, 1.0)
    waist, gap = rng.uniform(0.6, 0.85), rng.uniform(0.05, 0.08)
    points = [
        (0.6, 0),
        (1.05, 0.1),
        (1, 0.35),
        (waist, 0.55),
        (0.85, right),
        (0.5, right),
        (gap / half, 0.78),
        (-gap / half, 0.78),
    ]
    points += [(-0.45, left), (-0.85, left), (-waist, 0.55), (-1, 0.3), (-1.0, 0.05), (-0.5, 0)]
    return smooth(np.array(points) * [half, tall])


def _vee(rng: np.random.Generator, half: float, tall: float) -> FloatArray:
    """Two legs that spread downwards."""
    notch, leg, top = rng.uniform(0.3, 0.5), rng.uniform(0.25, 0.45), rng.uniform(0.2, 0.35)
    points = [(0, notch), (1 - leg, 0), (1.05, 0.02), (top, 1), (-top, 1), (-1.05, 0.02), (leg - 1, 0)]
    return smooth(np.array(points) * [half, tall], 1)


def _head(rng: np.random.Generator, x: float, y: float, wide: float) -> list[Piece]:
    """The board with the pegs, at the end of the neck."""
    tall, half = rng.uniform(0.17, 0.27), wide * rng.uniform(0.7, 1.1)
    slant = rng.uniform(-0.3, 0.3) if rng.random() < 0.5 else 0.0
    points = [
        (-wide / 2, 0),
        (wide / 2, 0),
        (half, tall * 0.25),
        (half * 0.9, tall * (1 + slant)),
        (-half * 0.9, tall * (1 - slant)),
    ]
    board = placed(extruded([*points, (-half, tall * 0.25)], 0.03), turn=(0, 90, 0), move=(x - 0.01, y, 0))
    pegs = [
        rod((x - 0.01, y + tall * k, -half * 1.4), (x - 0.01, y + tall * k, half * 1.4), 0.012)
        for k in (0.3, 0.55, 0.8)
    ]
    return [Piece(HEAD, board), *(Piece(HEAD, peg) for peg in (pegs if rng.random() < 0.7 else []))]


def knife(rng: np.random.Generator) -> list[Piece]:
    """A kitchen knife, a cleaver, a hunting knife or a dagger, with its edge to either side."""
    style = str(rng.choice(["kitchen", "cleaver", "hunting", "dagger"], p=[0.35, 0.2, 0.25, 0.2]))
    wide = rng.uniform(0.3, 0.5) if style == "cleaver" else rng.uniform(0.1, 0.22)
    handle, thick = _handle(rng, rng.uniform(0.5, 0.9)), rng.uniform(0.04, 0.08)
    handle = placed(handle, scale=(1, 1, thick))
    pieces = [Piece(BLADE, _blade(rng, style, rng.uniform(0.9, 1.4), wide)), Piece(HANDLE, handle)]
    if style == "dagger" or (style == "hunting" and rng.random() < 0.4):
        guard = cushion(max(wide * rng.uniform(1.5, 2.5), 0.2), rng.uniform(0.03, 0.07), thick * 1.2)
        pieces.append(Piece(BLADE if rng.random() < 0.6 else HANDLE, guard))
    turn = (0, 180.0 * int(rng.integers(2)), 0)
    return [piece._replace(surface=placed(piece.surface, turn=turn)) for piece in pieces]


def _blade(rng: np.random.Generator, style: str, long: float, wide: float) -> Surface:
    """A blade from y = 0 up: its back is towards -x, its edge towards x."""
    t = np.concatenate([np.linspace(0, 0.6, 4), np.linspace(0.7, 1, 7)])
    tip = ((t - 0.55) / 0.45).clip(0)
    heel, bend = wide * rng.uniform(0.3, 0.7), rng.uniform(0.0, 1.0)
    back, edge = {
        "kitchen": (0 * tip, tip ** (1.5 + 1.5 * bend)),
        "cleaver": (0 * tip, 0.25 * bend * tip**3),
        "hunting": (bend * tip**2, (1 - bend) * tip**2),
        "dagger": (tip**2 / 2, tip**2 / 2),
    }[style]
    thick = rng.uniform(0.015, 0.035)
    lens = [(0.0, 0.0), (0.15, 0.5), (0.6, 0.4), (1.0, 0.03), (1.0, -0.03), (0.6, -0.4), (0.15, -0.5)]
    left, right = wide * back - heel, wide * (1.002 - edge) - heel
    return loft(
        [[(a + (b - a) * u, long * y, v * thick) for u, v in lens] for a, b, y in zip(left, right, t, strict=True)]
    )


def _handle(rng: np.random.Generator, long: float) -> Surface:
    """A handle from y = 0 down, straight or waisted, of thickness 1."""
    t = np.linspace(0, 1, 9)
    swell = 1 + rng.uniform(-0.25, 0.2) * np.sin(np.pi * t) + rng.uniform(-0.1, 0.3) * t**3
    bend = rng.uniform(-0.08, 0.08) * t**2
    flat = rounded(rng.uniform(0.1, 0.18), 1.0, power=rng.uniform(2.2, 8), sides=12)
    return loft([[(b + s * x, -long * y, z) for x, z in flat] for b, s, y in zip(bend, swell, t, strict=True)])


def pistol(rng: np.random.Generator) -> list[Piece]:
    """An automatic, a revolver or an old pistol with a long barrel."""
    return one_of(rng, {_automatic: 0.5, _revolver: 0.3, _flintlock: 0.2})


def _automatic(rng: np.random.Generator) -> list[Piece]:
    """A slide above a frame, and a grip that holds the magazine."""
    long, tall, thick = rng.uniform(1.3, 1.7), rng.uniform(0.16, 0.26), rng.uniform(0.13, 0.24)
    slide = placed(cushion(long, tall, thick, bevel=0.02), move=(long / 2, tall / 2, 0))
    frame = placed(box(long * rng.uniform(0.6, 0.95), tall * 0.5, thick * 0.9), move=(long * 0.45, -tall * 0.2, 0))
    pieces = [Piece(BARREL, slide), Piece(BARREL, frame)]
    if rng.random() < 0.5:
        pieces.append(Piece(BARREL, placed(cylinder(thick * 0.3, 0.2, axis="x", sides=12), move=(long, tall * 0.6, 0))))
    if rng.random() < 0.5:
        pieces += [Piece(BARREL, placed(box(0.06, 0.05, 0.03), move=(x, tall + 0.02, 0))) for x in (0.06, long - 0.06)]
    wide = rng.uniform(0.24, 0.36)
    grip = _slanted_grip(rng, wide, rng.uniform(0.5, 0.8), thick * 0.85)
    start = rng.uniform(0.05, 0.2)
    pieces.append(Piece(GRIP, placed(grip, move=(start + wide / 2, -tall * 0.3, 0))))
    return pieces + _trigger(rng, start + wide, -tall * 0.4, thick)


def _slanted_grip(rng: np.random.Generator, wide: float, long: float, thick: float) -> Surface:
    """A grip from y = 0 down that goes back as it goes down."""
    t = np.linspace(0, 1, 6)
    back = rng.uniform(0.0, 0.45) * long * t
    flare = 1 + rng.uniform(-0.1, 0.25) * t**2
    flat = rounded(wide, thick, power=rng.uniform(3, 10), sides=12)
    return loft([[(s * x - b, -long * y, z) for x, z in flat] for s, b, y in zip(flare, back, t, strict=True)])


def _trigger(rng: np.random.Generator, x: float, y: float, thick: float) -> list[Piece]:
    """A guard below the frame and the trigger in it."""
    long, deep = rng.uniform(0.25, 0.4), rng.uniform(0.14, 0.28)
    curve = bow(180, 360, rng.uniform(0.4, 1.0)) * [long / 2, deep]
    path = np.insert(off(curve, x + long / 2 - 0.02, y + 0.02), 2, 0, axis=1)
    guard = tube(path, rounded(thick * rng.uniform(0.3, 0.6), 0.03, sides=8), side=(0, 0, 1))
    hook = np.array([(0.45, 0.1, 0), (0.5, -0.35, 0), (0.6, -0.65, 0)]) * [long, deep, 1]
    return [Piece(TRIGGER, guard), Piece(TRIGGER, tube(off(hook, x, y, 0), 0.02, side=(0, 0, 1)))]


def _revolver(rng: np.random.Generator) -> list[Piece]:
    """A barrel, a drum in a frame, a hammer and a curved grip."""
    long, bore = rng.uniform(0.6, 1.2), rng.uniform(0.05, 0.08)
    drum, wide = rng.uniform(0.1, 0.14), rng.uniform(0.24, 0.34)
    pieces = [Piece(BARREL, placed(cylinder(bore, long, axis="x", sides=14), move=(wide + long / 2, 0.08, 0)))]
    pieces.append(
        Piece(
            BARREL,
            placed(box(long * rng.uniform(0.4, 0.9), bore * 1.4, bore), move=(wide + long * 0.25, 0.08 - bore, 0)),
        )
    )
    pieces.append(Piece(BARREL, placed(cylinder(drum, wide, axis="x", sides=12), move=(wide / 2 + 0.02, 0.03, 0))))
    frame = [(-0.1, 0.15), (wide + 0.06, 0.17), (wide + 0.06, -0.13), (-0.02, -0.15), (-0.2, -0.1), (-0.22, 0.02)]
    pieces.append(Piece(BARREL, extruded(frame, bore * 1.5)))
    pieces.append(Piece(BARREL, placed(box(0.05, 0.12, 0.04), turn=(0, 0, 35), move=(-0.14, 0.16, 0))))
    pieces.append(Piece(BARREL, placed(box(0.05, 0.06, 0.03), move=(wide + long - 0.06, 0.08 + bore, 0))))
    pieces.append(Piece(GRIP, placed(_curved_grip(rng, rng.uniform(0.45, 0.65)), move=(-0.1, 0, 0))))
    return pieces + _trigger(rng, 0.0, -0.13, bore * 2)


def _curved_grip(rng: np.random.Generator, long: float) -> Surface:
    """A grip that bends backwards and grows wider."""
    t = np.linspace(0, 1, 8)
    x, y = -0.1 - long * rng.uniform(0.3, 0.55) * t**1.3, -long * t**0.9
    wide, thick = rng.uniform(0.1, 0.15) * (1 + 0.4 * t), rng.uniform(0.05, 0.075)
    flat = rounded(2, 2, power=2.5, sides=12)
    return loft(
        [[(a + w * u, b + 0.3 * w * u, thick * v) for u, v in flat] for a, b, w in zip(x, y, wide, strict=True)]
    )


def _flintlock(rng: np.random.Generator) -> list[Piece]:
    """A long barrel on a stock that ends in a curved grip."""
    long, bore = rng.uniform(0.9, 1.3), rng.uniform(0.045, 0.08)
    profile = [(bore * 1.3, -0.1), (bore * 1.2, 0.2), (bore, 0.25), (bore, long - 0.05), (bore * 1.2, long)]
    pieces = [Piece(BARREL, placed(revolved(profile, axis="x", sides=12), move=(0, 0.06, 0)))]
    stock = placed(cushion(long * rng.uniform(0.4, 0.8), 0.12, bore * 2.2, bevel=0.02), move=(long * 0.25, -0.03, 0))
    pieces.append(Piece(BARREL, stock))
    pieces += pair(Piece(BARREL, placed(box(0.2, 0.1, 0.03), move=(0.0, 0.03, bore * 1.2))))
    pieces.append(Piece(BARREL, placed(box(0.05, 0.14, 0.03), turn=(0, 0, 30), move=(-0.1, 0.14, bore))))
    pieces.append(Piece(GRIP, placed(_curved_grip(rng, rng.uniform(0.45, 0.6)), move=(0.02, 0.06, 0))))
    return pieces + _trigger(rng, 0.02, -0.08, bore * 2)
