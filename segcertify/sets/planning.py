"""How many draws sets need, before any draw is made: to exclude a label, and to certify one."""

from bisect import bisect_left
from dataclasses import dataclass

from segcertify.errors import InputError, require_integer, require_probability
from segcertify.numerals import exact
from segcertify.sets.exclusion import label_correction, least_count, most_true_nulls
from segcertify.stats.binomial import p_values
from segcertify.stats.correction import PROCEDURES
from segcertify.stats.planning import LARGEST_N, best_p_value, plan, smallest_n


@dataclass(frozen=True)
class SetPlan:
    """What n draws after a pilot of n0 tell of the sets of N components at tau and alpha.

    ``n_min`` is the smallest n with which anything can be excluded: a label that no draw gave. ``excludes_up_to`` says
    how many of the n0 + n draws may give a label that is excluded, whatever the other components do, and ``at_best``
    if each of them keeps one label alone; None where n is too small. ``n_label`` is the smallest n that can certify a
    label, and ``tolerates`` how many of n draws may then disagree, as in `segcertify.plan`.
    """

    N: int
    tau: float
    alpha: float
    classes: int | None
    n0: int
    n_min: int
    n_label: int
    n: int
    excludes_up_to: int | None
    at_best: int | None
    tolerates: int | None

    def __str__(self) -> str:
        classes = "classes not known" if self.classes is None else f"{self.classes} classes"
        if self.excludes_up_to is None:
            verdict = f"n={self.n:,} can exclude nothing"
        else:
            at_best = f", at best {self.at_best:,}," if self.at_best != self.excludes_up_to else ""
            verdict = f"n={self.n:,} excludes a label that at most {self.excludes_up_to:,}{at_best} draws gave"
        return (
            f"{self.N:,} components, {classes}, tau={exact(self.tau)}, alpha={exact(self.alpha)}, n0={self.n0}: "
            f"smallest n is {self.n_min:,} to exclude a label, {self.n_label:,} to certify one; {verdict}"
        )


def plan_sets(
    N: int, tau: float, *, alpha: float, classes: int | None = None, n: int | None = None, n0: int = 10
) -> SetPlan:
    """How many draws `segcertify.certify_sets` needs; n is by default the smallest that excludes and certifies.

    The n0 draws of a pilot exclude too, if their counts were kept. ``classes`` is None where it is not known.

    >>> found = plan_sets(360 * 480, 0.75, alpha=0.001, classes=11, n=100)
    >>> found.n_min, found.n_label, found.excludes_up_to, found.at_best, found.tolerates
    (64, 69, 3, 4, 3)
    """
    N, n0 = require_integer("N", N), require_integer("n0", n0, at_least=0)
    tau, alpha = require_probability("tau", tau, low=0.5, closed=True), require_probability("alpha", alpha)
    m = most_true_nulls(tau, None if classes is None else require_integer("classes", classes))
    draws = _smallest_that_excludes(N * m, tau, alpha / 2)
    n_label = _smallest_that_certifies(N, tau, alpha, pilot=n0 > 0)
    n_min = max(1, draws - n0)
    n = max(n_min, n_label) if n is None else require_integer("n", n)
    correction = label_correction(N, n, tau, alpha, pilot=n0 > 0)
    tolerates = plan(N, tau, alpha=alpha / 2, correction=correction, n=n, n0=n0).tolerates
    sure, best = None, None
    if n + n0 >= draws:
        p = p_values(n + n0, tau)
        sure, best = (n + n0 - least_count(p, alpha / 2 / nulls) for nulls in (N * m, N))
    return SetPlan(N, tau, alpha, classes, n0, n_min, n_label, n, sure, best, tolerates)


def _smallest_that_excludes(nulls: int, tau: float, alpha: float) -> int:
    """The fewest draws of which none gives a label that is then excluded: tau^n <= alpha / nulls."""
    draws = 1 + bisect_left(range(1, LARGEST_N + 1), True, key=lambda n: best_p_value(n, tau) <= alpha / nulls)
    if draws > LARGEST_N:
        raise InputError(
            f"no n up to {LARGEST_N:,} excludes a label at tau={exact(tau)}, alpha={exact(alpha)}: lower tau"
        )
    return draws


def _smallest_that_certifies(N: int, tau: float, alpha: float, *, pilot: bool) -> int:
    """The smallest n that certifies a label at alpha / 2, by the correction that it then has."""
    n = smallest_n(N, tau, alpha / 2, PROCEDURES["bonferroni"], pilot)
    chosen = label_correction(N, n, tau, alpha, pilot=pilot)
    return smallest_n(N, tau, alpha / 2, PROCEDURES[chosen], pilot)
