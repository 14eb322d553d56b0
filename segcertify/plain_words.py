"""What a certificate proves, in a sentence for everybody: a share, three digits, and an example of a change.

The exact claim stands beside it (`segcertify.claims`). These sentences round as claims do, and say less, never more:
of what is not proved of all labels at once there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from segcertify.noise import AxisRotation, Gaussian, is_proven
from segcertify.numerals import (
    confidence,
    counted,
    exact_percent,
    lower_percent,
    lower_value,
    percent,
    radius_text,
    upper_value,
)
from segcertify.provenance import Bounded

if TYPE_CHECKING:
    from segcertify.certificate import Certificate
    from segcertify.claims import Claim
    from segcertify.metrics.certificate import MetricCertificate
    from segcertify.preprocessing import Preprocessing
    from segcertify.radii import RadiusMap
    from segcertify.sets.certificate import SetCertificate

AGAIN = (
    "Certifying the attacked input again may abstain where this certificate does not, but gives no other label: both "
    "hold together with probability at least 1 - 2 alpha."
)
"""What a reader who attacks an input and certifies it again will see."""

_KEEP = "the model's most likely one under noise"


class Stated(Bounded, Protocol):
    """A claim within a radius that says whose change it is about."""

    @property
    def perturbed(self) -> str:
        """The file's pixels; empty if it is the input."""


def of_labels(found: Certificate) -> str:
    """What a certificate of labels proves; empty where not all of its labels hold at once."""
    what = unit(found, found.labels.shape)
    if not found.certified:
        return (
            f"Nothing is certified: all {found.N:,} {what} abstain, and nothing is promised about any of them. More "
            "draws (n), a smaller tau or a model that was trained on this noise may certify some."
        )
    if not found.claimed.family_wise:
        return ""
    kept = f"{found.certified:,} of {found.N:,} {what}{_at(found)} ({percent(found.certified / found.N)})"
    return f"{proved(found.alpha)}: {change(found, found.claimed_radius)}, {kept} all keep their label, {_KEEP}."


def of_sets(found: SetCertificate) -> str:
    """What a certificate of sets proves; empty if it excludes nothing."""
    if not found.excludes or not is_proven(found.noise):
        return ""
    what, few = unit(found, found.labels.shape), int(np.count_nonzero(found.sizes <= 2))
    return (
        f"{proved(found.alpha)}: {change(found, found.claimed_radius)}, the majority label of each of {found.N:,} "
        f"{what}{_at(found)}, if it has one, is in its set. The set has at most two labels in {few:,} {what} "
        f"({percent(few / found.labels.size)}); {found.certified:,} ({percent(found.certified / found.N)}) keep their "
        f"one label, {_KEEP}."
    )


def of_map(found: RadiusMap) -> str:
    """What a map of radii proves: half of the labels hold as far as the median, and which change that is."""
    what = unit(found, found.labels.shape)
    if not found.certified:
        return f"Nothing is certified: all {found.N:,} {what} have radius 0, and nothing is promised about any of them."
    if not is_proven(found.noise):
        return ""
    median = float(np.quantile(found.radii[found.radii > 0], 0.5, method="lower"))
    half, largest = radius_text(median, 3), radius_text(found.radius, 3)
    such = example(found.preprocessing, median, found.norm) if _whole_colours(found) else ""
    return (
        f"{proved(found.alpha)}: each of {found.certified:,} of {found.N:,} {what} "
        f"({percent(found.certified / found.N)}) keeps its label, {_KEEP}, whatever change of up to its own radius "
        f"in {found.noise.threat(found.norm)} is made to the input. At least half of these radii are "
        f"{half} or more{f' (such as {such})' if such else ''}; the largest is {largest}."
    )


