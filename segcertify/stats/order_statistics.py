"""A level that most of a distribution reaches, from n independent values, whatever the distribution is.

The exact binomial test of `segcertify.stats.binomial` once more: of the event that
a value reaches a level, counted at the level that the values themselves give.
Between two order statistics lies as much of a distribution as beyond one, if as
many values are left out in all [Wilks1941]: see `docs/theory.md`.
"""

from bisect import bisect_left

import numpy as np
from scipy import special

from segcertify.stats.binomial import ROUNDING, p_values
from segcertify.stats.planning import LARGEST_N


def values_needed(n: int, tau: float, alpha: float) -> int | None:
    """The smallest k such that k of n values span tau of the distribution; None if n is too small for any k.

    With probability at least 1 - alpha over the values, P(A >= k-th largest) >= tau,
    for any law of A, with or without ties. The same holds of the range of any k
    values that are neighbours in order.

    >>> values_needed(100, 0.75, 0.001), values_needed(24, 0.75, 0.001), values_needed(25, 0.75, 0.001)
    (89, None, 25)
    """
    enough = np.flatnonzero(p_values(n, tau) <= alpha)
    return int(enough[0]) if enough.size else None


def smallest_count(tau: float, alpha: float, *, spare: int = 0) -> int | None:
    """The smallest n whose `values_needed` leave ``spare`` values over; None if no n up to `LARGEST_N` does.

    >>> smallest_count(0.75, 0.001), smallest_count(0.75, 0.001, spare=1)
    (25, 33)
    """
    counts = range(spare + 1, LARGEST_N + 1)
    enough = bisect_left(
        counts, True, key=lambda n: bool(special.betainc(n - spare, spare + 1, tau) * (1 + ROUNDING) <= alpha)
    )
    return counts[enough] if enough < len(counts) else None
