"""Pre-processing: what was done to an input's file before the noise, in plain values and in words.

A noise proves a radius in the units of the input that it goes on. Files hold something else: images are divided by 255
and may be resized, clouds are centred and scaled, voxels have a slope and an intercept. `of_image`, `of_cloud` and
`of_volume` write that down, `file_radius` turns a radius into the units of the file, `in_words` and `file_words` say
it, and every claim, table, figure and card takes its words from there.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from segcertify.errors import InputError, require_finite, require_integer, require_not_negative, require_positive
from segcertify.numerals import radius_text, upper_digits
from segcertify.resampling import METHODS, resize_norm
from segcertify.storage import limits

Preprocessing = Mapping[str, Any]

PRECISION = "float64"
"""In what images are resized."""


def of_image(
    before: Sequence[int] | None = None, after: Sequence[int] | int | None = None, method: str | None = None
) -> dict[str, Any]:
    """An image of 8 bits a colour that was divided by 255, and resized from ``before`` to ``after`` by a ``method``.

    Sizes are (height, width), methods those of `segcertify.resampling`. Without ``before`` it is about all images of a
    data set. Their ``after`` is one size for all, or a number of pixels on the shorter side; None is as in the files.
    ``precision`` says that the resize was computed in floats. Files of earlier versions do not: their resize was
    rounded to 8 bits.
    """
    if isinstance(after, int):
        return {"kind": "image", "short_side": after, "method": method, "precision": PRECISION, "divisor": 255}
    sizes = {"before": before and list(before), "after": (after or before) and list(after or before or ())}
    if sizes["before"] == sizes["after"]:
        return {"kind": "image", **sizes, "method": None, "divisor": 255}
    return {"kind": "image", **sizes, "method": method, "precision": PRECISION, "divisor": 255}


def of_cloud(
    centre: Sequence[float] | None = None, factor: float | None = None, *, points: Sequence[int] | None = None,
    spread: float | None = None, repeats: int | None = None, normals_from: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A cloud whose points became (point - centre) * factor, and of which ``points`` = (before, after) were drawn.

    ``spread`` is at least the square root of the sum of all squared distances of the resulting points from the origin,
    and ``repeats`` how often a point was drawn at most. ``normals_from`` says from how many neighbours normals were
    estimated that the file does not have. Without a ``factor`` it is about all clouds of a data set, each
    of which has its own.
    """
    values = {"kind": "cloud", "centre": centre and [float(each) for each in centre], "factor": factor}
    more = {"points": points and list(points), "spread": spread, "repeats": repeats, "normals_from": normals_from}
    return values | {name: value for name, value in more.items() if value is not None}


def of_volume(spacing: Sequence[float] | None = None) -> dict[str, Any]:
    """A volume whose voxels have the values of their file: its slope and intercept are applied, as its units ask for.

    ``spacing`` are the distances of neighbouring voxels along its axes.
    """
    return {"kind": "volume", "spacing": spacing and [float(side) for side in spacing]}


def file_radius(radius: float, norm: str, preprocessing: Preprocessing | None) -> float | None:
    """A radius of the input in the units of its file, rounded down; None where no bound is known.

    Every perturbation of the file within it becomes one of the input within ``radius``. The units of an image's file
    are its own pixels, with colours in [0, 1].

    >>> file_radius(0.1, "l2", of_image((300, 400), (75, 100), "box"))  # doctest: +ELLIPSIS
    0.39999...
    """
    values = preprocessing or {}
    if values.get("kind") == "cloud":
        return _cloud_radius(radius, norm, values)
    if values.get("kind") == "volume":
        return radius
    before, after = values.get("before"), values.get("after")
    if values.get("kind") != "image" or before is None or after is None or norm not in ("l1", "l2", "linf"):
        return None
    if before == after:
        return radius
    return math.nextafter(radius / _resize_norm(values, norm), 0.0) if is_resized(values) else None


def is_resized(preprocessing: Preprocessing | None) -> bool:
    """Whether an image was resized in floats, so that the norm of the resize bounds what became of a perturbation."""
    values = preprocessing or {}
    return values.get("kind") == "image" and values.get("before") is not None and _exact(values)


def _exact(values: Preprocessing) -> bool:
    return values.get("precision") == PRECISION and values.get("method") in METHODS


def _resize_norm(values: Preprocessing, norm: str) -> float:
    (height, width), (low, narrow) = values["before"], values["after"]
    return resize_norm((height, width), (low, narrow), values["method"], norm)


def _cloud_radius(radius: float, norm: str, values: Preprocessing) -> float | None:
    """Centring and scaling to the farthest point are not linear, but bounded (``docs/theory.md``)."""
    factor, spread = values.get("factor"), values.get("spread")
    if values.get("normals_from"):  # a change of the file's points changes them too
        return None
    if norm == "angle":  # a rotated file gives a rotated input
        return radius
    if norm != "l2" or factor is None or spread is None:
        return None
    return float(radius / factor / (math.sqrt(values.get("repeats", 1)) + spread + radius) * (1 - 1e-12))


