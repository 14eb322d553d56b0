"""Certificates of sets in commands: `certify --sets` makes them, `show` prints them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segcertify.cli import options as opt
from segcertify.cli.printing import Printer, noted, radius_facts
from segcertify.errors import InputError
from segcertify.numerals import exact, percent
from segcertify.sets.certificate import SetCertificate

if TYPE_CHECKING:
    from segcertify.data import Input
    from segcertify.sampling.segmenter import Segmenter


def sets_beside(
    printer: Printer, model: Segmenter, found: Input, certificate: Path, votes: Path, *, tau: float, alpha: float,
    norm: str | None,
) -> tuple[SetCertificate, list[Path]]:  # fmt: skip
    """The certificate of sets of saved votes, in a file named as that of the labels, and its picture."""
    from segcertify.cli.inputs import draw_sets
    from segcertify.sets.exclusion import certify_sets
    from segcertify.votes import Votes

    made = replace(certify_sets(Votes.load(votes), tau=tau, alpha=alpha, norm=norm), command=opt.command_line())
    file, pictures = certificate.with_name(certificate.name.replace("certificate", "sets", 1)), list[Path]()
    if not file.exists():
        made.save(file)
    elif not np.array_equal(SetCertificate.load(file).sets, made.sets):
        raise InputError(f"{file} holds other sets, which are not overwritten: give another --out, or delete it")
    with noted(printer, "no picture of the sets"):
        pictures = draw_sets(model, found, made, path=file.with_suffix(".png"))
    return made, [file, *pictures]


def sets_facts(found: SetCertificate) -> dict[str, str]:
    """What a certificate of sets proves, for `Printer.facts`: labels and sizes together."""
    sizes, N = found.sizes, found.labels.size

    def at_most(size: int) -> str:
        return percent(int((sizes <= size).sum()) / N)

    small = f"{at_most(1)}, {at_most(2)}, {at_most(3)} ({int(found.only.sum()):,} of 1 by exclusion alone)"
    return {
        **radius_facts(found),
        "certified label": f"{found.certified:,} of {found.N:,}",
        "at most 1, 2, 3 labels": small if found.excludes else "nothing is excluded",
        "tau, n0, n": f"{exact(found.tau)}, {found.n0:,}, {found.n:,}",
        "alpha, correction": f"{exact(found.alpha)}, {found.correction} for labels at alpha / 2",
    }


def sets_values(found: SetCertificate) -> dict[str, Any]:
    """A certificate of sets without its arrays, for JSON."""
    names = (
        "claim", "radius", "input_radius", "units", "norm", "tau", "alpha", "correction", "n0", "n", "N", "classes",
        "excludes", "certified",
    )  # fmt: skip
    sizes = {f"at_most_{size}": int((found.sizes <= size).sum()) for size in (1, 2, 3)}
    return {name: getattr(found, name) for name in names} | sizes | {"only": int(found.only.sum())}
