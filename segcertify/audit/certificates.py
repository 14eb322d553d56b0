"""Audits of certificates: the smoothed model asked again, with fresh draws, where an attacker would go.

A violation is a certified component whose label came up so rarely at a perturbed
input within the radius that fresh draws reject "its probability is at least
1/2". Every component at every place is one test, and Bonferroni's correction
holds the chance of any false violation, over all of them, below ``level``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

import numpy as np
import torch

from segcertify.arrays import BoolArray, IntArray
from segcertify.attacks.gradient_ascent import Threat, ascend
from segcertify.attacks.smoothed import attack_smoothed, threat_of
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.progress import Advance, progress_bar
from segcertify.sampling.draws import Draws, Input, working_device
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.streams import DrawStream
from segcertify.stats.binomial import p_values


@dataclass(frozen=True, eq=False)
class Place:
    """A perturbed input, and how many of n fresh draws gave each component its certified label there."""

    name: str
    x: torch.Tensor
    """On the CPU, since an audit of many inputs keeps all places."""
    agree: IntArray
    violated: BoolArray
    """The certified components at which p >= 1/2 is rejected."""


@dataclass(frozen=True, eq=False)
class Finding:
    """What an audit of one certificate found.

    If the certificate's claim is true, ``refuted`` is so with probability at most ``level``.
    """

    certificate: Certificate
    places: tuple[Place, ...]
    n: int
    level: float

    @property
    def tests(self) -> int:
        """How many were made: certified components times places."""
        return self.certificate.certified * len(self.places)

    @property
    def violated(self) -> BoolArray:
        """The components with a violation at any place."""
        nowhere = np.zeros(self.certificate.labels.shape, bool)
        return np.asarray(np.any([nowhere, *(place.violated for place in self.places)], axis=0))

    @property
    def refuted(self) -> bool:
        """Whether there are more violations than the claim allows: any, or k of a k-FWER certificate."""
        return int(self.violated.sum()) >= self.certificate.k

    @property
    def verdict(self) -> str:
        """In a sentence or two."""
        if not self.tests:
            return "Nothing is certified, so there is nothing to refute."
        asked = f"{self.certificate.certified:,} certified components at {len(self.places)} places"
        fresh = f"{self.n:,} fresh draws each, {self.tests:,} tests"
        found = int(self.violated.sum())
        if not found:
            return f"No violation: {asked}, {fresh}. The claim rests on its proof; this audit did not refute it."
        where = ", ".join(place.name for place in self.places if place.violated.any())
        said = "The certificate is refuted" if self.refuted else "Its claim allows so many"
        return (
            f"{found:,} components are violated ({where}): {asked}, {fresh}. {said}. A true claim is refuted with "
            f"probability at most {self.level:g}; a claim may be false with probability {self.certificate.alpha:g}."
        )


class Options(TypedDict, total=False):
    """How hard an audit tries: see `audit_certificate`."""

    n: int
    draws: int
    steps: int
    restarts: int
    weakest: int
    directions: int
    level: float
    batch_size: int | None
    device: str | torch.device | None
    progress: bool | None


def audit_certificate(
    model: Segmenter,
    x: Input,
    certificate: Certificate,
    *,
    n: int = 1000,
    draws: int = 8,
    steps: int = 20,
    restarts: int = 1,
    weakest: int = 3,
    directions: int = 2,
    level: float = 1e-6,
    seed: int = 0,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    progress: bool | Advance | None = None,
) -> Finding:
    """Try to refute a certificate of x: ask the smoothed model again at the strongest perturbations found.

    The places, all within the certificate's radius and norm: x itself; what an attack
    on the smoothed model finds, aimed at all certified components, then at each of the
    ``weakest`` alone (those that fewest draws at x agree on); what an attack on the base
    model finds; random ``directions``. No box confines them: the claim has none.

    The n draws of a place are addressed by an input id that begins with "audit" and
    goes on with the place and the certificate's own id. It is longer than that id, and
    differs from the attacks': neither the certificate nor the search for the place used
    these draws, whatever the seeds.

    Parameters
    ----------
    n : int
        Fresh draws at every place. With more, probabilities closer to 1/2 are told from it.
    draws, steps, restarts
        Of the attacks (`attack_smoothed`). ``steps=0`` leaves them out, for models without gradients.
    level : float
        The chance of a false violation, over all components and places.
    """
    _require_claim(certificate)
    steps, seed = require_integer("steps", steps, at_least=0), require_integer("seed", seed, at_least=0)
    draws, restarts = require_integer("draws", draws), require_integer("restarts", restarts)
    weakest = min(require_integer("weakest", weakest, at_least=0), certificate.certified)
    directions = require_integer("directions", directions, at_least=0)
    if not certificate.certified:
        return Finding(certificate, (), require_integer("n", n), require_probability("level", level))
    moves = certificate.radius > 0
    count = 1 + moves * (directions + (2 + weakest if steps else 0))
    test = _Test(model, certificate, n=n, places=count, level=level, seed=seed, batch_size=batch_size, device=device)
    with progress_bar(count * n, "auditing", show=progress) as advance:
        here = test.at(x, "x itself", advance)
        places = [here]
        if moves:
            search = _Search(
                model,
                here.x.to(working_device(device, model, x)),
                certificate,
                draws=draws,
                steps=steps,
                restarts=restarts,
                seed=seed,
                batch_size=batch_size,
            )
            found = search.places(_weakest(here, certificate, weakest), directions)
            places += [test.at(moved, name, advance) for name, moved in found]
    return Finding(certificate, tuple(places), test.n, test.level)


@dataclass(frozen=True, eq=False)
class Audit:
    """The findings on several certificates: with true claims, each is refuted with probability alpha + level at most.

    The certificates must come from draws of their own, as those of different input ids do.
    """

    findings: tuple[Finding, ...]

    def __post_init__(self) -> None:
        if not self.findings:
            raise InputError("an audit needs at least one finding, but got none")

    @property
    def refuted(self) -> int:
        """How many certificates."""
        return sum(finding.refuted for finding in self.findings)

    @property
    def rate(self) -> float:
        """With what probability one may be refuted: the largest alpha, plus the largest level."""
        alpha = max(finding.certificate.alpha for finding in self.findings)
        return alpha + max(finding.level for finding in self.findings)

    @property
    def p_value(self) -> float:
        """P(Bin(images, rate) >= refuted): how likely so many are, if the claims hold as often as they say."""
        return float(p_values(len(self.findings), self.rate)[self.refuted]) if self.rate < 1 else 1.0

    @property
    def verdict(self) -> str:
        """In a sentence."""
        images = len(self.findings)
        tried = sum(finding.certificate.certified for finding in self.findings)
        tests = sum(finding.tests for finding in self.findings)
        return (
            f"{tried:,} certified components in {images} inputs, {tests:,} tests with fresh draws. "
            f"{self.refuted} of {images} inputs have a violation; certificates that hold as often as they say give at "
            f"least so many with probability at most {self.p_value:.2g} (Bin({images}, {self.rate:g}): alpha plus the "
            "audit's own false alarms)."
        )


def audit_many(
    model: Segmenter,
    pairs: Sequence[tuple[Input, Certificate]],
    *,
    seed: int = 0,
    **options: Unpack[Options],
) -> Audit:
    """`audit_certificate` for every input and its certificate, and how many refuted ones chance would explain.

    The options are its own; ``level`` is for each certificate.
    """
    keys = [(certificate.seed, certificate.input_id) for _, certificate in pairs if certificate.seed is not None]
    if not pairs or len(set(keys)) < len(keys):
        raise InputError(
            f"an audit of many needs certificates from different draws, but {len(pairs)} have {len(set(keys))} pairs "
            "of seed and input id: give every input an input_id of its own when certifying"
        )
    return Audit(
        tuple(
            audit_certificate(model, x, certificate, seed=seed + i, **options)
            for i, (x, certificate) in enumerate(pairs)
        )
    )


class _Test:
    """Fresh draws at a place, and the exact binomial test of p >= 1/2 for every certified component."""

    def __init__(
        self,
        model: Segmenter,
        certificate: Certificate,
        *,
        n: int,
        places: int,
        level: float,
        seed: int,
        batch_size: int | None,
        device: str | torch.device | None,
    ) -> None:
        self.model, self.certificate, self.seed = model, certificate, seed
        self.batch_size, self.device = batch_size, device
        self.n, self.level = require_integer("n", n), require_probability("level", level)
        p = p_values(self.n, 0.5)[::-1]  # P(Bin(n, 1/2) <= k), for k = 0 .. n
        each = self.level / (places * certificate.certified)
        self.most = int(np.count_nonzero(p <= each)) - 1
        if self.most < 0:
            raise InputError(
                f"n={n} draws can refute nothing at level={level:g} over {certificate.certified:,} components at "
                f"{places} places: use n >= {int(np.ceil(-np.log2(each))) + 1}"
            )

    def at(self, x: Input, name: str, advance: Advance) -> Place:
        """Ask at x."""
        draws = Draws(
            self.model,
            x,
            noise=self.certificate.noise,
            seed=self.seed,
            batch_size=self.batch_size,
            device=self.device,
            input_id=f"audit, {name}, {self.certificate.input_id}",
        )
        labels = self.certificate.labels
        if draws.components != labels.shape:
            raise InputError(
                f"the certificate is for components {labels.shape}, but the model has {draws.components}: give the "
                "model and the input that were certified"
            )
        wanted = torch.from_numpy(labels).to(draws.x.device)
        agree = torch.zeros_like(wanted, dtype=torch.int32)
        for _, seen in draws.batches("agree", 0, self.n):
            agree += (seen == wanted).sum(0)
            advance(len(seen))
        counts = agree.cpu().numpy()
        return Place(name, draws.x.cpu(), counts, (labels != ABSTAIN) & (counts <= self.most))


@dataclass(frozen=True, eq=False)
class _Search:
    """Perturbations within the radius that may break a certificate."""

    model: Segmenter
    x: torch.Tensor
    certificate: Certificate
    draws: int
    steps: int
    restarts: int
    seed: int
    batch_size: int | None

    def places(self, weakest: Sequence[int], directions: int) -> Iterator[tuple[str, torch.Tensor]]:
        """Their names and the inputs."""
        if self.steps:
            try:
                first = self._smoothed(self.certificate)
            except InputError as error:
                raise InputError(f"{error}. For an audit without attacks use steps=0") from None
            yield "attack on the smoothed model", first
            for i in weakest:
                labels = np.full_like(self.certificate.labels, ABSTAIN)
                labels.flat[i] = self.certificate.labels.flat[i]
                yield f"attack on component {i}", self._smoothed(replace(self.certificate, labels=labels))
            yield "attack on the base model", self._base()
        for i in range(directions):
            yield f"random direction {i + 1}", self._direction(i)

    def _smoothed(self, aim: Certificate) -> torch.Tensor:
        return attack_smoothed(
            self.model,
            self.x,
            aim,
            draws=self.draws,
            steps=self.steps,
            restarts=self.restarts,
            box=None,
            batch_size=self.batch_size,
            seed=self.seed,
            progress=False,
        ).x[0]

    def _base(self) -> torch.Tensor:
        labels = torch.from_numpy(np.asarray(self.certificate.labels, np.int64))[None]
        return ascend(
            self.model,
            self.x[None],
            labels,
            self._threat(),
            valid=labels >= 0,
            steps=self.steps,
            restarts=self.restarts,
            seed=self.seed,
            progress=False,
        ).x[0]

    def _direction(self, i: int) -> torch.Tensor:
        """A step of twice the radius along random numbers, and back to the ball's surface."""
        threat, batch, stream = self._threat(), self.x[None], DrawStream(self.seed, "audit", "candidate", i)
        still = torch.zeros_like(threat.start(batch, stream))
        towards = stream.normal_(torch.empty_like(batch))
        return threat.apply(batch, threat.climb(batch, still, towards, 2 * threat.radius))[0]

    def _threat(self) -> Threat:
        return threat_of(self.certificate, self.certificate.radius, self.x, None)


def _weakest(here: Place, certificate: Certificate, count: int) -> list[int]:
    """The certified components that fewest draws agree on, as flat indices."""
    certified = np.flatnonzero(~certificate.abstained)
    order = np.argsort(here.agree.ravel()[certified], kind="stable")
    return [int(i) for i in certified[order[:count]]]


def _require_claim(certificate: Certificate) -> None:
    if certificate.guarantee not in ("fwer", "k-fwer"):
        raise InputError(
            f"the certificate's guarantee is {certificate.guarantee!r}, which allows violations on any one input: "
            "audit certificates made with holm, bonferroni or k-fwer"
        )
