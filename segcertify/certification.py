"""From votes to certificates [Fischer2021, Alg. 2 and section 4]: NumPy and SciPy only."""

import warnings

import numpy as np

from segcertify.arrays import BoolArray, FloatArray, Histogram, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.chunks import by_chunks
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.looks import certified_by_looks, require_family_wise
from segcertify.noise import Noise
from segcertify.stats.binomial import lower_bounds
from segcertify.stats.correction import PROCEDURES, Correction, Procedure, procedure
from segcertify.stats.pilotless import label_threshold
from segcertify.stats.planning import require_certifiable
from segcertify.votes import Votes


def certify_votes(
    votes: Votes,
    *,
    tau: float,
    alpha: float,
    correction: str | Correction = "holm",
    k: int | None = None,
    b: int | None = None,
    norm: str | None = None,
) -> Certificate:
    """Certify all components at one radius: SegCertify [Fischer2021, Alg. 2].

    With probability at least 1 - alpha over the draws, for every component that
    is not ABSTAIN and every perturbation within ``radius``, the smoothed arg-max
    keeps the label: its probability stays above 1/2. (Other corrections claim
    less: see the certificate's ``claim``.) Votes without a pilot (n0 = 0) are
    tested with p-values that allow for it, by Holm and Bonferroni alone.

    Parameters
    ----------
    votes : Votes
        Candidates and agreement counts. Those with L looks are tested at alpha / L at each (`segcertify.looks`).
    tau : float
        Threshold in [1/2, 1) that a label's probability must exceed; the radius follows from it.
    alpha : float
        Allowed probability of error. Choose tau, alpha and the correction before looking.
    correction : str or function
        ``"holm"``, ``"bonferroni"``, ``"k-fwer"`` (with ``k``, or an error budget ``b``), ``"bh"``,
        ``"by"``, or a function ``(histogram, p-values, alpha) -> smallest certified count``.
    norm : str, optional
        The noise's own norm by default; ``"linf"`` for Gaussian noise.

    >>> from segcertify.noise import Gaussian
    >>> votes = Votes(np.array([3, 5]), np.array([100, 70]), n=100, n0=10, noise=Gaussian(0.25))
    >>> certify_votes(votes, tau=0.75, alpha=0.001).labels
    array([ 3, -1], dtype=int32)
    """
    tau = require_probability("tau", tau, low=0.5, closed=True)
    alpha = require_probability("alpha", alpha)
    chosen = procedure(correction, k=k, b=b)
    radius = float(votes.noise.radius(tau, norm, votes.input_shape))
    if votes.looks:
        certified = certified_by_looks(votes, tau=tau, alpha=alpha, chosen=require_family_wise(chosen))
        labels = _labels(votes, certified.view(np.int8), 1)
    else:
        enough = label_threshold(  # FwerControl of BinPValue, one per possible count
            votes.histogram(), n=votes.n, tau=tau, alpha=alpha, chosen=chosen, pilot=votes.n0 > 0
        )
        labels = _labels(votes, votes.agree, enough)
    try:
        require_certifiable(votes.N, tau, votes.level(alpha), chosen, votes.n, pilot=votes.n0 > 0)
    except InputError as hopeless:
        warnings.warn(f"{hopeless} All components abstain.", stacklevel=2)
    return _certificate(votes, labels, radius=radius, norm=norm, tau=tau, alpha=alpha, chosen=chosen)


def radius_map(votes: Votes, *, alpha: float, norm: str | None = None, cap: float | None = None) -> FloatArray:
    """A radius per component, 0 where nothing is certified.

    With probability at least 1 - alpha, for every component i with R_i > 0 at
    once, its candidate stays the smoothed arg-max within R_i. The null hypotheses
    are nested in tau, so a Clopper-Pearson bound at alpha / N covers all
    components and all radii together. (Holm's levels are not valid here.) Without
    a pilot (n0 = 0) the bounds are at alpha / (2 N).

    With ``cap``, a probability in (1/2, 1), no radius exceeds that of the cap, and
    in return the levels are Holm's: components whose bound reaches the cap need no
    further protection. Choose it before looking, such as the tau that you would certify at.
    A cap needs votes with a pilot.
    """
    alpha = require_probability("alpha", alpha)
    if cap is None:
        table = radii_of_counts(votes, alpha=alpha, norm=norm)
    elif not votes.n0:
        raise InputError("a capped radius map needs votes with a pilot, but these have n0=0: leave out the cap")
    else:
        bounds = capped_bounds(votes.histogram(), votes.level(alpha), require_probability("cap", cap, low=0.5))
        table = np.asarray(votes.noise.radius(bounds, norm, votes.input_shape), float)
    radii = table[votes.agree]
    return np.asarray(radii if votes.mask is None else np.where(votes.mask, radii, 0.0))


