"""Audits of certificates: the smoothed model's labels, in fresh draws, at inputs that an attacker would choose.

A violation is a certified component whose label came up so rarely at a perturbed input within the radius that fresh
draws reject "its probability is at least 1/2". Every component at every perturbed input is one test, and Bonferroni's
correction keeps the chance of any false violation, over all of them, below ``level``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

import numpy as np
import torch

from segcertify.arrays import BoolArray, IntArray
from segcertify.attacks.gradient_ascent import GradientAscent
from segcertify.attacks.loss_and_gradient import NoisyCopies
from segcertify.attacks.smoothed import noise_threat
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.noise import Noise
from segcertify.numerals import exact, lower, upper_digits
from segcertify.preprocessing import Preprocessing
from segcertify.progress import Advance, progress_bar
from segcertify.provenance import Issued
from segcertify.sampling.draws import Draws
from segcertify.sampling.identity import without_execution
from segcertify.sampling.inputs import Input, input_digest
from segcertify.sampling.seeds import seed_of_run
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.shared import Smoothing, alone
from segcertify.sampling.smooth import Smooth
from segcertify.sampling.streams import DrawStream
from segcertify.stats.binomial import lower_bounds, p_values
from segcertify.storage.same_run import difference
from segcertify.votes import model_difference

if TYPE_CHECKING:
    from segcertify.audit.metrics import MetricFinding
    from segcertify.audit.sets import SetFinding


@dataclass(frozen=True, eq=False)
class Perturbed:
    """A perturbed input, and how many of n fresh draws gave each component its certified label there."""

    name: str
    x: torch.Tensor
    """On the CPU, since an audit of many inputs keeps all of them."""
    agree: IntArray
    violated: BoolArray
    """The certified components at which p >= 1/2 is rejected."""


@dataclass(frozen=True, eq=False)
class Finding:
    """What an audit of one certificate found.

    If the certificate's claim is true, ``refuted`` is so with probability at most ``level``.
    """

    certificate: Certificate
    perturbed: tuple[Perturbed, ...]
    n: int
    level: float
    seed: int | None = None
    """Of the attacks and of the fresh draws: given, or drawn by the operating system."""

    @property
    def subject(self) -> str:
        """What was tested, in words."""
        return "certified components"

    @property
    def subjects(self) -> int:
        """How many certified components were tested."""
        return self.certificate.certified

    @property
    def tests(self) -> int:
        """How many were made: certified components times perturbed inputs."""
        return self.subjects * len(self.perturbed)

    @property
    def violated(self) -> BoolArray:
        """The components with a violation at any perturbed input."""
        none = np.zeros(self.certificate.labels.shape, bool)
        return np.asarray(np.any([none, *(each.violated for each in self.perturbed)], axis=0))

    @property
    def refuted(self) -> bool:
        """Whether there are more violations than the claim allows: any, or k of a k-FWER certificate."""
        return int(self.violated.sum()) >= self.certificate.k

    @property
    def detectable(self) -> float:
        """The largest probability of a certified label, at a tested input, that the audit rejects almost surely.

        Found with probability `SURE`: a label less likely than this at one of the perturbed inputs. 1 without tests.
        """
        if not self.tests:
            return 1.0
        most = _most_violating(self.n, self.level, len(self.perturbed), self.certificate.certified)
        return detectable(self.n, most)

    @property
    def power(self) -> str:
        """What the audit would have found, in a sentence."""
        return (
            f"It finds with 95 % probability a label whose probability at one of these inputs is at most "
            f"{lower(self.detectable)}; above 1/2 is claimed."
        )

    @property
    def verdict(self) -> str:
        """In a few sentences."""
        if not self.tests:
            return "Nothing is certified, so there is nothing to refute."
        tested = f"{self.certificate.certified:,} certified components at {len(self.perturbed)} perturbed inputs"
        fresh = f"{self.n:,} fresh draws each, {self.tests:,} tests"
        found = int(self.violated.sum())
        if not found:
            return (
                f"No violation: {tested}, {fresh}. The claim rests on its proof; this audit did not refute it. "
                f"{self.power}"
            )
        where = ", ".join(each.name for each in self.perturbed if each.violated.any())
        meaning = "The certificate is refuted" if self.refuted else "The claim allows this many"
        return (
            f"{found:,} components are violated ({where}): {tested}, {fresh}. {meaning}. A true claim is refuted with "
            f"probability at most {exact(self.level)}; a claim may be false with probability "
            f"{exact(self.certificate.alpha)}."
        )


class Attacked(Protocol):
    """Labels that attacks move away from, and what they may do."""

    @property
    def labels(self) -> IntArray:
        """ABSTAIN where there is none."""

    @property
    def abstained(self) -> BoolArray:
        """Where there is none."""

    @property
    def noise(self) -> Noise:
        """Of the smoothed model."""

    @property
    def radius(self) -> float:
        """How far."""

    @property
    def norm(self) -> str:
        """In what it is measured."""


class Effort(TypedDict, total=False):
    """How hard an audit of any certificate tries: see `audit_certificate`."""

    n: int
    draws: int
    steps: int
    restarts: int
    directions: int
    level: float
    batch_size: int | None
    device: str | torch.device | None
    progress: bool | None
    smoothing: Smoothing


class Options(Effort, total=False):
    """How hard an audit of labels tries."""

    weakest: int


def audit_certificate(
    model: Segmenter, x: Input, certificate: Certificate, *, n: int = 1000, draws: int = 8, steps: int = 20,
    restarts: int = 1, weakest: int = 3, directions: int = 2, level: float = 1e-6, seed: int | None = None,
    batch_size: int | None = None, device: str | torch.device | None = None,
    preprocessing: Preprocessing | None = None, progress: bool | Advance | None = None,
    smoothing: Smoothing = alone,
) -> Finding:  # fmt: skip
    """Try to refute a certificate of x: count the smoothed model's labels at the strongest perturbations found.

    The inputs, all within the certificate's radius and norm: x itself; what an attack on the smoothed model finds,
    aimed at all certified components, then at each of the ``weakest`` alone (those that fewest draws at x agree on);
    what an attack on the base model finds; random ``directions``. No box confines them: the claim has none.

    The n draws at an input have an input id that begins with "audit" and goes on with the input's name and the
    certificate's own id. It is longer than that id, and differs from the attacks'. So neither the certificate nor the
    search for the input used these draws, whatever the seeds.

    Parameters
    ----------
    n : int
        Fresh draws at every input. The more, the closer to 1/2 the probabilities that the test can reject.
    draws, steps, restarts
        Of the attacks (`attack_smoothed`). ``steps=0`` leaves them out, for models without gradients.
    level : float
        The chance of a false violation, over all components and inputs.
    seed : int, optional
        To reproduce a finding, which records it. By default the operating system draws one: a model that knew it could
        pass, or fail, by design.
    preprocessing : mapping, optional
        Of x, where it is known. Another model, input or pre-processing than the certificate's is refused.
    smoothing : function, optional
        Makes the smoothed model: that of an engine has workers make the draws (`segcertify.engines.Engine.smoothing`).
        Attacks are this process's.
    """
    if certificate.guarantee not in ("fwer", "k-fwer"):
        raise InputError(
            f"the certificate's guarantee is {certificate.guarantee!r}, which allows violations on any one input: "
            "audit certificates made with holm, bonferroni or k-fwer"
        )
    n, level = require_integer("n", n), require_probability("level", level)
    steps, seed = require_integer("steps", steps, at_least=0), seed_of_run(seed).value
    draws, restarts = require_integer("draws", draws), require_integer("restarts", restarts)
    weakest = min(require_integer("weakest", weakest, at_least=0), certificate.certified)
    directions = require_integer("directions", directions, at_least=0)
    if not certificate.certified:
        return Finding(certificate, (), n, level, seed)
    inputs = 1 + (certificate.radius > 0) * (directions + (2 + weakest if steps else 0))
    most = _most_violating(n, level, inputs, certificate.certified)
    smooth = smoothing(model, certificate.noise, seed=seed, batch_size=batch_size, device=device)
    with progress_bar(inputs * n, "auditing", show=progress) as advance:

        def test(name: str, moved: torch.Tensor) -> Perturbed:
            """The exact binomial test of p >= 1/2 for every certified component."""
            fresh = f"audit, {name}, {certificate.input_id}"
            agree = smooth.agreement(moved, certificate.labels, n=n, input_id=fresh, progress=advance)
            return Perturbed(name, moved.cpu(), agree, (certificate.labels != ABSTAIN) & (agree <= most))

        given = smooth.draws(x)
        _require_about(certificate, smooth, given, preprocessing)
        found = [test("x itself", given.x)]
        if certificate.radius > 0:
            perturbed = _perturbed(
                smooth, given.x, certificate, agree=found[0].agree, draws=draws, steps=steps, restarts=restarts,
                weakest=weakest, directions=directions, seed=seed,
            )  # fmt: skip
            found += [test(name, moved) for name, moved in perturbed]
    return Finding(certificate, tuple(found), n, level, seed)


def _require_about(certificate: Issued, smooth: Smooth, given: Draws, preprocessing: Preprocessing | None) -> None:
    """Refuse what the certificate is not about, as far as it says: older certificates say nothing."""
    if certificate.preprocessing and preprocessing:
        pair = ({"its": certificate.preprocessing}, {"its": preprocessing})
        differences = difference(*pair).items()
        if found := [f"{name.replace('.', ' ')} is {old}, now it is {new}" for name, (old, new) in differences]:
            raise InputError(
                f"the input was pre-processed otherwise than the certified one: {'; '.join(found)}. Give the input "
                "that was certified, prepared in the same way (in commands the same --short-side)"
            )
    ours = input_digest(given.x), given.input_shape
    if certificate.input_digest and (certificate.input_digest, certificate.input_shape) != ours:
        raise InputError(
            f"the input is not the one that was certified: its digest is {ours[0][:16]} (shape {ours[1]}), but that of "
            f"the certified one is {certificate.input_digest[:16]} (shape {certificate.input_shape}). Give the input "
            f"that was certified: its id is {certificate.input_id!r}"
        )
    labels = getattr(certificate, "labels", None)  # a metric certificate has none
    same_components = labels is None or given.components == labels.shape  # others are refused when they are compared
    if same_components and (
        differ := model_difference(*map(without_execution, (certificate.model, smooth.identity(given))))
    ):
        raise InputError(
            f"the model is not the one that was certified: {differ}. Give that model, in the same precision (a "
            "function without weights is known by its answers: also on the same device)"
        )


@dataclass(frozen=True, eq=False)
class Audit:
    """The findings on several certificates: with true claims, each is refuted with probability alpha + level at most.

    The certificates must come from draws of their own, as those of different input ids do.
    """

    findings: tuple[Finding | SetFinding | MetricFinding, ...]

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
        """P(Bin(inputs, rate) >= refuted): the chance of this many or more, if all claims hold as often as they say."""
        return float(p_values(len(self.findings), self.rate)[self.refuted]) if self.rate < 1 else 1.0

    @property
    def verdict(self) -> str:
        """In a few sentences."""
        inputs = len(self.findings)
        subjects = sum(finding.subjects for finding in self.findings)
        tests = sum(finding.tests for finding in self.findings)
        tested = f"{subjects:,} {self.findings[0].subject} in {inputs} inputs, {tests:,} tests with fresh draws. "
        if not self.refuted:
            power = f" {min(self.findings, key=lambda each: each.detectable).power}" if tests else ""
            return f"{tested}0 of {inputs} inputs have a violation: consistent with the claims.{power}"
        return (
            f"{tested}{self.refuted} of {inputs} inputs have a violation. If all claims hold as often as they say, at "
            f"least {self.refuted} are refuted with probability at most {upper_digits(self.p_value, 2)} (Bin({inputs}, "
            f"{upper_digits(self.rate)}): alpha plus the audit's own false alarms)."
        )


def audit_many(
    model: Segmenter, pairs: Sequence[tuple[Input, Certificate]], *, seed: int | None = None, **options: Unpack[Options]
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
    audits = enumerate(pairs, start=seed_of_run(seed).value)
    return Audit(tuple(audit_certificate(model, x, each, seed=own, **options) for own, (x, each) in audits))


def _perturbed(
    smooth: Smooth, x: torch.Tensor, certificate: Attacked, *, agree: IntArray, draws: int, steps: int,
    restarts: int, weakest: int, directions: int, seed: int,
) -> Iterator[tuple[str, torch.Tensor]]:  # fmt: skip
    """Perturbations within the radius that may break a certificate, and their names; ``agree`` was counted at x."""
    noise, batch = certificate.noise, x[None]
    threat = noise_threat(noise, certificate.radius, x, norm=certificate.norm, box=None)
    certified = torch.from_numpy(np.asarray(certificate.labels, np.int64))[None]

    def attack(labels: torch.Tensor, copies: NoisyCopies | None) -> torch.Tensor:
        ascent = GradientAscent(steps, restarts=restarts, seed=seed)
        return ascent(smooth.model, batch, labels, threat, valid=labels >= 0, copies=copies, progress=False).x[0]

    if steps:
        copies = NoisyCopies(noise, draws, smooth.batch_size or draws, seed)
        try:
            first = attack(certified, copies)
        except InputError as error:
            raise InputError(f"{error}. For an audit without attacks use steps=0") from None
        yield "attack on the smoothed model", first
        tested = np.flatnonzero(~certificate.abstained)
        for i in tested[np.argsort(agree.ravel()[tested], kind="stable")[:weakest]]:
            alone = torch.full_like(certified, ABSTAIN)
            alone.view(-1)[i] = certified.view(-1)[i]
            yield f"attack on component {i}", attack(alone, copies)
        yield "attack on the base model", attack(certified, None)
    for i in range(directions):  # a step of twice the radius along random numbers, and back to the ball's surface
        stream = DrawStream(seed, "audit", "candidate", i)
        zero = torch.zeros_like(threat.start(batch, stream))
        towards = stream.normal_(torch.empty_like(batch))
        yield f"random direction {i + 1}", threat.apply(batch, threat.step(batch, zero, towards, 2 * threat.radius))[0]


def _most_violating(n: int, level: float, inputs: int, certified: int, *, least: float = 0.5) -> int:
    """The largest count of n that rejects "p is at least ``least``", at an equal share of the level for every test."""
    p = p_values(n, 1 - least)[::-1]  # P(Bin(n, least) <= k), for k = 0 .. n
    each = level / (inputs * certified)
    most = int(np.count_nonzero(p <= each)) - 1
    if most < 0:
        of = f"{certified:,} components at " if certified > 1 else ""
        raise InputError(
            f"n={n} draws can refute nothing at level={exact(level)} over {of}{inputs} "
            f"perturbed inputs: use n >= {int(np.ceil(np.log(each) / np.log1p(-least))) + 1}"
        )
    return most


SURE = 0.95
"""With this probability an audit finds what its verdict says that it finds."""


def detectable(n: int, most: int) -> float:
    """The largest probability that n draws reject with probability `SURE`, if up to ``most`` agreeing ones reject.

    >>> round(detectable(1000, 400), 3)
    0.375
    """
    return float(lower_bounds(n, 1 - SURE)[most + 1]) if most < n else 1.0
