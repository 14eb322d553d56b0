"""Radius maps in commands: `certify --cap` makes them, `show` prints them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from segcertify.cli import options as opt
from segcertify.cli.printing import Printer, noted, seed_fact
from segcertify.errors import InputError, require_probability
from segcertify.noise.names import described
from segcertify.numerals import NOTHING, exact, percent, radius_text
from segcertify.radii import RadiusMap

if TYPE_CHECKING:
    from segcertify.data import Input
    from segcertify.figures.palette import ColoursOf
    from segcertify.sampling.segmenter import Segmenter


def require_cap(cap: float | None, *, n0: int, metric: bool) -> None:
    """Refuse a cap that no map can have, before sampling."""
    if cap is None:
        return
    require_probability("--cap", cap, low=0.5)
    if metric:
        raise InputError("--cap is for a map of radii of labels, not for --metric: leave one of them out")
    if not n0:
        raise InputError("a capped radius map needs votes with a pilot: give --n0 10, or leave out --cap")


class Mapped(NamedTuple):
    """A radius map and its files; none if none was asked for."""

    map: RadiusMap | None
    files: list[Path]


def mapped_beside(
    printer: Printer,
    model: Segmenter,
    found: Input,
    out: Path,
    *,
    cap: float | None,
    alpha: float,
    norm: str | None,
    colours: ColoursOf,
) -> Mapped:
    """The capped radius map of the votes in a folder, in a file that is never overwritten, and its picture."""
    from segcertify.cli.certificates import VOTES
    from segcertify.cli.inputs import draw_radii
    from segcertify.votes import Votes

    if cap is None:
        return Mapped(None, [])
    votes, pictures = Votes.load(out / VOTES), list[Path]()
    made = replace(RadiusMap.of(votes, alpha=alpha, norm=norm, cap=cap), command=opt.command_line())
    file = out / f"radii-cap{exact(cap)}-alpha{exact(alpha)}-{made.norm}.safetensors"
    if not file.exists():
        made.save(file)
    elif not np.array_equal(RadiusMap.load(file).radii, made.radii):
        raise InputError(f"{file} holds another map, which is not overwritten: give another --out, or delete it")
    with noted(printer, "no picture of the radii"):
        pictures = draw_radii(model, found, made, path=file.with_suffix(".png"), colours=colours)
    return Mapped(made, [file, *pictures])


def print_map(printer: Printer, made: Mapped) -> dict[str, Any]:
    """Print a radius map, if there is one; returns its values for JSON."""
    if made.map is None:
        return {}
    printer.claim(made.map, before="Radius map, a claim of its own. ")
    printer.facts(map_facts(made.map))
    return {"radius_map": map_values(made.map)}


def map_facts(found: RadiusMap) -> dict[str, str]:
    """What a radius map proves, and from which draws, for `Printer.facts`."""
    positive = found.radii[found.radii > 0]
    median = radius_text(float(np.median(positive)), 4) if positive.size else NOTHING
    full = np.count_nonzero(found.radii >= found.radius * (1 - 1e-6)) if positive.size else 0
    return {
        "largest radius": f"{radius_text(found.radius, 4)} ({found.noise.threat(found.norm)})",
        "components with the largest": percent(full / found.N),
        "components with a radius": f"{found.certified:,} of {found.N:,} ({percent(found.certified / found.N)})",
        "median of their radii": median,
        "cap, alpha": f"{'none' if found.cap is None else exact(found.cap)}, {exact(found.alpha)}",
        "n0, n": f"{found.n0:,}, {found.n:,}",
        "noise": described(found.noise),
        "seed": seed_fact(found),
    }


def map_values(found: RadiusMap) -> dict[str, Any]:
    """A radius map without its arrays, for JSON."""
    names = (
        "sentence",
        "claim",
        "cap",
        "alpha",
        "radius",
        "input_radius",
        "norm",
        "n0",
        "n",
        "N",
        "certified",
        "looks",
    )
    return {name: getattr(found, name) for name in names}
