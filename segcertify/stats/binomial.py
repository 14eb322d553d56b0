"""BinPValue and LowerConfBnd, one value for each possible agreement count [Fischer2021, Alg. 1 and 2].

All components share n and tau, so a run has only n + 1 different p-values and
n + 1 different confidence bounds. Both are computed once, as a table.
"""

from functools import lru_cache

import numpy as np
from scipy import special

from segcertify.arrays import FloatArray
from segcertify.errors import require_integer, require_probability

ROUNDING = 1e-10
"""Relative margin by which p-values go up and bounds and radii go down.

Larger than the error of the special functions: against mpmath, ``betainc`` is
off by more than 1e-12 and less than 1e-11 for n = 100,000 (`tests/stats/test_binomial.py`).
"""


@lru_cache(maxsize=64)
def p_values(n: int, tau: float) -> FloatArray:
    """P(Bin(n, tau) >= k) for k = 0 .. n, rounded up: BinPValue(k, n, <=, tau) [Fischer2021, Alg. 2].

    Under the null hypothesis p <= tau, a count k is observed with
    ``p_values(n, tau)[k] <= a`` with probability at most a.

    >>> p_values(2, 0.75).round(4).tolist()
    [1.0, 0.9375, 0.5625]
    """
    n = require_integer("n", n)
    tau = require_probability("tau", tau)
    k = np.arange(1, n + 1)
    tail = special.betainc(k, n - k + 1, tau) * (1 + ROUNDING)
    p = np.append(1.0, np.clip(tail, np.finfo(float).tiny, 1.0))
    p = np.maximum.accumulate(p[::-1])[::-1]  # rounding must not disturb the order
    p.flags.writeable = False
    return p


@lru_cache(maxsize=64)
def lower_bounds(n: int, alpha: float) -> FloatArray:
    """Clopper-Pearson lower bounds on p for k = 0 .. n agreeing draws of n, rounded down.

    With probability at least 1 - alpha the bound at the observed count is at
    most p: LowerConfBnd(k, n, 1 - alpha) [Fischer2021, Alg. 1], [Clopper1934].

    >>> lower_bounds(100, 0.001)[[0, 66, 100]].round(3).tolist()
    [0.0, 0.502, 0.933]
    """
    n = require_integer("n", n)
    alpha = require_probability("alpha", alpha)
    k = np.arange(1, n + 1)
    bound = np.nan_to_num(special.betaincinv(k, n - k + 1, alpha), nan=1.0) * (1 - ROUNDING)
    for step in 1e-6 * 2.0 ** np.arange(20):  # the inverse is off for extreme alpha: down until the p-value agrees
        high = ~(special.betainc(k, n - k + 1, bound) <= alpha)
        bound[high] -= step * np.minimum(bound[high], 1 - bound[high])
    bound = np.append(0.0, np.where(special.betainc(k, n - k + 1, bound) <= alpha, bound, 0.0))
    bound.flags.writeable = False
    return bound
