"""`as_html`: what a notebook shows of votes, a certificate of any kind, or a radius map.

One small piece of HTML: a heading, facts, the exact claim, and a thumbnail where the components are pixels. All texts
are escaped, there is no script and no style sheet, and colours are the page's own, so that it reads in light and dark.
"""

import base64
import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from PIL import Image

from segcertify import names
from segcertify.arrays import Array, IntArray
from segcertify.certificate import Certificate
from segcertify.errors import InputError
from segcertify.figures.painting import hatched
from segcertify.figures.palette import Colours, colour
from segcertify.metrics.certificate import MetricCertificate
from segcertify.noise import described, is_proven
from segcertify.numerals import NOTHING, exact, exact_percent, lower_value, percent, radius_text, upper_value
from segcertify.radii import RadiusMap
from segcertify.sets.certificate import SetCertificate
from segcertify.shown import Shown
from segcertify.votes import Votes

SIDE = 240
"""The longest side of a thumbnail, in pixels."""

_LINE = "rgba(128, 128, 128, .45)"


def as_html(found: Shown) -> str:
    """A card of HTML: what was found, the exact claim, and a thumbnail of the labels where they are a picture.

    Abstentions are hatched in grey. Notebooks call it for the last value of a cell (``_repr_html_``).
    """
    describe = next((each for kind, each in _DESCRIBED.items() if isinstance(found, kind)), None)
    if describe is None:
        known = ", ".join(kind.__name__ for kind in _DESCRIBED)
        raise InputError(f"cannot show {type(found).__name__}: expected one of {known}")
    heading, facts, claim, picture = describe(found)
    return card(heading, facts, claim, picture)


def card(heading: str, facts: Mapping[str, str], claim: str, picture: Colours | None = None) -> str:
    """The HTML of a heading, names and values, and a text below a line."""
    shown = "" if picture is None else _thumbnail(picture)
    rows = "".join(
        f'<tr><td style="text-align:left;opacity:.7;padding:.15em 1.2em .15em 0">{names.html(name)}</td>'
        f'<td style="text-align:left;padding:.15em 0">{names.html(value)}</td></tr>'
        for name, value in facts.items()
    )
    return (
        f'<div style="border:1px solid {_LINE};border-radius:6px;padding:.7em 1em;max-width:52em">'
        f'<div style="font-weight:600;margin-bottom:.5em">{names.html(heading)}</div>'
        f'<div style="display:flex;flex-wrap:wrap;gap:1em;align-items:flex-start">{shown}'
        f'<table style="border-collapse:collapse;font-size:.9em;margin:0"><tbody>{rows}</tbody></table></div>'
        f'<div style="border-top:1px solid {_LINE};margin-top:.7em;padding-top:.5em;font-size:.9em">'
        f"{names.html(claim)}</div></div>"
    )


Described = tuple[str, dict[str, str], str, Colours | None]
"""A heading, facts, the claim, and a picture (height, width, 3)."""


def _certificate(found: Certificate) -> Described:
    share, claimed = percent(found.certified / found.N), claimed_facts(found)
    level = f"{exact(found.tau)}, {exact(found.alpha)}, {found.correction}"
    heading = f"{found.word.capitalize()}: {found.certified:,} of {found.N:,} components ({share})"
    facts = claimed | {"tau, alpha, correction": level, "n0, n": f"{found.n0:,}, {found.n:,}"}
    return heading, facts, found.claim, _labels_picture(found.labels)


def _radius_map(found: RadiusMap) -> Described:
    share = percent(found.certified / found.N)
    heading = f"Radius map: {found.certified:,} of {found.N:,} components ({share}) have a radius above 0"
    radii = found.radii[found.radii > 0]
    median = radius_text(float(np.median(radii))) if radii.size and is_proven(found.noise) else NOTHING
    cap = "none" if found.cap is None else exact(found.cap)
    facts = claimed_facts(found, "largest R") | {
        "median R, where above 0": median, "alpha, cap": f"{exact(found.alpha)}, {cap}",
        "n0, n": f"{found.n0:,}, {found.n:,}",
    }  # fmt: skip
    picture = _shades(found.radii / (found.radius or 1.0), found.radii > 0) if found.radii.ndim == 2 else None
    return heading, facts, found.claim, picture


