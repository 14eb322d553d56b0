"""Certified rates of an oracle that errs at random [Fischer2021, section 6.1].

The base model sees no data: over two classes it errs with probability gamma on each component, and 5 gamma on the k
noisy ones. Its errors are drawn here; candidates, counts and certificates are made as for any model.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence
from scipy.stats import binom

from segcertify.arrays import Array, BoolArray, FloatArray, IntArray
from segcertify.certification import certify_votes, indiv_class
from segcertify.noise import Gaussian
from segcertify.stats.binomial import p_values
from segcertify.stats.correction import Procedure, procedure
from segcertify.votes import Votes

Rates = dict[str, float]
"""The certified rate of each method."""

METHODS = ("JointClass", "IndivClass", "SegCertifyBon", "SegCertifyHolm")
CORRECTIONS = {"SegCertifyBon": "bonferroni", "SegCertifyHolm": "holm"}
BUDGETS: dict[str, Callable[[int], int]] = {
    "b = 0": lambda N: 0,
    "b = 1": lambda N: 1,
    "b = 2": lambda N: 2,
    "b = 4": lambda N: 4,
    "b = N/1000": lambda N: N // 1000,
    "b = N/100": lambda N: N // 100,
}
"""The error budget b for N components, by name."""

_UNUSED_NOISE = Gaussian(1.0)  # the oracle looks at no data: only the radius, not shown here, depends on it


class Case(NamedTuple):
    """The tau and the number k of noisy components in the experiment against N."""

    tau: float
    k: int


CASES = {"text": Case(tau=0.75, k=0), "code": Case(tau=0.90, k=1)}
"""What the paper's text says, and what its released code does."""


@dataclass(frozen=True)
class Settings:
    """The experiments' sizes: the paper's by default. n0 = n, and k is the number of noisy components.

    Against gamma: ``gammas``, ``draws`` (each n in turn), ``N``, ``tau``, ``alpha``. Against N: ``gamma``, ``Ns``,
    ``n``, ``alphas`` (the first also for Holm against Bonferroni), with each of `CASES`.
    """

    gammas: tuple[float, ...] = tuple(i / 1000 for i in range(101))
    draws: tuple[int, ...] = (100, 1000)
    N: int = 100
    k: int = 1
    tau: float = 0.75
    alpha: float = 0.001
    gamma: float = 0.05
    Ns: tuple[int, ...] = tuple(int(N) for N in np.geomspace(10, 10**6, 26).round())
    n: int = 1000
    alphas: tuple[float, ...] = (0.1, 0.001)
    repetitions: int = 600


QUICK = Settings(gammas=tuple(i / 200 for i in range(21)), Ns=(10, 100, 1000, 10_000), repetitions=20)
"""Every figure in a few seconds, with fewer points and repetitions."""


# Against gamma: every draw is simulated.


def rates_at_gamma(gamma: float, n: int, *, settings: Settings, seed: SeedSequence) -> Rates:
    """Mean certified rate of each method at one gamma, with n0 = n."""
    generator = Generator(SFC64(seed))
    error = error_rates(gamma, settings.N, k=settings.k).astype(np.float32)
    room = np.empty((n, settings.N), np.float32)  # written again by every draw
    repeated = [_rates_once(error, room, settings=settings, generator=generator) for _ in range(settings.repetitions)]
    return {method: float(np.mean([rates[method] for rates in repeated])) for method in METHODS}


def error_rates(gamma: float, N: int, *, k: int) -> FloatArray:
    """gamma for N - k components and 5 gamma, at most 1, for the k noisy ones."""
    return np.append(np.full(N - k, gamma), np.full(k, min(5 * gamma, 1.0)))


def _rates_once(error: Array, room: Array, *, settings: Settings, generator: Generator) -> Rates:
    """The certified rates of one repetition, from n0 = n draws and n further draws."""
    truth = generator.integers(2, size=len(error))
    first, second = (generator.random(dtype=np.float32, out=room) >= error for _ in range(2))
    votes = oracle_votes(first, second, truth=truth)
    rates = {
        "JointClass": indiv_class(joint_votes(first, second), alpha=settings.alpha).certified,
        "IndivClass": indiv_class(votes, alpha=settings.alpha).certified / votes.N,
    }
    for method, correction in CORRECTIONS.items():
        certificate = certify_votes(votes, tau=settings.tau, alpha=settings.alpha, correction=correction)
        rates[method] = certificate.certified / votes.N
    return rates


