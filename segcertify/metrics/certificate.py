"""MetricCertificate: a bound on a metric that most noisy runs keep under every attack within a radius."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from segcertify import plain_words
from segcertify.arrays import FloatArray
from segcertify.claims import MetricClaim, seed_assumption
from segcertify.errors import InputError, require_not_negative, require_probability
from segcertify.metrics.map_metrics import frozen_values
from segcertify.metrics.planning import probability_needed, ranks, values_left_out
from segcertify.noise import Noise
from segcertify.numerals import lower_value, upper_value
from segcertify.provenance import Issued, from_header
from segcertify.storage import archive

_VERSION = 1


@dataclass(frozen=True, eq=False)
class MetricCertificate(Issued):
    """The values of a metric in n noisy runs, and the bound that they prove.

    With probability at least 1 - alpha over the draws, under every perturbation
    within ``radius``, at least ``share`` of the noisy runs have a metric of ``bound``
    or more (and of ``upper`` or less, if ``two_sided``). It is about the randomised
    predictor "one noisy run", not about the voted map. `claim` says it in words.

    The bound follows from the fields. Metric, radius, share and alpha must have been
    chosen before looking at ``values``, which are in the order of the draws. Several
    metrics may share their draws: each holds at its own alpha, all together at the sum.
    ``radius`` is in the units of the input that the noise went on, as in `segcertify.Certificate`.
    """

    metric: str
    values: FloatArray
    radius: float
    share: float
    alpha: float
    noise: Noise
    norm: str = ""
    two_sided: bool = False
    metric_digest: str = ""
    """Tells the metric from those of the same name with another target; empty if it has none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "radius", require_not_negative("radius", self.radius))
        object.__setattr__(self, "share", require_probability("share", self.share))
        object.__setattr__(self, "alpha", require_probability("alpha", self.alpha))
        object.__setattr__(self, "values", frozen_values(self.values))
        object.__setattr__(self, "norm", self.norm or self.noise.norm)
        _ = self.tau  # refuses a noise or a norm that proves nothing

    @property
    def n(self) -> int:
        """How many noisy runs were made."""
        return len(self.values)

    @cached_property
    def tau(self) -> float:
        """The probability with which a noisy run must keep the bounds at the input itself."""
        return probability_needed(
            self.noise, self.radius, share=self.share, norm=self.norm, input_shape=self.input_shape
        )

    @cached_property
    def _ranks(self) -> tuple[int, int]:
        """The ranks of the bounds, from below and from above; 0 where there is none."""
        left_out = values_left_out(self.n, self.tau, self.alpha, two_sided=self.two_sided)
        return ranks(left_out or 0, two_sided=self.two_sided)

    @cached_property
    def bound(self) -> float | None:
        """The lower bound: the m-th smallest value. None if there are too few draws for one."""
        return float(np.sort(self.values)[self._ranks[0] - 1]) if self._ranks[0] else None

    @cached_property
    def upper(self) -> float | None:
        """The upper bound, if the certificate is two-sided and there are draws enough."""
        return float(np.sort(self.values)[-self._ranks[1]]) if self._ranks[1] else None

    @property
    def claim(self) -> str:
        """What this certificate says, what it is about, and what it assumes."""
        assumed = seed_assumption(self.seed_given, what="input, model and metric", before=self.before)
        remarks = f"{self.units} {assumed}".strip()
        claimed = MetricClaim(self.metric, self.share, self.alpha, self.noise, self.norm, remarks, self.perturbed)
        return claimed.about(self.bound, self.upper, self.claimed_radius)

    @property
    def sentence(self) -> str:
        """The same in plain words, with three digits and an example; empty where there are none for it."""
        return plain_words.of_metric(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file (safetensors, format ``segcertify.metric-certificate``)."""
        arrays = {"values": self.values}
        archive.write(path, kind=KIND, version=_VERSION, header=self.to_header("values"), arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MetricCertificate:
        """Read a file that `save` wrote."""
        header, arrays = archive.read(path, kind=KIND, version=_VERSION)
        try:
            return cls(values=arrays["values"], **from_header(header, cls))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a complete metric certificate ({error}): make it again") from None

    def __repr__(self) -> str:
        found = "no bound" if self.bound is None else f"at least {lower_value(self.bound)}"
        found += "" if self.upper is None else f", at most {upper_value(self.upper)}"
        return f"MetricCertificate({self.metric}: {found}; {self.noise}, n={self.n}: {self.claim})"


KIND = "metric-certificate"
