"""Certificates of sets in commands: `certify --sets` makes them, `show` prints them, `plan --sets` plans them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from segcertify.cli import options as opt
from segcertify.cli.printing import Printer, noted, radius_facts
from segcertify.errors import InputError
from segcertify.metrics.sets import small_sets
from segcertify.numerals import exact, percent
from segcertify.sets.certificate import SetCertificate
from segcertify.sets.class_trees import name_of_set, sets_in_words

if TYPE_CHECKING:
    from segcertify.data import Input
    from segcertify.figures.palette import ColoursOf
    from segcertify.sampling.segmenter import Segmenter
    from segcertify.sets.planning import SetPlan


def sets_beside(
    printer: Printer, model: Segmenter, found: Input, certificate: Path, votes: Path, *, tau: float, alpha: float,
    norm: str | None, colours: ColoursOf,
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
        pictures = draw_sets(model, found, made, path=file.with_suffix(".png"), colours=colours)
    return made, [file, *pictures]


def sets_facts(found: SetCertificate, names: Sequence[str] = ()) -> dict[str, str]:
    """What a certificate of sets proves, for `Printer.facts`: labels, sizes, and frequent sets by their names."""
    sizes, N = found.sizes, found.labels.size

    def at_most(size: int) -> str:
        return percent(int((sizes <= size).sum()) / N)

    frequent = small_sets(found.sets[:, found.abstained])
    small = f"{at_most(1)}, {at_most(2)}, {at_most(3)} ({int(found.only.sum()):,} of 1 by exclusion alone)"
    return {
        **radius_facts(found),
        "certified label": f"{found.certified:,} of {found.N:,}",
        "at most 1, 2, 3 labels": small if found.excludes else "nothing is excluded",
        **({"frequent sets": sets_in_words(frequent, N, names)} if found.excludes and frequent else {}),
        "tau, n0, n": f"{exact(found.tau)}, {found.n0:,}, {found.n:,}",
        "alpha, correction": f"{exact(found.alpha)}, {found.correction} for labels at alpha / 2",
    }


def sets_values(found: SetCertificate, names: Sequence[str] = ()) -> dict[str, Any]:
    """A certificate of sets without its arrays, for JSON; frequent sets by their names, with their counts."""
    fields = (
        "sentence", "claim", "radius", "input_radius", "units", "norm", "tau", "alpha", "correction", "n0", "n", "N",
        "classes",
        "excludes", "certified",
    )  # fmt: skip
    sizes = {f"at_most_{size}": int((found.sizes <= size).sum()) for size in (1, 2, 3)}
    frequent = small_sets(found.sets[:, found.abstained]).most_common(20) if found.excludes else []
    named = {name_of_set(labels, names): count for labels, count in frequent}
    values = {name: getattr(found, name) for name in fields}
    return values | sizes | {"only": int(found.only.sum()), "frequent_sets": named}


def plan_of_sets(
    N: int, tau: float, *, alpha: float, classes: int | None, n: int | None, n0: int
) -> tuple[SetPlan, dict[str, str]]:
    """How many draws sets need, and how many draws may give a label that is excluded, with the facts to print."""
    from segcertify.sets.planning import plan_sets

    found = plan_sets(N, tau, alpha=alpha, classes=classes, n=n, n0=n0)
    seen = "excludes nothing"
    if found.excludes_up_to is not None:
        seen = f"{found.excludes_up_to:,}; at best, where every other set keeps one label, {found.at_best:,}"
    facts = {
        "components N, classes": f"{N:,}, {'not known' if classes is None else classes}",
        "tau, alpha, n0": f"{exact(tau)}, {exact(alpha)} (half for labels), {n0}",
        "smallest n that excludes a label never seen": f"{found.n_min:,}",
        "smallest n that certifies a label": f"{found.n_label:,}",
        f"draws of n0 + n = {n0 + found.n:,} that may give an excluded label": seen,
        f"disagreeing draws tolerated for a label at n = {found.n:,}": (
            "certifies nothing" if found.tolerates is None else f"{found.tolerates:,}"
        ),
    }
    return found, facts
