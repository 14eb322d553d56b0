"""Thumbnails: small pictures of labelled images and clouds, for the gallery of a run's page. Loads no matplotlib."""

import io
import math

import numpy as np
from PIL import Image, ImageDraw

from segcertify.arrays import Array, FloatArray, IntArray
from segcertify.figures.painting import WRONG, painted
from segcertify.figures.palette import Colours

SIDE = 320
"""Pixels of a thumbnail's longer side, at most."""

MOST_POINTS = 20_000
"""Points that a cloud's thumbnail draws, at most."""

_TINT = 0.6  # of a label's colour, so that a photograph can be known again
_OUTLINE = tuple(round(255 * each) for each in WRONG)
_GREY, _PAGE = (176, 176, 176), (246, 247, 249)
_AZIMUTH, _ELEVATION = 0.9, 0.35  # as the clouds' page begins


def image_thumbnail(x: Array, labels: IntArray, colours: Colours, *, target: IntArray | None = None) -> bytes:
    """A JPEG of an image (3, height, width) in [0, 1], tinted by its labels, at most `SIDE` pixels wide and high.

    Hatched where ``labels`` are negative, which is where they abstain, and outlined where they are not the ``target``
    (negative: ignored). ``colours`` (classes, 3) are in [0, 1].
    """
    height, width = labels.shape
    scale = min(1.0, SIDE / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    photo = np.rint(255 * np.clip(x, 0, 1)).astype(np.uint8).transpose(1, 2, 0)
    small = np.asarray(Image.fromarray(photo).resize(size, Image.Resampling.BOX), float) / 255
    rows, columns = (np.arange(new) * old // new for new, old in zip(size[::-1], labels.shape, strict=True))
    near = np.ix_(rows, columns)
    few, wrong = labels[near], None
    if target is not None:
        wrong = (few >= 0) & (target[near] >= 0) & (few != target[near])
    shown = painted(small, few, colours, wrong=wrong, side=0, tint=_TINT)
    return _jpeg(Image.fromarray(np.rint(255 * shown).astype(np.uint8)))


def cloud_thumbnail(points: Array, labels: IntArray, colours: Colours, *, target: IntArray | None = None) -> bytes:
    """A JPEG of a cloud (N, at least 3) in the colours of its labels; points without a label are grey.

    Points whose label is not the ``target`` (negative: ignored) have a rim.
    """
    step = max(1, math.ceil(len(points) / MOST_POINTS))
    view, labels = _view(points[::step]), labels[::step]
    rings = np.zeros(len(view), bool)
    if target is not None:
        rings = (labels >= 0) & (target[::step] >= 0) & (labels != target[::step])
    tints = np.where((labels < 0)[:, None], _GREY, np.rint(255 * colours[np.maximum(labels, 0)]).astype(int))
    image = Image.new("RGB", (2 * SIDE, 2 * SIDE), _PAGE)
    draw, radius = ImageDraw.Draw(image), float(np.clip(0.15 * 2 * SIDE * len(view) ** -0.36, 1.5, 20))
    middle, reach = np.array([SIDE, SIDE]), 0.95 * SIDE - radius
    for i in np.argsort(view[:, 2], kind="stable"):  # the nearest last
        u, v = middle + reach * view[i, :2] * (1, -1)
        box, rim = (u - radius, v - radius, u + radius, v + radius), _OUTLINE if rings[i] else None
        draw.ellipse(box, fill=tuple(map(int, tints[i])), outline=rim, width=2)
    return _jpeg(image.resize((SIDE, SIDE), Image.Resampling.BOX))


def _view(points: Array) -> FloatArray:
    """To the right, up, and to the eye: (N, 3), within [-1, 1]."""
    xyz = np.asarray(points[:, :3], float)
    xyz = xyz - (xyz.min(0) + xyz.max(0)) / 2
    xyz /= np.linalg.norm(xyz, axis=1).max() or 1.0
    ca, sa, ce, se = math.cos(_AZIMUTH), math.sin(_AZIMUTH), math.cos(_ELEVATION), math.sin(_ELEVATION)
    return np.asarray(xyz @ np.array([[ca, 0, -sa], [-sa * se, ce, -ca * se], [sa * ce, se, ca * ce]]).T)


def _jpeg(image: Image.Image) -> bytes:
    image.save(content := io.BytesIO(), format="JPEG", quality=80, optimize=True)
    return content.getvalue()
