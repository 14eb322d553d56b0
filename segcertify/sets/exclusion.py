"""Exclusion: which labels a perturbed component cannot get, so that "road or pavement" takes the place of abstaining.

Proofs are in docs/theory.md. If a class has p_c < 1 - tau at x, then within the radius of tau it has less than 1/2: it
is no majority. At most 1 / (1 - tau) classes of a component have p_c >= 1 - tau, however many classes there are.
"""

import math

import numpy as np

from segcertify.arrays import BoolArray, FloatArray, IntArray
from segcertify.certificate import ABSTAIN
from segcertify.certification import certify_votes
from segcertify.class_counts import added, most_frequent
from segcertify.errors import InputError, require_probability
from segcertify.sets.certificate import SetCertificate
from segcertify.stats.binomial import p_values
from segcertify.stats.correction import PROCEDURES
from segcertify.stats.pilotless import level
from segcertify.votes import Votes


def certify_sets(votes: Votes, *, tau: float, alpha: float, norm: str | None = None) -> SetCertificate:
    """A set of labels for every component, and a certified label where there is one.

    With probability at least 1 - alpha over the draws, for all components and all
    perturbations within ``radius`` at once, the smoothed model's majority label,
    where there is one, is in its set; where a label is certified, it is that label.

    Half of alpha goes to the labels (Holm, as `segcertify.certify_votes`), half to
    the exclusions, for which the draws of a pilot count too. ``votes`` need the
    counts of all classes: ``sample(..., counts=True)``.

    >>> from segcertify.noise import Gaussian
    >>> counts = np.array([[100, 55, 40], [0, 45, 35], [0, 0, 25]])
    >>> votes = Votes(counts.argmax(0), counts.max(0), n=100, n0=0, noise=Gaussian(0.25), counts=counts, classes=3)
    >>> found = certify_sets(votes, tau=0.75, alpha=0.01)
    >>> found.sets.astype(int).tolist(), found.labels.tolist()
    ([[1, 1, 1], [0, 1, 1], [0, 0, 1]], [0, -1, -1])
    """
    tau = require_probability("tau", tau, low=0.5, closed=True)
    alpha = require_probability("alpha", alpha)
    if votes.counts is None:
        raise InputError("sets need the counts of all classes: sample(..., counts=True)")
    correction = label_correction(votes.N, votes.n, tau, alpha, pilot=votes.n0 > 0)
    labels = certify_votes(votes, tau=tau, alpha=alpha / 2, correction=correction, norm=norm)
    counts, draws = votes.counts, votes.n
    if votes.pilot_counts is not None:  # the pilot excludes too: what it chose is tested on other draws
        counts, draws = added(counts, votes.pilot_counts, draws + votes.n0), draws + votes.n0
    sets, least = not_excluded(counts, n=draws, tau=tau, alpha=alpha / 2, classes=votes.classes, mask=votes.mask)
    certified = np.flatnonzero(labels.labels.ravel() != ABSTAIN)
    flat = sets.reshape(len(sets), -1)
    flat[:, certified] = False
    flat[labels.labels.ravel()[certified], certified] = True
    return SetCertificate(
        sets=sets, labels=labels.labels, radius=labels.radius, norm=labels.norm, tau=tau, alpha=alpha,
        correction=correction, n=votes.n, n0=votes.n0, noise=votes.noise, N=votes.N, classes=votes.classes,
        excludes=least <= draws, **votes.provenance,
    )  # fmt: skip


def label_correction(N: int, n: int, tau: float, alpha: float, *, pilot: bool) -> str:
    """How labels are tested at alpha / 2: by Holm, or where its reserve without a pilot takes all, by Bonferroni.

    This depends on nothing that was sampled.
    """
    return "holm" if pilot or level(N, n, tau, alpha / 2, PROCEDURES["holm"]) > 0 else "bonferroni"


def most_true_nulls(tau: float, classes: int | None) -> int:
    """How many classes of a component can have probability 1 - tau or more; ``classes`` is None if not known.

    >>> most_true_nulls(0.75, None), most_true_nulls(0.75, 3), most_true_nulls(0.9, None)
    (4, 3, 10)
    """
    most = math.floor(1 / (1 - tau) * (1 + 1e-12) + 1e-9)  # 1 - tau is exact: only the quotient is rounded
    return most if classes is None else min(classes, most)


def not_excluded(
    counts: IntArray, *, n: int, tau: float, alpha: float, classes: int | None, mask: BoolArray | None = None
) -> tuple[BoolArray, int]:
    """The sets by step-down exclusion at level alpha, and k: a class is excluded where n - k draws or fewer gave it.

    With k = n + 1 nothing is excluded, not even a class that was never seen.
    """
    m, p = most_true_nulls(tau, classes), p_values(n, tau)
    tested = counts.reshape(len(counts), -1) if mask is None else counts[:, mask]
    true_nulls = tested.shape[1] * m  # at most
    while True:
        k = least_count(p, alpha / true_nulls)
        left = int(np.clip(_sizes(tested, n - k), 1, m).sum(dtype=np.int64)) if k <= n else true_nulls
        if left >= true_nulls:
            break
        true_nulls = left
    sets = np.stack([plane > n - k for plane in counts]) if k <= n else np.ones(counts.shape, bool)
    if mask is not None:
        sets[:, ~mask] = True
    np.put_along_axis(sets, most_frequent(counts)[0].astype(np.int64)[None], True, 0)  # a set is never empty
    return sets, k


def least_count(p: FloatArray, at_most: float) -> int:
    """The smallest k with p_k <= at_most, for p-values of k = 0 .. n; n + 1 if there is none."""
    return int(np.count_nonzero(p > at_most))


def _sizes(counts: IntArray, most: int) -> IntArray:
    """How many classes of each component have more than ``most`` draws."""
    sizes = np.zeros(counts.shape[1:], np.int32)
    for plane in counts:
        sizes += plane > most
    return sizes