def radii_of_counts(votes: Votes, *, alpha: float, norm: str | None = None) -> FloatArray:
    """The radius of each count k = 0 .. n in `radius_map` without a cap: (n + 1,)."""
    level = votes.level(alpha) / (1 if votes.n0 else 2)
    return radius_table(votes.noise, n=votes.n, N=votes.N, alpha=level, norm=norm, input_shape=votes.input_shape)


def radius_table(
    noise: Noise, *, n: int, N: int, alpha: float, norm: str | None = None, input_shape: tuple[int, ...] | None = None
) -> FloatArray:
    """The radius that k of n agreeing draws prove, among N tested components, k = 0 .. n: (n + 1,).

    `radius_map` is this table looked up at each component's count: with
    probability at least 1 - alpha all components' radii hold together.
    """
    bounds = lower_bounds(n, alpha / require_integer("N", N))
    return np.asarray(noise.radius(bounds, norm, input_shape), float)


def capped_bounds(counts: Histogram, alpha: float, cap: float) -> FloatArray:
    """Lower bounds on p for k = 0 .. n agreeing draws, none above ``cap``, that hold for all components at once.

    Step down: the bounds are at alpha / U, where U components have a bound below the
    cap; it begins at N and falls. With probability at least 1 - alpha the bounds at
    alpha / |I0| lie strictly below p for all of I0, the components with p <= cap: then
    none of I0 leaves U, and the levels never exceed alpha / |I0| (`docs/theory.md`).
    """
    below = total = int(counts.sum())
    bounds = lower_bounds(len(counts) - 1, alpha / total)
    while 0 < (left := int(counts[bounds < cap].sum())) < below:
        below, bounds = left, lower_bounds(len(counts) - 1, alpha / left)
    return np.minimum(bounds, cap)


def indiv_class(votes: Votes, *, alpha: float, norm: str | None = None) -> Certificate:
    """The baseline IndivClass: Certify on each component at alpha / N [Fischer2021, section 4].

    With probability at least 1 - alpha all labels hold together within the
    smallest of the components' radii. A single component whose bound is not
    above 1/2 makes all abstain. For one component this is Cohen's Certify.
    """
    alpha = require_probability("alpha", alpha)
    if not votes.n0:
        raise InputError("indiv_class needs labels that other draws chose, but these votes have no pilot (n0=0)")
    tested = votes.agree if votes.mask is None else votes.agree[votes.mask]
    bound = float(lower_bounds(votes.n, votes.level(alpha) / votes.N)[tested.min()])  # the smallest lower bound on p_A
    labels = _labels(votes, votes.agree, 0 if bound > 0.5 else votes.n + 1)
    radius = float(votes.noise.radius(bound, norm, votes.input_shape))
    chosen = PROCEDURES["bonferroni"]
    return _certificate(votes, labels, radius=radius, norm=norm, tau=bound, alpha=alpha, chosen=chosen)


def _certificate(
    votes: Votes, labels: IntArray, *, radius: float, norm: str | None, tau: float, alpha: float, chosen: Procedure
) -> Certificate:
    return Certificate(
        labels=labels,
        radius=radius,
        norm=norm or votes.noise.norm,
        tau=tau,
        alpha=alpha,
        correction=chosen.name,
        guarantee=chosen.guarantee,
        n=votes.n,
        n0=votes.n0,
        noise=votes.noise,
        N=votes.N,
        k=chosen.k,
        looks=votes.looks,
        **votes.provenance,
    )


def _labels(votes: Votes, counts: IntArray, enough: int) -> IntArray:
    """The candidates where a count is enough (and tested), ABSTAIN elsewhere: all its bits are set, for an "or"."""
    labels, masks = np.empty(votes.candidate.shape, np.int32), [] if votes.mask is None else [votes.mask]
    enough = min(enough, votes.n + 1)  # a user's correction may give any number

    def fill(labels: IntArray, candidate: IntArray, counts: IntArray, *masks: BoolArray) -> None:
        np.subtract(counts, enough, out=labels)
        np.right_shift(labels, 31, out=labels)  # the sign alone: ABSTAIN below enough, else 0
        for mask in masks:
            np.bitwise_or(labels, mask.view(np.int8) + np.int8(ABSTAIN), out=labels)
        np.bitwise_or(labels, candidate, out=labels)

    by_chunks(fill, labels, votes.candidate, counts, *masks)
    return labels
