"""Looks: tests at several times of one sampling run, which may then stop early [docs/theory.md, Looks].

The times are fixed before sampling and kept in the votes. Each look tests at alpha / L the components that no
earlier look certified. Any rule may stop the run at a look, also one that depends on the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from segcertify.arrays import BoolArray, IntArray
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.stats.binomial import p_values
from segcertify.stats.correction import Correction, Procedure, procedure
from segcertify.votes import Votes

FAMILY_WISE = ("holm", "bonferroni")
"""The corrections that are proven for looks."""


def look_times(n: int, looks: int | Iterable[int], *, least: int = 0) -> tuple[int, ...]:
    """The times of the looks, the last of which is after n draws.

    A number of looks gives times at equal distances, the first after ``least`` draws (0: after the first part of n).

    >>> look_times(100, 4), look_times(100, 3, least=80), look_times(100, (50, 100))
    ((25, 50, 75, 100), (80, 90, 100), (50, 100))
    """
    n = require_integer("n", n)
    if isinstance(looks, Iterable):
        times = tuple(require_integer("a look", time) for time in looks)
        if not times or list(times) != sorted(set(times)) or times[-1] != n:
            raise InputError(f"looks must be rising numbers of draws, the last of them n={n}, but got {times}")
        return times
    count = require_integer("looks", looks)
    first = min(least, n) if least else -(-n // count)
    times = (n,) if count == 1 else tuple(first + (n - first) * i // (count - 1) for i in range(count))
    if len(set(times)) < count:
        raise InputError(f"{count} looks do not fit between {first} and n={n} draws: use fewer looks, or a larger n")
    return times


def require_looks(
    n: int, looks: int | Iterable[int], until: Callable[[Votes], bool] | None, *, n0: int, counts: bool = False
) -> tuple[int, ...]:
    """The times of the looks of a run, none if it has none. Raises `InputError` for a run that cannot have any."""
    if not looks:
        if until is not None:
            raise InputError("until is asked at looks: give looks too, such as looks=4")
        return ()
    if not n0:
        raise InputError("looks need candidates that are fixed before the first look: use a pilot, such as n0=10")
    if counts:
        raise InputError("looks are not proven for the counts of all classes: sample with counts=True or with looks")
    if until is not None and not callable(until):
        raise InputError(
            f"until={until!r} needs tau and alpha here: use until=segcertify.Enough(tau=0.75, alpha=0.001, share=0.9), "
            "or certify(..., looks=4, until=0.9)"
        )
    return look_times(n, looks)


def require_family_wise(chosen: Procedure) -> Procedure:
    """Refuse corrections that are not proven for looks."""
    if chosen.name not in FAMILY_WISE:
        cure = f"use {' or '.join(FAMILY_WISE)}, or sample without looks"
        raise InputError(f"the correction {chosen.name!r} is not proven for votes with looks: {cure}")
    return chosen


def certified_by_looks(votes: Votes, *, tau: float, alpha: float, chosen: Procedure) -> BoolArray:
    """Where some look certified the candidate, each look at alpha / L among the components that none did before."""
    counts = {time: votes.agree if time == votes.n else votes.earlier[time] for time in votes.looks if time <= votes.n}
    left = np.ones(votes.candidate.shape, bool) if votes.mask is None else votes.mask
    return union_of_looks(counts, left, tau=tau, level=votes.level(alpha), chosen=chosen)


def union_of_looks(
    counts: Mapping[int, IntArray], left: BoolArray, *, tau: float, level: float, chosen: Procedure
) -> BoolArray:
    """Which of the components ``left`` to test some look certifies, from the counts at each look's time, in order."""
    certified = np.zeros(left.shape, bool)
    for time, agree in counts.items():
        if not left.any():
            break
        enough = chosen.threshold(np.bincount(agree[left], minlength=time + 1), p_values(time, tau), level)
        certified |= left & (agree >= enough)
        left = left & ~certified
    return certified


@dataclass(frozen=True)
class Enough:
    """A rule that stops sampling at a look: ``sample(..., looks=4, until=Enough(tau=0.75, alpha=0.001))``.

    It stops if at least ``share`` of the tested components are certified, or if no other one can be certified any
    more, however the draws that remain turn out.
    """

    tau: float
    alpha: float
    share: float = 1.0
    correction: str | Correction = "holm"

    def __post_init__(self) -> None:
        require_probability("tau", self.tau, low=0.5, closed=True)
        require_probability("alpha", self.alpha)
        if not isinstance(self.share, int | float) or not 0 < self.share <= 1:
            raise InputError(f"until must be a share of components, above 0 and at most 1, but got {self.share!r}")

    def __call__(self, votes: Votes) -> bool:
        """Whether the votes so far are enough."""
        now = self._certified(votes)
        return now >= self.share * votes.N or self._certified(best_case(votes)) == now

    def _certified(self, votes: Votes) -> int:
        chosen = require_family_wise(procedure(self.correction))
        return int(certified_by_looks(votes, tau=self.tau, alpha=self.alpha, chosen=chosen).sum())


def best_case(votes: Votes) -> Votes:
    """The votes if all draws that remain agreed everywhere: no outcome certifies a component that this one does not.

    More agreement at every look lowers every p-value, and so leaves fewer components to the next look.
    """
    last, agree = votes.looks[-1], votes.agree
    if votes.n == last:
        return votes
    later = {time: agree + (time - votes.n) for time in votes.looks if votes.n <= time < last}
    earlier, start = {**votes.earlier, **later}, votes.draws[0][0]
    return replace(votes, agree=agree + (last - votes.n), n=last, draws=((start, start + last),), earlier=earlier)