def oracle_votes(first: BoolArray, second: BoolArray, *, truth: IntArray) -> Votes:
    """Majority of the first draws, ties to label 0, and how many of the second agree.

    ``first`` (n0, N) and ``second`` (n, N) say where the oracle is right; ``truth`` is 0 or 1.
    """
    n0, n = len(first), len(second)
    right = first.sum(axis=0, dtype=np.int32)
    ones = np.where(truth == 1, right, n0 - right)
    candidate = (2 * ones > n0).astype(np.int32)
    right = second.sum(axis=0, dtype=np.int32)
    return Votes(candidate, np.where(candidate == truth, right, n - right), n=n, n0=n0, noise=_UNUSED_NOISE)


def joint_votes(first: BoolArray, second: BoolArray) -> Votes:
    """The whole label map as the one component: the most frequent map of the first draws, the first seen among equals.

    With two classes two maps are equal exactly where the oracle is right on the same components.
    """
    packed = [np.packbits(right, axis=1) for right in (first, second)]
    candidates, maps = (rows.view(f"V{rows.shape[1]}").ravel().tolist() for rows in packed)  # a map in bytes
    agree = maps.count(Counter(candidates).most_common(1)[0][0])
    return Votes(np.array(0), np.array(agree), n=len(second), n0=len(first), noise=_UNUSED_NOISE)


# Against N: components are independent, so their histogram of counts is drawn at once.


def rates_at_N(N: int, settings: Settings, *, seed: SeedSequence) -> Rates:
    """Mean certified rate for N components, for each case and method, and each case, alpha and budget."""
    generator = Generator(SFC64(seed))
    shape = {"n": settings.n, "repetitions": settings.repetitions}
    counts = {k: histograms(N, settings.gamma, k=k, **shape, generator=generator) for k in (0, settings.k)}
    rates = {}
    for name, case in CASES.items():
        for method, correction in CORRECTIONS.items():
            chosen = procedure(correction)
            rates[f"{name} {method}"] = _rate(counts[case.k], chosen, tau=case.tau, alpha=settings.alphas[0])
        for budget, b in BUDGETS.items():
            chosen = procedure("k-fwer", b=b(N))
            for alpha in settings.alphas:
                rates[f"{name} {alpha:g} {budget}"] = _rate(counts[settings.k], chosen, tau=case.tau, alpha=alpha)
    return rates


def histograms(N: int, gamma: float, *, k: int, n: int, repetitions: int, generator: Generator) -> IntArray:
    """How many of N components, k of them noisy, have 0 .. n agreeing draws: (repetitions, n + 1), with n0 = n."""
    usual = generator.multinomial(N - k, agreement_law(gamma, n), size=repetitions)
    return usual + generator.multinomial(k, agreement_law(min(5 * gamma, 1.0), n), size=repetitions)


def agreement_law(error: float, n: int) -> FloatArray:
    """P(j of n draws agree with the candidate), j = 0 .. n, for a candidate from n0 = n draws.

    The candidate is wrong if less than half of its draws are right, and for a random truth in half of the ties.
    """
    j = np.arange(n + 1)
    right = binom.pmf(j, n, 1 - error)
    wrong = right @ ((2 * j < n) + 0.5 * (2 * j == n))
    law = (1 - wrong) * right + wrong * right[::-1]
    return np.asarray(law / law.sum())


def _rate(counts: IntArray, chosen: Procedure, *, tau: float, alpha: float) -> float:
    """The mean certified rate over histograms (repetitions, n + 1)."""
    p = p_values(counts.shape[1] - 1, tau)
    certified = [row[chosen.threshold(row, p, alpha) :].sum() for row in counts]
    return float(np.sum(certified) / counts.sum())
