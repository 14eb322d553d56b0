"""How many draws a certificate needs, before any draw is made."""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from segcertify.arrays import FloatArray
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.numerals import exact
from segcertify.stats.binomial import ROUNDING, p_values
from segcertify.stats.correction import Correction, Procedure, procedure
from segcertify.stats.pilotless import label_threshold, level, pilotless_p_values, require_level

LARGEST_N = 10**7


@dataclass(frozen=True)
class Plan:
    """What n draws can certify over N components at tau and alpha.

    ``n_min`` is the smallest n that certifies if every draw agrees, ``tolerates``
    how many of n draws may disagree when all components disagree equally often
    (None where n is too small), ``expected`` the certified fraction to expect
    for the assumed probabilities (None without them).
    """

    N: int
    tau: float
    alpha: float
    correction: str
    n_min: int
    n: int
    tolerates: int | None
    expected: float | None = None

    def __str__(self) -> str:
        setting = f"{self.N:,} components, tau={exact(self.tau)}, alpha={exact(self.alpha)}, {self.correction}"
        if self.tolerates is None:
            verdict = f"n={self.n:,} can certify nothing"
        else:
            verdict = f"n={self.n:,} certifies a component with at most {self.tolerates:,} disagreeing draws"
        fraction = "" if self.expected is None else f"; expected certified fraction {self.expected:.4f}"
        return f"{setting}: smallest n is {self.n_min:,}; {verdict}{fraction}"


def plan(
    N: int,
    tau: float,
    *,
    alpha: float,
    correction: str | Correction = "holm",
    k: int | None = None,
    b: int | None = None,
    n: int | None = None,
    p: float | FloatArray | None = None,
    seed: int = 0,
    n0: int = 10,
) -> Plan:
    """The smallest n that can certify anything, and what a given n tolerates.

    ``p`` is an assumed probability of the candidate label, one for all
    components or an array of values (each then stands for an equal share of
    them): ``expected`` is the mean certified fraction over simulated runs.
    ``n0`` = 0 plans votes without a pilot (holm and bonferroni); any other n0 gives the same plan.

    >>> cityscapes = plan(1024 * 2048, 0.75, alpha=0.001, n=100)
    >>> cityscapes.n_min, cityscapes.tolerates
    (75, 2)
    """
    N = require_integer("N", N)
    tau = require_probability("tau", tau, low=0.5, closed=True)
    alpha = require_probability("alpha", alpha)
    chosen = procedure(correction, k=k, b=b)
    pilot = require_integer("n0", n0, at_least=0) > 0
    n_min = smallest_n(N, tau, alpha, chosen, pilot)
    n = n_min if n is None else require_integer("n", n)
    expected = None
    if p is not None:
        expected = _expected_fraction(N, tau, alpha=alpha, chosen=chosen, n=n, p=p, seed=seed, pilot=pilot)
    return Plan(N, tau, alpha, chosen.name, n_min, n, _tolerated(N, tau, alpha, chosen, n, pilot=pilot), expected)


def certifiable(N: int, tau: float, alpha: float, chosen: Procedure, n: int, *, pilot: bool = True) -> bool:
    """Whether n draws certify anything at all: do they when every draw agrees everywhere?"""
    left = alpha if pilot else level(N, n, tau, alpha, chosen)
    return left > 0 and _certified_together(N, best_p_value(n, tau, pilot), left, chosen)


def best_p_value(n: int, tau: float, pilot: bool = True) -> float:
    """The p-value when all n draws agree, tau^n (without a pilot + (1 - tau)^n), rounded up as in `p_values`."""
    best = tau**n if pilot else tau**n + (1 - tau) ** n
    return max(best * (1 + ROUNDING), float(np.finfo(float).tiny))


