"""How many draws a metric certificate needs, and how many of them may be worse than the bound."""

from __future__ import annotations

from dataclasses import dataclass

from segcertify.errors import InputError, require_integer, require_probability
from segcertify.noise import Noise, described, is_proven
from segcertify.numerals import exact, exact_percent, radius_text
from segcertify.stats.order_statistics import smallest_count, values_needed


@dataclass(frozen=True)
class MetricPlan:
    """What n draws can say of a metric.

    ``n_min`` is the smallest n that gives a bound (or two), ``left_out`` how many of n
    values lie below the bound or are it (of two: beyond either). The bound of one side
    is the value of that rank. None where n is too small.
    """

    noise: str
    radius: float
    share: float
    alpha: float
    two_sided: bool
    n_min: int
    n: int
    left_out: int | None

    def __str__(self) -> str:
        runs = f"{exact_percent(self.share)} of the noisy runs, {self.noise}, R={radius_text(self.radius)}"
        found = "there is no bound" if self.left_out is None else f"rank {self.left_out:,} is the bound"
        if self.two_sided and self.left_out is not None:
            below, above = ranks(self.left_out, two_sided=True)
            found = f"ranks {below:,} from below and {above:,} from above are the bounds"
        return f"{runs}, alpha={exact(self.alpha)}: smallest n is {self.n_min:,}; at n={self.n:,} {found}"


def plan_metric(
    noise: Noise, radius: float, *, share: float = 0.5, alpha: float = 0.001, two_sided: bool = False,
    n: int | None = None, norm: str | None = None, input_shape: tuple[int, ...] | None = None,
) -> MetricPlan:  # fmt: skip
    """The smallest n that bounds a metric of ``share`` of the noisy runs within ``radius``, and the rank at a given n.

    >>> from segcertify.noise import Gaussian
    >>> [plan_metric(Gaussian(0.25), Gaussian(0.25).radius(tau)).n_min for tau in (0.75, 0.9, 0.95)]
    [25, 66, 135]
    """
    alpha = require_probability("alpha", alpha)
    tau = probability_needed(noise, radius, share=share, norm=norm, input_shape=input_shape)
    n_min = smallest_count(tau, alpha, spare=int(two_sided)) if tau < 1 else None
    if n_min is None:
        raise InputError(
            f"no number of draws bounds a metric for {exact_percent(share)} of the noisy runs within "
            f"R={exact(radius)} under {described(noise)}: choose a smaller radius, a wider noise or a smaller share"
        )
    n = n_min if n is None else require_integer("n", n)
    left_out = values_left_out(n, tau, alpha, two_sided=two_sided)
    return MetricPlan(described(noise), float(radius), float(share), alpha, two_sided, n_min, n, left_out)


def require_bound(
    noise: Noise, radius: float, *, share: float, alpha: float, two_sided: bool, n: int, norm: str | None = None,
    input_shape: tuple[int, ...] | None = None,
) -> None:  # fmt: skip
    """Refuse an n that gives no bound, and say which n would."""
    plan = plan_metric(
        noise, radius, share=share, alpha=alpha, two_sided=two_sided, n=n, norm=norm, input_shape=input_shape
    )
    if plan.left_out is None:
        raise InputError(
            f"n={n} gives no bound for {exact_percent(share)} of the noisy runs within R={exact(radius)} at "
            f"alpha={exact(alpha)}{', on both sides' if two_sided else ''}: use n >= {plan.n_min}"
        )


def probability_needed(
    noise: Noise, radius: float, *, share: float, norm: str | None = None, input_shape: tuple[int, ...] | None = None
) -> float:
    """The probability that an event needs at the input to keep that of ``share`` within ``radius``, rounded up.

    An event that is rarer than q = noise.rare(1 - share, radius) never exceeds
    1 - share, so its complement needs 1 - q. 1 if no probability is enough.
    """
    share = require_probability("share", share)
    if not is_proven(noise):
        raise InputError(
            f"no metric can be certified under {described(noise)}: segcertify knows no proof of what an attack can do "
            "to its probabilities. Use a noise of segcertify, such as Gaussian(0.25)"
        )
    return float(noise.worst(share, radius, norm, input_shape))  # type: ignore[attr-defined]


def ranks(left_out: int, *, two_sided: bool) -> tuple[int, int]:
    """The ranks of the bounds among sorted values, from below and from above; 0 where there is no bound."""
    return ((left_out + 1) // 2, left_out // 2) if two_sided else (left_out, 0)


def values_left_out(n: int, tau: float, alpha: float, *, two_sided: bool) -> int | None:
    """How many of n values a bound leaves out or is, or two bounds together; None if n is too small for any."""
    needed = values_needed(n, tau, alpha) if tau < 1 else None
    if needed is None or (two_sided and needed == n):
        return None
    return n - needed + 1
