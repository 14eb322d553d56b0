"""Settings: all that decides an evaluation's records, in plain values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from segcertify import __version__
from segcertify.errors import InputError, require_integer, require_positive, require_probability, unknown
from segcertify.votes import require_draws

SETS = ("exclusion", "nested groups", "posterior gap")
"""How sets of labels are certified: the first is ours, the others are baselines that need a tree of classes."""

LOSSES = ("cross-entropy", "segpgd", "cospgd")
"""The names of the losses that an attack can raise: `segcertify.attacks.losses` holds them."""


@dataclass(frozen=True)
class Setting:
    """One claim of the paper's tables: noise, draws and threshold."""

    sigma: float
    n: int
    tau: float

    def __post_init__(self) -> None:
        require_positive("sigma", self.sigma)
        require_draws("n", self.n)
        require_probability("tau", self.tau, low=0.5, closed=True)


def distinct(settings: Sequence[Setting | tuple[float, int, float]]) -> tuple[Setting, ...]:
    """The settings as `Setting` objects. Raises `InputError` if one comes twice."""
    claims = tuple(setting if isinstance(setting, Setting) else Setting(*setting) for setting in settings)
    if len(set(claims)) != len(claims):
        raise InputError(f"settings must all be different, but got {list(settings)}")
    return claims


@dataclass(frozen=True)
class AttackSettings:
    """Projected gradient ascent away from the ground truth, on every scene and at several radii.

    ``radii`` default to the radii that the evaluation certifies, and to twice and
    four times the largest of them. With ``smoothed`` above 0, the smoothed model of
    every sigma is attacked too. That attack takes a fifth of the steps, and each step
    averages gradients over 8 noisy copies. The smoothed model's label is then the
    most frequent among ``smoothed`` fresh draws.
    """

    loss: str = "cross-entropy"
    radii: tuple[float, ...] = ()
    steps: int = 100
    restarts: int = 1
    smoothed: int = 0

    def __post_init__(self) -> None:
        require_loss_name(self.loss)
        radii = tuple(sorted(require_positive("the radius of an attack", radius) for radius in self.radii))
        if len(set(radii)) < len(radii):
            raise InputError(f"the radii of an attack must all be different, but got {list(self.radii)}")
        object.__setattr__(self, "radii", radii)
        require_integer("the steps of an attack", self.steps)
        require_integer("the restarts of an attack", self.restarts)
        require_integer("smoothed", self.smoothed, at_least=0)

    def with_radii(self, certified: Sequence[float], *, largest: float = math.inf) -> AttackSettings:
        """The same settings with radii filled in from the certified ones; none exceeds ``largest``."""
        if self.radii:
            return self
        top = max(certified, default=0.0)
        if not top:
            raise InputError("no setting certifies a radius above 0, within which to attack: give the attack's radii")
        wanted = {min(radius, largest) for radius in (*certified, 2 * top, 4 * top)}
        return replace(self, radii=tuple(wanted - {0.0}))


@dataclass(frozen=True)
class MetricSettings:
    """Metrics of noisy runs to bound, by name (`segcertify.metrics.names`), for a ``share`` of the runs.

    ``radii`` default to that of each setting's tau.
    """

    names: tuple[str, ...]
    share: float = 0.5
    radii: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        if not self.names or len(set(self.names)) < len(self.names):
            raise InputError(f"metrics must be different and at least one, but got {list(self.names)}")
        require_probability("share", self.share)
        radii = tuple(sorted({require_positive("the radius of a metric", radius) for radius in self.radii}))
        object.__setattr__(self, "radii", radii)


@dataclass(frozen=True)
class LookSettings:
    """Looks of an evaluation: their times, fixed before sampling, and the share of components that ends the draws.

    A scene's draws end at the first look at which all claims of its sigma are certified at ``until`` of its components,
    or can gain nothing more (`segcertify.looks`). ``times`` are by sigma, as `segcertify.numerals.exact` writes it.
    """

    times: dict[str, tuple[int, ...]]
    until: float = 1.0

    def __post_init__(self) -> None:
        times = {sigma: tuple(require_integer("a look", time) for time in row) for sigma, row in self.times.items()}
        if any(not row or list(row) != sorted(set(row)) for row in times.values()):
            raise InputError(f"looks must be rising numbers of draws, but are {times}")
        object.__setattr__(self, "times", times)
        if isinstance(self.until, bool) or not isinstance(self.until, int | float) or not 0 < self.until <= 1:
            raise InputError(f"until must be a share of components, above 0 and at most 1, but got {self.until!r:.40}")


def smoothed_steps(steps: int) -> int:
    """The steps of an attack on a smoothed model: a fifth, since each step takes many draws."""
    return max(1, steps // 5)


def require_cap(cap: float) -> float:
    """A probability that caps radius maps."""
    if isinstance(cap, str):
        raise InputError(f"cap must be a number, but is {cap!r:.40}")
    return require_probability("cap", cap, low=0.5)


def require_loss_name(name: str) -> str:
    """The name of a loss that an attack can raise."""
    if name in LOSSES:
        return name
    raise unknown("loss", name, LOSSES, where=" for an attack")


@dataclass(frozen=True)
class Configuration:
    """All that decides an evaluation's records, in plain values; a run's folder stores it.

    ``identity`` describes the model (`segcertify.sampling.identity`), ``categories`` are the classes that clouds of
    each category have, ``scenes`` is a digest of the scenes, ``k`` that of the correction k-fwer. ``noise`` is a name
    (`segcertify.noise.names`), or says what the noise of each sigma is; ``noises`` are those that are drawn, by sigma.
    ``seed_given`` is False if the operating system drew the seed. ``preprocessing`` is what is done to every scene's
    file before the noise (`segcertify.preprocessing`). ``sets`` are ways to certify sets of labels (`SETS`), if any.
    ``cap`` is the probability whose radius no component exceeds in curves over all radii, None without one.
    ``threads`` are those of each process that draws, and ``batch_size`` is what the run began with (None: it is found).
    Both may decide the last bit of a logit; earlier versions did not record them. ``answers`` is a digest of the labels
    that a model gives the first scene, if it has no weights to know it by (None: it has, or an earlier version's).
    """

    model: str
    identity: dict[str, Any]
    data: str
    classes: tuple[str, ...]
    categories: dict[str, tuple[int, ...]]
    scenes: str
    settings: tuple[Setting, ...]
    corrections: tuple[str, ...]
    n0: int
    alpha: float
    seed: int
    noise: str
    precision: str
    device: str
    attack: AttackSettings | None = None
    k: int | None = None
    noises: dict[str, dict[str, Any]] = field(default_factory=dict)
    seed_given: bool = True
    preprocessing: dict[str, Any] | None = None
    metrics: MetricSettings | None = None
    sets: tuple[str, ...] = ()
    looks: LookSettings | None = None
    cap: float | None = None
    threads: int | None = None
    batch_size: int | None = None
    answers: str | None = None
    version: str = __version__

    @property
    def largest_n(self) -> dict[float, int]:
        """The largest n of each sigma, whose draws all its settings share."""
        return {sigma: max(s.n for s in self.settings if s.sigma == sigma) for sigma in self.sigmas}

    @property
    def sigmas(self) -> tuple[float, ...]:
        """The different sigmas, in order."""
        return tuple(dict.fromkeys(setting.sigma for setting in self.settings))