def of_metric(found: MetricCertificate) -> str:
    """What a certificate of a metric proves; empty without a bound."""
    if found.bound is None:
        return ""
    kept = f"at least {lower_value(found.bound)}"
    kept = kept if found.upper is None else f"between {lower_value(found.bound)} and {upper_value(found.upper)}"
    return (
        f"{proved(found.alpha)}: {change(found, found.claimed_radius)}, {found.metric} is {kept} in at least "
        f"{exact_percent(found.share)} of the noisy runs."
    )


def over(claim: Claim, scenes: int, *, preprocessing: Preprocessing | None, radii: Sequence[float | None] = ()) -> str:
    """What holds of several scenes, each within R; of the smallest of some ``radii``, which change that is.

    Empty where not all labels hold at once, or not of all scenes together.
    """
    if not claim.family_wise or confidence(claim.alpha, scenes) == "0":
        return ""
    what = {"image": "pixels", "cloud": "points"}.get((preprocessing or {}).get("kind", ""), "components")
    known = [radius for radius in radii if radius]
    such = example(preprocessing, min(known), claim.norm or _norm(claim)) if known and claim.threat in _WHOLE else ""
    resized = " (of images as they are after the resize)" if (preprocessing or {}).get("method") else ""
    together = f", for all {scenes:,} scenes together" if scenes > 1 else ""
    return (
        f"{proved(claim.alpha, scenes)}{together}: {_within_R(claim, 'each' if scenes > 1 else 'the')}, all its "
        f"certified {what} keep their label, {_KEEP}."
        + (f" R = {radius_text(min(known), 3)} is, for example, {such}{resized}." if such else "")
    )


def _within_R(claim: Claim, which: str) -> str:
    """The changes of the inputs of several scenes."""
    noise = claim.noise
    if isinstance(noise, str) or not noise.additive:
        return f"however {which} input is turned, by a {claim.threat} of up to R"
    if claim.norm in ("", "l2") and isinstance(noise, Gaussian) and noise.channels == (0, 1, 2) and noise.axis == 1:
        return f"however the points of {which} cloud are moved, by up to R in l2 norm over all of them"
    return f"whatever change of up to R in {claim.threat} is made to {which} input"


def proved(alpha: float, claims: int = 1) -> str:
    """How sure it is, before what is sure.

    >>> proved(0.001), proved(0.001, 31)
    ('Proved with probability at least 99.9% over the noise drawn', 'Proved with probability at least 96.9% over the \
noise drawn')
    """
    return f"Proved with probability at least {lower_percent(float(confidence(alpha, claims)))} over the noise drawn"


def unit(found: Stated, components: tuple[int, ...]) -> str:
    """What the components are called: pixels, points, voxels; components if the input may be anything.

    A pixel of which several labels may hold has a component for each.
    """
    shape, kind, axes = found.input_shape or (), (found.preprocessing or {}).get("kind", ""), len(components)
    if (kind == "image" and axes == 2) or (len(shape) == 3 and components == shape[1:]):
        return "pixels"
    if (kind == "cloud" and axes == 1) or (len(shape) == 2 and components == shape[:1] and _about_points(found)):
        return "points"
    return "voxels" if len(shape) == 4 and components == shape[1:] else "components"


def _at(found: Stated) -> str:
    """The size that an image was resized to, whose pixels have the labels; empty if it was not."""
    after = (found.preprocessing or {}).get("after")
    return f" at {after[0]} x {after[1]}" if found.perturbed and after else ""


def change(found: Stated, radius: float) -> str:
    """The changes that are allowed, in plain words, with one that a reader can picture."""
    noise, norm, size = found.noise, found.norm, radius_text(radius, 3)
    if not noise.additive:
        what = "cloud" if len(found.input_shape or ()) == 2 else "input"
        axis = f"the axis {noise.axis}" if isinstance(noise, AxisRotation) else "any axis"
        degrees = radius_text(math.degrees(radius) * (1 - 1e-12), 3)
        return (
            f"however the {what} is turned about {axis} through the origin, by up to {degrees} degrees ({size} radians)"
        )
    if _moves_points(found) and norm == "l2":
        return _moved(found, radius)
    what = found.perturbed or ("the image" if _is_image(found) else "the input")
    such = example(found.preprocessing, radius, norm) if _whole_colours(found) else ""
    such = f"colours from 0 to 1; such as {such}" if such else _entries(noise.threat(norm), size)
    return f"whatever change of up to {size} in {noise.threat(norm)} is made to {what}{f' ({such})' if such else ''}"