def _sets(found: SetCertificate) -> Described:
    few = {size: percent(float((found.sizes <= size).mean())) for size in (1, 2)}
    heading = f"Sets: at most two labels at {few[2]} of {found.labels.size:,} components"
    facts = claimed_facts(found) | {
        "one label, at most two": f"{few[1]}, {few[2]}",
        "certified labels" if is_proven(found.noise) else "labelled": f"{found.certified:,}",
        "n0, n": f"{found.n0:,}, {found.n:,}",
    }  # fmt: skip
    return heading, facts, found.claim, _labels_picture(found.labels)


def _metric(found: MetricCertificate) -> Described:
    least = "no bound" if found.bound is None else f"at least {lower_value(found.bound)}"
    most = "" if found.upper is None else f", at most {upper_value(found.upper)}"
    facts = claimed_facts(found) | {
        "share of runs, alpha": f"{exact_percent(found.share)}, {exact(found.alpha)}", "noisy runs n": f"{found.n:,}",
    }  # fmt: skip
    return f"{found.metric}: {least}{most} in most noisy runs", facts, found.claim, None


def _votes(found: Votes) -> Described:
    tested = ... if found.mask is None else found.mask
    agree = found.agree[tested] / found.n
    heading = f"Votes of {found.n:,} draws on {found.N:,} components"
    facts = {
        "all draws agree": percent(float(np.mean(agree == 1))), "median agreement": percent(float(np.median(agree))),
        "noise": described(found.noise), "n0, n": f"{found.n0:,}, {found.n:,}", **_about(found),
    }  # fmt: skip
    claim = "Votes claim nothing by themselves: segcertify.certify_votes(votes, tau=..., alpha=...) certifies."
    share, known = found.agree / found.n, np.ones(found.agree.shape, bool) if found.mask is None else found.mask
    return heading, facts, claim, _shades(share, known) if share.ndim == 2 else None


def claimed_facts(
    found: Certificate | RadiusMap | SetCertificate | MetricCertificate, name: str = "R"
) -> dict[str, str]:
    """The radius, the noise, the input and the model of a certificate."""
    proven = is_proven(found.noise)
    radius = f"{radius_text(found.radius)} ({found.noise.threat(found.norm)})" if proven else NOTHING
    in_file = found.file_radius if proven else None
    more = {} if in_file is None else {f"{name} in the units of the file": radius_text(in_file)}
    return {name: radius, **more, "noise": described(found.noise), **_about(found)}


def _about(found: Any) -> dict[str, str]:
    """The input, where it has a name or a known shape."""
    shape = " x ".join(map(str, found.input_shape or ()))
    said = f"{found.input_id!r}, {shape}" if found.input_id and shape else found.input_id or shape
    return {"input": names.shortened(said)} if said else {}


def _labels_picture(labels: IntArray) -> Colours | None:
    """Labels as colours, abstentions hatched; None if they are no picture."""
    if labels.ndim != 2:
        return None
    few = _fewer(labels)
    return hatched(colour(few), few < 0)


def _shades(values: Array, known: Array) -> Colours:
    """Values in [0, 1] from dark to light blue, hatched where nothing is known."""
    few, there = np.clip(_fewer(values), 0, 1)[..., None], _fewer(known)
    return hatched((1 - few) * np.array([0.10, 0.16, 0.36]) + few * np.array([0.55, 0.85, 0.95]), ~there)


def _fewer(values: Array) -> Array:
    """Every k-th row and column, so that a thumbnail is small."""
    step = -(-max(values.shape) // SIDE)
    return values[::step, ::step]


def _thumbnail(picture: Colours) -> str:
    """An image element that holds the picture itself."""
    Image.fromarray(np.rint(picture * 255).astype(np.uint8)).save(content := io.BytesIO(), format="PNG")
    scale = max(1, round(SIDE / max(picture.shape[:2])))
    height, width = (side * scale for side in picture.shape[:2])
    source = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
    return (
        f'<img src="{source}" width="{width}" height="{height}" alt="labels or agreement of each pixel" '
        'style="image-rendering:pixelated;margin:0">'
    )


_DESCRIBED: dict[type, Callable[[Any], Described]] = {
    Certificate: _certificate,
    RadiusMap: _radius_map,
    SetCertificate: _sets,
    MetricCertificate: _metric,
    Votes: _votes,
}
"""What describes each kind of result."""
