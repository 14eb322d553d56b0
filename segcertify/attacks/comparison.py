"""A comparison: two base models and the smoothed one under attack, as in the paper's Figure 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from segcertify.arrays import Array, IntArray
from segcertify.attacks.balls import L2
from segcertify.attacks.projected_gradient import pgd
from segcertify.attacks.smoothed import Recount, attack_smoothed, recount
from segcertify.certificate import Certificate
from segcertify.errors import InputError, require_positive
from segcertify.progress import Advance
from segcertify.records.settings import smoothed_steps
from segcertify.sampling.segmenter import Segmenter, base_labels


@dataclass(frozen=True, eq=False)
class Attacked:
    """One attack: the input it found, the attacked model's labels there and without attack, the smoothed model's."""

    x: Array
    clean: IntArray
    labels: IntArray
    smoothed: Recount

    @property
    def flipped(self) -> int:
        """How many components the attack changed."""
        return int(np.count_nonzero(self.clean != self.labels))


@dataclass(frozen=True, eq=False)
class Comparison:
    """The attacks on the non-robust base model, on the robust one, and on what is certified."""

    non_robust: Attacked
    robust: Attacked
    smoothed: Attacked
    certificate: Certificate
    radius: float

    @property
    def attacks(self) -> dict[str, Attacked]:
        """By the model that was attacked."""
        return {
            "non-robust base model": self.non_robust,
            "robust base model": self.robust,
            "smoothed model": self.smoothed,
        }


def compare(
    robust: Segmenter,
    non_robust: Segmenter,
    x: torch.Tensor,
    certificate: Certificate,
    *,
    target: IntArray | None = None,
    radius: float | None = None,
    steps: int = 100,
    loss: str = "cross-entropy",
    restarts: int = 1,
    draws: int = 8,
    seed: int = 0,
    progress: bool | Advance | None = None,
) -> Comparison:
    """Attack two base models on one image x, and the smoothed model of ``robust`` that a certificate is about.

    The base models are attacked away from ``target`` (negative: ignored), by default
    from their own labels of x. The smoothed model is attacked away from its certified
    labels, in a fifth of the steps, each with ``draws`` noisy copies. At all three inputs
    the smoothed model's labels are counted in as many fresh draws as the certificate took.
    If the certificate abstains everywhere, there is nothing to attack, and x stays as it is.
    """
    if certificate.norm != "l2":
        raise InputError(f"a comparison is in the l2 norm, but the certificate is in {certificate.norm!r}")
    if radius is None and not certificate.radius:
        raise InputError(f"tau={certificate.tau:g} certifies no radius to attack within: give one, or a larger tau")
    radius = require_positive("radius", certificate.radius if radius is None else radius)

    def again(found: torch.Tensor) -> Recount:
        return recount(robust, found, certificate, n=certificate.n, seed=seed + 1, progress=progress)

    def attacked(model: Segmenter) -> Attacked:
        found = attack_base(
            model, x, target=target, radius=radius, steps=steps, loss=loss, restarts=restarts, seed=seed,
            progress=progress,
        )  # fmt: skip
        return Attacked(found.cpu().numpy(), base_labels(model, x), base_labels(model, found), again(found))

    before = attacked(non_robust), attacked(robust)
    found = x
    if certificate.certified:
        found = attack_smoothed(
            robust, x, certificate, radius=radius, draws=draws, steps=smoothed_steps(steps), loss=loss,
            restarts=restarts, seed=seed, progress=progress,
        ).x[0]  # fmt: skip
    votes, clean = again(found), again(x)
    return Comparison(*before, Attacked(found.cpu().numpy(), clean.labels, votes.labels, votes), certificate, radius)


def attack_base(
    model: Segmenter,
    x: torch.Tensor,
    *,
    radius: float,
    target: IntArray | None = None,
    steps: int = 100,
    loss: str = "cross-entropy",
    restarts: int = 1,
    seed: int = 0,
    progress: bool | Advance | None = None,
) -> torch.Tensor:
    """The input that `pgd` finds for a base model within an l2 radius of one x, as in `compare`."""
    goal = base_labels(model, x) if target is None else target
    labels = torch.from_numpy(np.asarray(goal, np.int64))[None]
    return pgd(
        model, x[None], labels, L2(radius), valid=labels >= 0, steps=steps, loss=loss, restarts=restarts, seed=seed,
        progress=progress,
    ).x[0]  # fmt: skip
