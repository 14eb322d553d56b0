"""Attacks on a smoothed model, aimed at what a certificate claims: they should fail."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import binom

from segcertify.arrays import IntArray
from segcertify.attacks.balls import ball_of
from segcertify.attacks.gradient_ascent import Attack, GradientAscent, Threat
from segcertify.attacks.loss_and_gradient import NoisyCopies
from segcertify.attacks.projected_gradient import Box, Shifts
from segcertify.attacks.rotations import Rotations
from segcertify.certificate import Certificate
from segcertify.errors import InputError, require_integer
from segcertify.noise import AxisRotation, Gaussian, Noise, Rotation
from segcertify.progress import Advance
from segcertify.sampling.inputs import Input, working_device
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.smooth import Smooth


def attack_smoothed(
    model: Segmenter, x: Input, certificate: Certificate, *, radius: float | None = None, draws: int = 8,
    steps: int = 50, step_size: float | None = None, loss: str = "cross-entropy", restarts: int = 1,
    box: Box | None = (0.0, 1.0), batch_size: int | None = None, seed: int = 0, progress: bool | Advance | None = None,
) -> Attack:  # fmt: skip
    """Move one input x within a certificate's radius so that its certified labels are no longer the most likely.

    Gradients are averaged over ``draws`` fresh draws of the certificate's noise at every step (expectation over noise),
    ``batch_size`` at a time. ``radius`` is the certificate's by default: beyond it nothing is claimed. ``moved`` counts
    certified components with another majority among those few draws, which happens by chance too: `recount` draws many.
    ``box`` is not for rotations; other arguments are those of `pgd`.
    """
    draws, x = require_integer("draws", draws), torch.as_tensor(x, device=working_device(None, model, x))
    radius = certificate.radius if radius is None else radius
    if not certificate.certified or not radius:
        raise InputError(f"nothing to attack: {certificate.certified} components are certified, at radius {radius:g}")
    noise = certificate.noise
    noise.check(tuple(x.shape))
    labels = torch.from_numpy(np.asarray(certificate.labels, np.int64))[None]
    threat = noise_threat(noise, radius, x, norm=certificate.norm, box=box)
    copies = NoisyCopies(noise, draws, require_integer("batch_size", batch_size or draws), seed)
    ascent = GradientAscent(steps, step_size, loss, restarts, seed)
    return ascent(model, x[None], labels, threat, valid=labels >= 0, copies=copies, progress=progress)


@dataclass(frozen=True)
class Recount:
    """The labels of a smoothed model at another input, compared with what a certificate certified.

    ``moved`` have another most frequent label among n draws. ``refuted`` are those
    whose certified label came up so rarely that its probability is at most 1/2, at
    level alpha for all together (Bonferroni): within the radius none should be.
    """

    n: int
    certified: int
    moved: int
    refuted: int
    labels: IntArray
    """The most frequent label of every component."""


def recount(
    model: Segmenter, x: Input, certificate: Certificate, *, n: int = 100, seed: int | None = None,
    batch_size: int | None = None, progress: bool | Advance | None = None,
) -> Recount:  # fmt: skip
    """Count the smoothed model's labels at x in n draws that neither the certificate nor an attack used."""
    smooth = Smooth(model, certificate.noise, seed=seed, batch_size=batch_size)
    counts = smooth.counts(x, n=n, input_id=f"recount {certificate.input_id}", progress=progress)
    claimed = ~certificate.abstained
    if counts.shape[1:] != claimed.shape:
        raise InputError(f"the certificate is for components {claimed.shape}, but the model has {counts.shape[1:]}")
    wanted, seen = certificate.labels[claimed], counts[:, claimed]
    agree = np.where(wanted < len(seen), seen[np.minimum(wanted, len(seen) - 1), np.arange(len(wanted))], 0)
    rare = binom.cdf(agree, n, 0.5) <= certificate.alpha / max(1, len(wanted))
    labels = counts.argmax(0)
    return Recount(n, len(wanted), int((labels[claimed] != wanted).sum()), int(rare.sum()), labels)


def noise_threat(
    noise: Noise, radius: float, x: torch.Tensor, *, norm: str | None = None, box: Box | None = (0.0, 1.0)
) -> Threat:
    """What certificates of a noise speak of, within a radius and in a norm (its own by default).

    ``box`` bounds the numbers of inputs to which a shift is added; rotations have none.
    """
    if isinstance(noise, AxisRotation | Rotation):
        return Rotations(radius, getattr(noise, "axis", None), noise.vectors)
    free = None
    if isinstance(noise, Gaussian) and noise.channels is not None:
        free = torch.zeros_like(x).index_fill_(noise.axis, torch.tensor(noise.channels, device=x.device), 1)
    return Shifts(ball_of(norm or noise.norm, radius), box, free)
