"""The most frequent label, tested on the draws that chose it: no pilot (proofs in docs/theory.md).

Of k > n / 2 draws only one label can have so many. Let every label of a component have probability tau at most. Then
some label reaches k with probability b_k(tau) + b_k(1 - tau) at most, where b_k(p) = P(Bin(n, p) >= k). A component
that has a label above tau can err too, by another label: with probability b_k(1 - tau) at most.
"""

from bisect import bisect_left

import numpy as np
from scipy import special

from segcertify.arrays import FloatArray, Histogram
from segcertify.errors import InputError
from segcertify.numerals import exact
from segcertify.stats.binomial import ROUNDING, p_values
from segcertify.stats.correction import Procedure

SUPPORTED = ("holm", "bonferroni")


def pilotless_p_values(n: int, tau: float) -> FloatArray:
    """The p-value of the most frequent label's count k = 0 .. n, rounded up: 1 where k <= n / 2.

    >>> pilotless_p_values(4, 0.75).round(4).tolist()
    [1.0, 1.0, 1.0, 0.7891, 0.3203]
    """
    both = np.minimum(p_values(n, tau) + p_values(n, 1 - tau), 1.0) * (1 + ROUNDING)
    return np.where(2 * np.arange(n + 1) > n, np.minimum(both, 1.0), 1.0)


def tail(n: int, k: int, p: float) -> float:
    """P(Bin(n, p) >= k) for one k >= 1, rounded up as in `p_values`."""
    return max(float(special.betainc(k, n - k + 1, p)) * (1 + ROUNDING), float(np.finfo(float).tiny))


def reserve(N: int, n: int, tau: float, alpha: float) -> float:
    """What Holm must keep of alpha for components that have a label above tau: N b_k1(1 - tau), rounded up.

    k1 is the smallest count that passes at alpha: no step of Holm's accepts less.
    """
    counts = range(n // 2 + 1, n + 1)
    k1 = n // 2 + 1 + bisect_left(counts, True, key=lambda k: tail(n, k, tau) + tail(n, k, 1 - tau) <= alpha)
    return N * tail(n, k1, 1 - tau) * (1 + ROUNDING) if k1 <= n else 0.0


def level(N: int, n: int, tau: float, alpha: float, chosen: Procedure) -> float:
    """The alpha at which a correction is run on `pilotless_p_values`; 0 or less if the reserve takes all of it.

    Bonferroni needs no reserve: b_k(1 - tau) is part of the p-value.
    """
    if chosen.name not in SUPPORTED or chosen.guarantee != "fwer":
        raise InputError(
            f"votes without a pilot (n0=0) are certified by holm or bonferroni, not by {chosen.name!r}, of which no "
            "proof is known here: use one of these, or sample with n0 >= 1"
        )
    return alpha if chosen.name == "bonferroni" else alpha - reserve(N, n, tau, alpha)


def label_threshold(
    counts: Histogram, *, n: int, tau: float, alpha: float, chosen: Procedure, pilot: bool = True
) -> int:  # fmt: skip
    """The smallest agreement count that a correction certifies, n + 1 if none [Fischer2021, FwerControl].

    ``pilot`` says that other draws chose the labels; else they are the most frequent ones of the same draws.
    """
    if pilot:
        return chosen.threshold(counts, p_values(n, tau), alpha)
    left = require_level(int(counts.sum()), n, tau, alpha, chosen)
    return chosen.threshold(counts, pilotless_p_values(n, tau), left)


def require_level(N: int, n: int, tau: float, alpha: float, chosen: Procedure) -> float:
    """`level`; raises `InputError` if nothing is left of alpha."""
    left = level(N, n, tau, alpha, chosen)
    if left <= 0:
        raise InputError(
            f"without a pilot (n0=0), Holm over {N} components at tau={exact(tau)} and n={n} must keep "
            f"{alpha - left:.2g} in reserve, which leaves nothing of alpha={exact(alpha)}: use n0 >= 1, "
            "a larger n or tau, or correction='bonferroni'"
        )
    return left
