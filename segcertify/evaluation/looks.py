"""Looks in an evaluation: their times, fixed before sampling, and when the draws of a scene end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from segcertify.errors import InputError, require_probability
from segcertify.looks import Enough, look_times, require_family_wise, require_looks
from segcertify.numerals import exact
from segcertify.records import Configuration, LookSettings, Setting
from segcertify.stats.correction import Procedure
from segcertify.stats.planning import smallest_n
from segcertify.votes import Votes


def look_settings(
    looks: int | Sequence[int], until: float | None, claims: Sequence[Setting], chosen: Sequence[Procedure], *,
    n0: int, alpha: float, N: int, metrics: bool, counts: bool = False,
) -> LookSettings | None:  # fmt: skip
    """The times of the looks of every sigma, None without looks. Raises `InputError` for what is not proven.

    ``counts`` says whether the counts of all classes are kept, for which looks are not proven.
    A number of looks begins where all draws that agree can certify something in a scene of N components.
    """
    if not looks:
        require_looks(1, (), None if until is None else lambda votes: True, n0=n0)
        return None
    if until is not None and not isinstance(until, int | float):
        raise InputError(f"until must be a share of components, which a run can record, but got {until!r:.60}")
    if metrics:
        raise InputError("metrics need all n draws, but looks may stop earlier: evaluate with metrics or with looks")
    if counts:
        raise InputError(
            "looks are not proven for the counts of all classes, which sets need: evaluate with sets or with looks"
        )
    for each in chosen:
        require_family_wise(each)
    count = len(looks) if isinstance(looks, Iterable) else looks
    level, times = require_probability("alpha", alpha) / max(1, count), dict[str, tuple[int, ...]]()
    for sigma in dict.fromkeys(claim.sigma for claim in claims):
        own = [claim for claim in claims if claim.sigma == sigma]
        if len({claim.n for claim in own}) > 1:
            raise InputError(
                f"looks need one n for each sigma, but sigma={exact(sigma)} has the n {sorted({c.n for c in own})}: "
                "evaluate each n in a folder of its own"
            )
        least = min(smallest_n(N, claim.tau, level, each) for claim in own for each in chosen)
        found = look_times(own[0].n, looks, least=least)
        times[exact(sigma)] = require_looks(own[0].n, found, None, n0=n0, counts=counts)
    return LookSettings(times, 1.0 if until is None else float(until))


def enough_for_all(configuration: Configuration, sigma: float) -> Callable[[Votes], bool]:
    """The rule that ends a scene's draws at a look: all claims of a sigma, with all corrections, have enough."""
    until = 1.0 if configuration.looks is None else configuration.looks.until
    rules = [
        Enough(setting.tau, configuration.alpha, until, correction)
        for setting in configuration.settings
        for correction in configuration.corrections
        if setting.sigma == sigma
    ]
    return lambda votes: all(rule(votes) for rule in rules)
