"""An audit of metric certificates: fresh noisy runs at inputs that an attacker would choose must keep the bound.

A violation is an input within the radius at which so few of n fresh runs keep the bound that an exact binomial test
rejects "at least ``share`` of the noisy runs keep it". Every input is one test, at an equal share of ``level``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from segcertify.arrays import BoolArray, IntArray
from segcertify.audit.certificates import _most_violating, _perturbed, _require_about, detectable
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.metrics.certificate import MetricCertificate
from segcertify.metrics.map_metrics import MapFunction, metric_name
from segcertify.noise import Noise
from segcertify.numerals import exact, exact_percent, lower
from segcertify.preprocessing import Preprocessing
from segcertify.progress import Advance, progress_bar
from segcertify.sampling.checkpoint import Checkpoint
from segcertify.sampling.inputs import Input
from segcertify.sampling.metrics import metric_values
from segcertify.sampling.seeds import seed_of_run
from segcertify.sampling.segmenter import Segmenter, base_labels
from segcertify.sampling.shared import Smoothing, alone


@dataclass(frozen=True, eq=False)
class MetricPerturbed:
    """A perturbed input, and how many of n fresh noisy runs kept the bound there."""

    name: str
    x: torch.Tensor
    kept: int
    violated: bool


@dataclass(frozen=True, eq=False)
class MetricFinding:
    """What an audit of a metric certificate found. A true claim is ``refuted`` with probability at most ``level``."""

    certificate: MetricCertificate
    perturbed: tuple[MetricPerturbed, ...]
    n: int
    level: float
    seed: int | None = None

    @property
    def subject(self) -> str:
        """What was tested, in words."""
        return "bounds"

    @property
    def subjects(self) -> int:
        """How many bounds were tested: a certificate has one, or none."""
        return int(self.certificate.bound is not None)

    @property
    def tests(self) -> int:
        """How many were made: one for each perturbed input."""
        return len(self.perturbed)

    @property
    def detectable(self) -> float:
        """The largest share of runs that keep the bound at a tested input that the audit rejects almost surely.

        Found with probability `SURE` (`segcertify.audit.certificates`). 1 without tests.
        """
        if not self.tests:
            return 1.0
        return detectable(self.n, _most_violating(self.n, self.level, self.tests, 1, least=self.certificate.share))

    @property
    def power(self) -> str:
        """What the audit would have found, in a sentence."""
        return (
            f"It finds with 95 % probability a perturbed input at which at most {lower(self.detectable)} of the runs "
            f"keep the bound; {exact_percent(self.certificate.share)} are claimed."
        )

    @property
    def refuted(self) -> bool:
        """Whether too few runs keep the bound at any input."""
        return any(each.violated for each in self.perturbed)

    @property
    def verdict(self) -> str:
        """In a few sentences."""
        if not self.tests:
            return "Nothing is claimed, so there is nothing to refute."
        claimed = exact_percent(self.certificate.share)
        tested = f"{self.n:,} fresh noisy runs at each of {self.tests} perturbed inputs"
        if not self.refuted:
            return f"No violation: {tested}. The claim rests on its proof; this audit did not refute it. {self.power}"
        worst = min(self.perturbed, key=lambda each: each.kept)
        return (
            f"Only {worst.kept:,} of {self.n:,} noisy runs keep the bound ({worst.name}), but {claimed} are claimed: "
            f"{tested}. The certificate is refuted. A true claim is refuted with probability at most "
            f"{exact(self.level)}; a claim may be false with probability {exact(self.certificate.alpha)}."
        )


def audit_metric(
    model: Segmenter, x: Input, certificate: MetricCertificate, metric: MapFunction, *, target: IntArray | None = None,
    n: int = 1000, draws: int = 8, steps: int = 20, restarts: int = 1, directions: int = 2, level: float = 1e-6,
    seed: int | None = None, batch_size: int | None = None, device: str | torch.device | None = None,
    preprocessing: Preprocessing | None = None, progress: bool | Advance | None = None,
    smoothing: Smoothing = alone,
) -> MetricFinding:  # fmt: skip
    """Try to refute a metric certificate of x: count fresh noisy runs that keep its bound, where an attack leads.

    The inputs, all within the certificate's radius and norm: x itself; what an attack on the smoothed model and one on
    the base model find, which move labels away from ``target`` (negative where there is none; by default the model's
    own labels of x); of a two-sided certificate of noise that is added, also the opposite steps; random
    ``directions``. An attack is not aimed at the metric itself, which has no gradient.

    ``metric`` is the certified one: another name, or another target where the certificate tells, is refused. The
    draws are fresh, as in `segcertify.audit.audit_certificate`, whose other options these are.
    """
    n, level = require_integer("n", n), require_probability("level", level)
    steps, seed = require_integer("steps", steps, at_least=0), seed_of_run(seed).value
    draws, restarts = require_integer("draws", draws), require_integer("restarts", restarts)
    directions = require_integer("directions", directions, at_least=0)
    _require_metric(certificate, metric)
    if certificate.bound is None:
        return MetricFinding(certificate, (), n, level, seed)
    smooth = smoothing(model, certificate.noise, seed=seed, batch_size=batch_size, device=device)
    given = smooth.draws(x)
    _require_about(certificate, smooth, given, preprocessing)
    labels = base_labels(model, given.x) if target is None else np.asarray(target)
    inputs = [("x itself", given.x)]
    if certificate.radius > 0:
        aim = _Aim(labels, certificate.radius, certificate.norm, certificate.noise)
        moved = _perturbed(
            smooth, given.x, aim, agree=np.zeros_like(labels), draws=draws, steps=steps, restarts=restarts, weakest=0,
            directions=directions, seed=seed,
        )  # fmt: skip
        inputs += moved
        inputs += _opposite(given.x, inputs[1:], certificate)
    most, found = _most_violating(n, level, len(inputs), 1, least=certificate.share), []
    with progress_bar(len(inputs) * n, "auditing", show=progress) as advance:
        for name, at in inputs:
            fresh = smooth.draws(at, f"audit, {name}, {certificate.input_id}")
            [values] = metric_values(fresh, Checkpoint(None, fresh, {}, every=0), [metric], n=n, progress=advance)
            upper = np.inf if certificate.upper is None else certificate.upper
            kept = int(((values >= certificate.bound) & (values <= upper)).sum())
            found.append(MetricPerturbed(name, at.cpu(), kept, kept <= most))
    return MetricFinding(certificate, tuple(found), n, level, seed)


@dataclass(frozen=True, eq=False)
class _Aim:
    """Labels that attacks move away from, and how far they may go."""

    labels: IntArray
    radius: float
    norm: str
    noise: Noise

    @property
    def abstained(self) -> BoolArray:
        """Where there is no label."""
        return np.asarray(self.labels < 0)


def _opposite(
    x: torch.Tensor, inputs: list[tuple[str, torch.Tensor]], certificate: MetricCertificate
) -> Iterator[tuple[str, torch.Tensor]]:
    """The attacks' steps in the opposite direction, which may break the upper bound; balls are symmetric."""
    if certificate.two_sided and certificate.noise.additive:
        yield from ((f"opposite of {name}", 2 * x - at) for name, at in inputs if name.startswith("attack"))


def _require_metric(certificate: MetricCertificate, metric: MapFunction) -> None:
    """Refuse another metric than the certified one, as far as the certificate tells."""
    if (name := metric_name(metric)) != certificate.metric:
        raise InputError(f"the certificate bounds {certificate.metric!r}, but the metric given is {name!r}: give that")
    if certificate.metric_digest and certificate.metric_digest != getattr(metric, "digest", ""):
        raise InputError(
            f"the metric {name!r} was made with another target or unit than the certified one: give the same ground "
            "truth (in commands --label), prepared in the same way"
        )
