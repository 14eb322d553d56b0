"""An audit of sets: fresh draws within the radius look for a majority label outside its set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch

from segcertify.arrays import BoolArray
from segcertify.audit.certificates import Perturbed, _perturbed, _require_about, detectable
from segcertify.class_counts import most_frequent
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.numerals import exact, upper
from segcertify.preprocessing import Preprocessing
from segcertify.sampling.inputs import Input
from segcertify.sampling.seeds import seed_of_run
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.shared import Smoothing, alone
from segcertify.sets.certificate import SetCertificate
from segcertify.stats.pilotless import pilotless_p_values


@dataclass(frozen=True, eq=False)
class SetFinding:
    """What an audit of sets found. If the claim is true, ``refuted`` is so with probability at most ``level``."""

    certificate: SetCertificate
    violated: BoolArray
    """The components with a majority label outside their set, at any perturbed input."""
    inputs: int
    n: int
    level: float
    seed: int | None

    @property
    def subject(self) -> str:
        """What was tested, in words."""
        return "sets"

    @property
    def subjects(self) -> int:
        """How many sets were tested."""
        return self.certificate.N if self.certificate.excludes else 0

    @property
    def tests(self) -> int:
        """How many were made: components times inputs."""
        return self.subjects * self.inputs

    @property
    def detectable(self) -> float:
        """1 less the smallest probability of a label outside its set that the audit finds almost surely.

        Found with probability `SURE` (`segcertify.audit.certificates`), at one of the inputs. 1 without tests.
        """
        if not self.tests:
            return 1.0
        least = int(np.argmax(_violating(self.n, self.level, self.tests)))
        return detectable(self.n, self.n - least)

    @property
    def power(self) -> str:
        """What the audit would have found, in a sentence."""
        return (
            "It finds with 95 % probability a label outside its set whose probability at one of these inputs is at "
            f"least {upper(1 - self.detectable)}; at most 1/2 is claimed."
        )

    @property
    def refuted(self) -> bool:
        """Whether any set is left."""
        return bool(self.violated.any())

    @property
    def verdict(self) -> str:
        """In a sentence or two."""
        tested = f"{self.certificate.N:,} sets at {self.inputs} inputs, {self.n:,} fresh draws each"
        if not self.certificate.excludes:
            return "The sets exclude nothing, so there is nothing to refute."
        if not self.refuted:
            return f"No violation: {tested}. The claim rests on its proof; this audit did not refute it. {self.power}"
        return (
            f"{int(self.violated.sum()):,} components have a majority label outside their set: {tested}. The "
            f"certificate is refuted. A true claim is refuted with probability at most {exact(self.level)}; a claim "
            f"may be false with probability {exact(self.certificate.alpha)}."
        )


class SetOptions(TypedDict, total=False):
    """How hard an audit of sets tries: see `audit_sets`."""

    n: int
    directions: int
    level: float
    batch_size: int | None
    device: str | torch.device | None
    progress: bool | None
    smoothing: Smoothing


def audit_sets(
    model: Segmenter, x: Input, certificate: SetCertificate, *, n: int = 1000, directions: int = 3, level: float = 1e-6,
    seed: int | None = None, batch_size: int | None = None, device: str | torch.device | None = None,
    preprocessing: Preprocessing | None = None, also: Sequence[Perturbed] = (), progress: bool | None = None,
    smoothing: Smoothing = alone,
) -> SetFinding:  # fmt: skip
    """Look for a majority label outside its set, by n fresh draws at x and at ``directions`` inputs on the ball's rim.

    ``also`` are further inputs within the radius, such as those that an audit of the certified labels found by attacks.

    A label outside that came up k times is a violation if no label with probability 1/2 at most reaches k by chance:
    2 P(Bin(n, 1/2) >= k), at an equal share of ``level`` for every component and input (`segcertify.stats.pilotless`).
    Certified labels are audited harder, with attacks, by ``audit_certificate`` of ``certificate.as_labels()``.
    """
    n, level = require_integer("n", n), require_probability("level", level)
    seed, labels = seed_of_run(seed).value, certificate.as_labels()
    directions = require_integer("directions", directions, at_least=0) if certificate.radius > 0 else 0
    inputs, violated = 1 + directions + len(also), np.zeros(certificate.labels.shape, bool)
    if not certificate.excludes:
        return SetFinding(certificate, violated, 0, n, level, seed)
    enough = _violating(n, level, inputs * certificate.N)
    if not enough.any():
        raise InputError(f"n={n} draws can refute nothing at level={exact(level)} over {certificate.N:,} components")
    smooth = smoothing(model, certificate.noise, seed=seed, batch_size=batch_size, device=device)
    given = smooth.draws(x)
    _require_about(labels, smooth, given, preprocessing)
    moved = _perturbed(
        smooth, given.x, labels, agree=violated.astype(int), draws=1, steps=0, restarts=1, weakest=0,
        directions=directions, seed=seed,
    )  # fmt: skip
    for name, at in [("x itself", given.x), *moved, *((f"also, {each.name}", each.x.to(given.x)) for each in also)]:
        counts = smooth.counts(at, n=n, input_id=f"audit, {name}, {certificate.input_id}", progress=progress)
        top, count = most_frequent(counts)
        known = np.take_along_axis(certificate.sets, np.minimum(top, len(certificate.sets) - 1)[None].astype(int), 0)[0]
        violated |= enough[count] & ~(known & (top < len(certificate.sets)))
    return SetFinding(certificate, violated, inputs, n, level, seed)


def _violating(n: int, level: float, tests: int) -> BoolArray:
    """Which counts of a label outside its set, of n draws, are a violation at an equal share of the level: (n + 1,)."""
    return np.asarray(pilotless_p_values(n, 0.5) <= level / tests)
