"""A comparison: two base models and the smoothed one under attack, as in the paper's Figure 1."""

from dataclasses import dataclass

import numpy as np
import torch

from segcertify.arrays import Array, IntArray
from segcertify.attacks.balls import L2
from segcertify.attacks.gradient_ascent import GradientAscent
from segcertify.attacks.projected_gradient import Shifts
from segcertify.attacks.smoothed import Recount, attack_smoothed, recount
from segcertify.certificate import Certificate
from segcertify.errors import InputError, ModelError, require_positive
from segcertify.numerals import exact, percent, radius_text, union_bound
from segcertify.progress import Advance
from segcertify.records.settings import smoothed_steps
from segcertify.sampling.seeds import seed_of_run
from segcertify.sampling.segmenter import Segmenter, base_labels, is_random, raw_output, to_model_dtype


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
        names = "non-robust base model", "robust base model", "smoothed model"
        return dict(zip(names, (self.non_robust, self.robust, self.smoothed), strict=True))

    @property
    def overlays(self) -> dict[str, IntArray]:
        """The labels at the attacked images, by what is said of them."""
        said = {}
        for name, each in self.attacks.items():
            changed = f"{percent(each.flipped / each.clean.size)} of its labels changed"
            kept = f"{each.smoothed.moved:,} of {each.smoothed.certified:,} certified labels moved"
            said[f"{name.split()[0]}, attacked: {kept if each is self.smoothed else changed}"] = each.labels
        return said

    @property
    def verdict(self) -> str:
        """What the smoothed model's fresh draws at the three inputs say of the certificate."""
        counts, certificate = [each.smoothed for each in self.attacks.values()], self.certificate
        moved, refuted = max(each.moved for each in counts), max(each.refuted for each in counts)
        if certificate.certified and not certificate.claimed.certifies:
            some = f"Up to {moved:,} labels have another majority, which is no contradiction:"
            none = "No labelled pixel of the smoothed model moved, under any of the three attacks."
            return f"{some if moved else none} {certificate.claim}"
        if self.radius > certificate.radius:
            proved = radius_text(certificate.radius, 4)
            return f"The attacks went beyond the certified radius of {proved}: there nothing is promised."
        if not certificate.certified:
            return "Nothing is certified: there was nothing to attack in the smoothed model."
        if not moved:
            return "No certified pixel of the smoothed model moved, under any of the three attacks."
        if refuted < certificate.k:
            some = f"{refuted:,} of them significantly, which the claim allows" if refuted else "none significantly"
            return (
                f"Up to {moved:,} certified pixels had another majority, {some}: their probability may be "
                "close to 1/2. Use a larger n to tell."
            )
        return (
            f"Up to {refuted:,} certified pixels moved significantly. The chance of that is at most "
            f"{union_bound(certificate.alpha, 1 + len(counts))}: please report it."
        )


def compare(
    robust: Segmenter, non_robust: Segmenter, x: torch.Tensor, certificate: Certificate, *,
    target: IntArray | None = None, radius: float | None = None, steps: int = 100, loss: str = "cross-entropy",
    restarts: int = 1, draws: int = 8, seed: int | None = None, progress: bool | Advance | None = None,
) -> Comparison:  # fmt: skip
    """Attack two base models on one image x, and the smoothed model of ``robust`` that a certificate is about.

    The base models are attacked away from ``target`` (negative: ignored), by default from their own labels of x. The
    smoothed model is attacked away from its certified labels, in a fifth of the steps, each with ``draws`` noisy
    copies. At all three inputs the smoothed model's labels are counted in as many fresh draws as the certificate took.
    If the certificate abstains everywhere, there is nothing to attack, and x stays as it is.
    """
    if certificate.norm != "l2":
        raise InputError(f"a comparison is in the l2 norm, but the certificate is in {certificate.norm!r}")
    if radius is None and not certificate.radius:
        raise InputError(
            f"tau={exact(certificate.tau)} certifies no radius to attack within: give one, or a larger tau"
        )
    radius = require_positive("radius", certificate.radius if radius is None else radius)
    seed = seed_of_run(seed).value
    ascent = GradientAscent(steps, loss=loss, restarts=restarts, seed=seed)

    def again(found: torch.Tensor) -> Recount:
        return recount(robust, found, certificate, n=certificate.n, seed=seed + 1, progress=progress)

    def attacked(model: Segmenter) -> Attacked:
        found = attack_base(model, x, ascent, radius=radius, target=target, progress=progress)
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


def require_comparable(robust: Segmenter, non_robust: Segmenter, x: torch.Tensor) -> int:
    """The number of classes of two models, which must be the same. Raises `InputError` if one cannot be attacked."""
    classes, others = (_classes(model, x) for model in (robust, non_robust))
    if classes != others:
        raise InputError(f"the robust model has {classes} classes and the non-robust {others}: use two with the same")
    return classes


def _classes(model: Segmenter, x: torch.Tensor) -> int:
    try:
        output = raw_output(model, to_model_dtype(model, x[None]), [0] if is_random(model) else None)
    except RuntimeError as error:  # memory ran out
        raise ModelError.of(error) from error
    if not output.is_floating_point() or output.ndim < 2:
        raise InputError(f"an attack follows gradients and needs logits, but the model gave {output.dtype}")
    return output.shape[1]


def attack_base(
    model: Segmenter, x: torch.Tensor, ascent: GradientAscent, *, radius: float, target: IntArray | None = None,
    progress: bool | Advance | None = None,
) -> torch.Tensor:  # fmt: skip
    """The input that gradient ascent finds for a base model within an l2 radius of one x, as in `compare`."""
    goal = base_labels(model, x) if target is None else target
    labels = torch.from_numpy(np.asarray(goal, np.int64))[None]
    return ascent(model, x[None], labels, Shifts(L2(radius)), valid=labels >= 0, progress=progress).x[0]