def smallest_n(N: int, tau: float, alpha: float, chosen: Procedure, pilot: bool = True) -> int:
    """The smallest n for which `certifiable` holds."""
    n = 1 + bisect_left(range(1, LARGEST_N + 1), True, key=lambda n: certifiable(N, tau, alpha, chosen, n, pilot=pilot))
    if n > LARGEST_N:
        cure = "lower tau" if pilot else "use n0 >= 1, another tau, or correction='bonferroni'"
        raise InputError(f"no n up to {LARGEST_N:,} certifies at tau={exact(tau)}, alpha={exact(alpha)}: {cure}")
    return n


def roomy_n(N: int, tau: float, alpha: float, chosen: Procedure, pilot: bool = True) -> int:
    """A recommended n, a multiple of 10: a fifth of the share 1 - tau of all draws may disagree, at all components.

    The smallest n certifies only where every draw agrees. At tau = 0.75 one draw in 20 may disagree here.

    >>> roomy_n(360 * 480, 0.75, 0.001, procedure("holm"))
    130
    """
    least = smallest_n(N, tau, alpha, chosen, pilot)

    def roomy(tens: int) -> bool:
        tolerated = _tolerated(N, tau, alpha, chosen, 10 * tens, pilot=pilot)
        return tolerated is not None and 5 * tolerated >= 10 * tens * (1 - tau)

    tens = -(-least // 10)
    most = tens
    while not roomy(most):
        most *= 2
    return 10 * (tens + bisect_left(range(tens, most), True, key=roomy))


def require_certifiable(N: int, tau: float, alpha: float, chosen: Procedure, n: int, *, pilot: bool = True) -> None:
    """Refuse an n with which everything would abstain, and say which n would do."""
    if (pilot and chosen.guarantee == "custom") or certifiable(N, tau, alpha, chosen, n, pilot=pilot):
        return
    if not pilot:
        require_level(N, n, tau, alpha, chosen)
    try:
        cure = f"Use n >= {smallest_n(N, tau, alpha, chosen, pilot)}."
    except InputError:
        cure = "Lower tau."
    raise InputError(
        f"n={n} can certify nothing at tau={exact(tau)}, alpha={exact(alpha)} over {N} components ({chosen.name}): "
        f"even if all draws agree, the p-value is {best_p_value(n, tau, pilot):.1e}. {cure}"
    )


def _certified_together(N: int, p: float, alpha: float, chosen: Procedure) -> bool:
    """Whether N components that all have the p-value p are certified."""
    return chosen.threshold(np.array([0, N]), np.array([1.0, p]), alpha) <= 1


def _tolerated(N: int, tau: float, alpha: float, chosen: Procedure, n: int, *, pilot: bool) -> int | None:
    """The most disagreeing draws, the same for all components, that still certify them."""
    table = p_values(n, tau) if pilot else pilotless_p_values(n, tau)
    left = alpha if pilot else level(N, n, tau, alpha, chosen)
    if left <= 0:
        return None
    least = bisect_left(range(n + 1), True, key=lambda count: _certified_together(N, float(table[count]), left, chosen))
    return n - least if least <= n else None


def _expected_fraction(
    N: int, tau: float, *, alpha: float, chosen: Procedure, n: int, p: float | FloatArray, seed: int, runs: int = 64,
    pilot: bool = True,
) -> float:  # fmt: skip
    """Mean certified fraction over simulated runs with independent components."""
    probability = np.atleast_1d(np.asarray(p, float)).ravel()
    if not ((probability >= 0) & (probability <= 1)).all():
        raise InputError(f"p must lie in [0, 1], but got {p!r}")
    values, share = np.unique(np.clip(probability, 1e-12, 1 - 1e-12), return_counts=True)
    tails = np.stack([p_values(n, float(value)) for value in values])
    pmf = share @ -np.diff(tails, append=0.0)
    counts = np.random.default_rng(seed).multinomial(N, pmf / pmf.sum(), size=runs)
    thresholds = [label_threshold(row, n=n, tau=tau, alpha=alpha, chosen=chosen, pilot=pilot) for row in counts]
    return float(np.mean([row[t:].sum() / N for row, t in zip(counts, thresholds, strict=True)]))