def require_plain(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping as a file gives it back."""
    try:
        return dict(json.loads(json.dumps(dict(values))))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{name} must be a mapping of plain values, but got {type(values).__name__} ({error})"
        ) from None


def require_preprocessing(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a pre-processing as a file gives it back, if it can be said in words."""
    plain = require_plain("preprocessing", values)
    try:
        for name, required in _KINDS.get(plain.get("kind", ""), {}).items():
            if plain.get(name) is not None:
                required(name, plain[name])
        in_words(plain)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise InputError(
            f"preprocessing cannot be {str(values)[:200]} ({error}): see of_image, of_cloud and of_volume"
        ) from None
    return plain


def _require_side(name: str, value: int) -> None:
    require_integer(name, value, at_most=limits.SIDE)


def _require_text(name: str, value: str) -> None:
    if not isinstance(value, str):
        raise InputError(f"{name} must be a text")


def _require_size(name: str, value: Sequence[int] | int) -> None:
    """Height and width."""
    if not isinstance(value, list) or len(value) != 2:
        raise InputError(f"{name} must be two numbers of pixels")
    for side in value:
        _require_side(name, side)


def _require_point(name: str, value: Sequence[float]) -> None:
    for number in value:
        require_finite(name, number)


def _require_spacing(name: str, value: Sequence[float]) -> None:
    """Three distances."""
    if not isinstance(value, list) or len(value) != 3:
        raise InputError(f"{name} must be three distances")
    for distance in value:
        require_positive(name, distance)


def _require_points(name: str, value: Sequence[int]) -> None:
    for count in value:
        require_integer(name, count, at_least=0)


_KINDS: dict[str, dict[str, Callable[[str, Any], object]]] = {
    "image": {
        "before": _require_size, "after": _require_size, "short_side": _require_side, "method": _require_text,
        "precision": _require_text,
    },
    "cloud": {
        "centre": _require_point, "factor": require_positive, "points": _require_points,
        "spread": require_not_negative, "repeats": require_integer, "normals_from": require_integer,
    },
    "volume": {"spacing": _require_spacing},
}  # fmt: skip
"""What the values of each kind must be, where they are given."""


def in_words(preprocessing: Preprocessing | None) -> str:
    """What a radius is about, in a sentence or two; nothing if there was no pre-processing.

    >>> in_words(of_image((300, 451), (160, 241), "box"))  # doctest: +ELLIPSIS
    'The radius is in the units of the input after pre-processing: ... from 300 x 451 to 160 x 241 pixels (box)...'
    """
    if preprocessing is None:
        return ""
    kinds = {"image": _image, "cloud": _cloud, "volume": _volume}
    said = kinds.get(preprocessing.get("kind", ""), _other)(preprocessing)
    return f"The radius is in the units of the input after pre-processing: {said}"


def file_words(preprocessing: Preprocessing, radius: float, norm: str) -> str:
    """What a radius in the units of the file is about, and that it is ``radius`` at the network's input."""
    low, narrow = preprocessing["after"]
    return (
        f"Colours of the file are divided by 255. The resize to {low} x {narrow} pixels ({preprocessing['method']}), "
        f"which are the components, is part of the certified function: it multiplies {norm} norms by at most "
        f"{upper_digits(_resize_norm(preprocessing, norm))}, so that R at the network's input is {radius_text(radius)}."
    )


def file_pixels(preprocessing: Preprocessing) -> str:
    """What a radius in the units of the file is a change of."""
    return f"the file's {_pixels(preprocessing['before'])} pixels"


def _image(values: Preprocessing) -> str:
    before, after = values.get("before"), values.get("after")
    if before is None or after is None:
        short = values.get("short_side")
        most = "at most " if values.get("shrinks") else ""
        size = f"a short side of {most}{short} pixels" if short else after and f"{_pixels(after)} pixels"
        resized = f"resized to {size} ({values.get('method')}) and " if size else ""
        in_file = " In the pixels of a file it is larger or smaller, by the norm of the file's resize." if size else ""
        return f"images are {resized}divided by 255, so that colours lie in [0, 1].{in_file if _exact(values) else ''}"
    if before == after:
        return f"the image of {_pixels(before)} pixels was divided by 255, so that colours lie in [0, 1]."
    how = f"from {_pixels(before)} to {_pixels(after)} pixels ({values.get('method')})"
    return f"the image was resized {how} and divided by 255, so that colours lie in [0, 1]."


def _cloud(values: Preprocessing) -> str:
    factor, points = values.get("factor"), values.get("points")
    which, own = ("each cloud is", "a factor of its own") if factor is None else ("the cloud was", f"{factor:.6g}")
    drawn = f", and {points[1]:,} of its {points[0]:,} points drawn" if points else ""
    near = values.get("normals_from")
    normals = (
        f" Its file has no normals: they were estimated from each point's {near} nearest neighbours before the noise, "
        "and are held as they are. Moving points of the file would change them too."
    )
    return (
        f"{which} centred and multiplied by {own}, so that its farthest point is at distance 1{drawn}. Centre and "
        "factor follow from all points of the file: moving one of them there by less than the radius may move the "
        f"input by more.{normals if near else ''}"
    )


def _volume(values: Preprocessing) -> str:
    return "voxels have the values of the file, with its slope and intercept applied (of a CT, Hounsfield units)."


def _other(values: Preprocessing) -> str:
    return f"{', '.join(f'{name} = {value}' for name, value in values.items())}."


def _pixels(size: Sequence[int]) -> str:
    return " x ".join(str(side) for side in size)