def example(preprocessing: Preprocessing | None, radius: float, norm: str) -> str:
    """A change of an image in [0, 1] that has this size; empty of what is no such image."""
    if (preprocessing or {}).get("kind") != "image":
        return ""
    if radius >= 1 and norm in ("l1", "l2"):
        return f"any change of {_whole_pixels(radius, norm)}, or less in many"
    steps = int(255 * min(1.0, radius))
    which = "every colour of every pixel" if norm == "linf" else "one colour of one pixel"
    many = "" if norm == "linf" else ", or less in many"
    return f"{steps} of 255 steps in {which}{many}" if steps else f"less than 1 of 255 steps in {which}"


def _whole_pixels(radius: float, norm: str) -> str:
    """How many pixels, of three colours each, may become any others; one colour of one where it is none.

    >>> _whole_pixels(1.0, "l2"), _whole_pixels(3.15, "l2"), _whole_pixels(3.15, "l1")
    ('one colour of one pixel', '3 pixels', '1 pixel')
    """
    pixels = int((radius if norm == "l1" else radius**2) * (1 - 1e-12) / 3)
    return counted(pixels, "pixel") if pixels else "one colour of one pixel"


def _entries(threat: str, size: str) -> str:
    """A change of numbers of which nothing else is known."""
    return {"linf norm": f"such as {size} in every entry"}.get(threat, f"such as {size} in one entry, or less in many")


def _moved(found: Stated, radius: float) -> str:
    """How points may move."""
    points, scaled = (found.input_shape or (0,))[0], (found.preprocessing or {}).get("kind") == "cloud"
    each = radius_text(radius / math.sqrt(points) * (1 - 1e-12), 2)
    estimated = (found.preprocessing or {}).get("normals_from")
    held = "the normals that were estimated from it as they are" if estimated else "all else as it is"
    rest = f", with {held}" if getattr(found.noise, "channels", None) is not None else ""
    cloud = f"the {points:,} points of the cloud{' (of radius 1)' if scaled else ''}"
    such = f"such as one point by that much, or each by {each}"
    return f"however {cloud} are moved, by up to {radius_text(radius, 3)} in l2 norm over all of them ({such}){rest}"


def _moves_points(found: Stated) -> bool:
    """Whether the noise goes on all coordinates of points, and on nothing else."""
    noise, shape = found.noise, found.input_shape or ()
    if len(shape) != 2 or not noise.additive:
        return False
    channels = getattr(noise, "channels", None)
    only = channels is None and shape[1] == 3 and (found.preprocessing or {}).get("kind") == "cloud"
    return only or (isinstance(noise, Gaussian) and channels == (0, 1, 2) and noise.axis % 2 == 1)


def _about_points(found: Stated) -> bool:
    """Whether the rows of an input are points: they are moved, or turned."""
    return _moves_points(found) or not found.noise.additive


def _is_image(found: Stated) -> bool:
    return (found.preprocessing or {}).get("kind") == "image"


def _whole_colours(found: Stated) -> bool:
    """Whether the noise goes on all colours of an image in [0, 1]."""
    return _is_image(found) and found.noise.threat(found.norm) in _WHOLE


def _norm(claim: Claim) -> str:
    return "" if isinstance(claim.noise, str) else claim.noise.norm


_WHOLE = ("l1 norm", "l2 norm", "linf norm")
"""The threats that change every entry of an input."""
