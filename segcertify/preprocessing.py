"""Pre-processing: what was done to an input's file before the noise, in plain values and in words.

A radius is in the units of the input that the noise goes on. Files hold something else: images are divided by 255 and
may be resized, clouds are centred and scaled. `of_image` and `of_cloud` write that down, `in_words` says it, and every
claim, table, figure and card takes its words from there.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from segcertify.errors import InputError

Preprocessing = Mapping[str, Any]


def of_image(before: Sequence[int] | None = None, after: Sequence[int] | int | None = None) -> dict[str, Any]:
    """An image of 8 bits a colour that was divided by 255, and resized from ``before`` to ``after``.

    Sizes are (height, width). Without ``before`` it is about all images of a data set. Their ``after`` is one size for
    all, or a number of pixels on the shorter side; None is as in the files.
    """
    if isinstance(after, int):
        return {"kind": "image", "short_side": after, "method": "bilinear", "divisor": 255}
    sizes = {"before": before and list(before), "after": (after or before) and list(after or before or ())}
    method = "bilinear" if sizes["before"] != sizes["after"] else None
    return {"kind": "image", **sizes, "method": method, "divisor": 255}


def of_cloud(
    centre: Sequence[float] | None = None, factor: float | None = None, *, points: Sequence[int] | None = None
) -> dict[str, Any]:
    """A cloud whose points became (point - centre) * factor, and of which ``points`` = (before, after) were drawn.

    Without a ``factor`` it is about all clouds of a data set, each of which has its own.
    """
    values = {"kind": "cloud", "centre": centre and [float(each) for each in centre], "factor": factor}
    return values if points is None else values | {"points": list(points)}


def require_plain(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping as a file gives it back."""
    try:
        return dict(json.loads(json.dumps(dict(values))))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a mapping of plain values, but got {values!r} ({error})") from None


def in_words(preprocessing: Preprocessing | None) -> str:
    """What a radius is about, in a sentence or two; nothing if there was no pre-processing.

    >>> in_words(of_image((300, 451), (160, 241)))  # doctest: +ELLIPSIS
    'The radius is in the units of the input after pre-processing: ... from 300 x 451 to 160 x 241 pixels (bilinear)...'
    """
    if preprocessing is None:
        return ""
    said = {"image": _image, "cloud": _cloud}.get(preprocessing.get("kind", ""), _other)(preprocessing)
    return f"The radius is in the units of the input after pre-processing: {said}"


def _image(values: Preprocessing) -> str:
    before, after = values.get("before"), values.get("after")
    if before is None or after is None:
        short = values.get("short_side")
        size = f"a short side of {short} pixels" if short else after and f"{_pixels(after)} pixels"
        resized = f"resized to {size} ({values.get('method')}) and " if size else ""
        return f"images are {resized}divided by 255, so that colours lie in [0, 1]."
    if before == after:
        return f"the image of {_pixels(before)} pixels was divided by 255, so that colours lie in [0, 1]."
    how = f"from {_pixels(before)} to {_pixels(after)} pixels ({values.get('method')})"
    return f"the image was resized {how} and divided by 255, so that colours lie in [0, 1]."


def _cloud(values: Preprocessing) -> str:
    factor, points = values.get("factor"), values.get("points")
    which, own = ("each cloud is", "a factor of its own") if factor is None else ("the cloud was", f"{factor:.6g}")
    drawn = f", and {points[1]:,} of its {points[0]:,} points drawn" if points else ""
    return (
        f"{which} centred and multiplied by {own}, so that its farthest point is at distance 1{drawn}. Centre and "
        "factor follow from all points of the file: moving one of them there by less than the radius may move the "
        "input by more."
    )


def _other(values: Preprocessing) -> str:
    return f"{', '.join(f'{name} = {value}' for name, value in values.items())}."


def _pixels(size: Sequence[int]) -> str:
    return " x ".join(str(side) for side in size)
