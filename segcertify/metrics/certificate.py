"""MetricCertificate: a bound on a metric that most noisy runs keep under every attack within a radius."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from segcertify import __version__
from segcertify.arrays import FloatArray
from segcertify.certificate import utc_now
from segcertify.claims import MetricClaim, seed_assumption
from segcertify.errors import InputError, require_not_negative, require_probability
from segcertify.metrics.map_metrics import frozen_values
from segcertify.metrics.planning import probability_needed, ranks, values_left_out
from segcertify.noise import Noise, from_plain, to_plain
from segcertify.numerals import lower_value, radius_text, upper_value
from segcertify.preprocessing import Preprocessing, in_words, require_plain
from segcertify.storage import archive

_VERSION = 1


@dataclass(frozen=True, eq=False)
class MetricCertificate:
    """The values of a metric in n noisy runs, and the bound that they prove.

    With probability at least 1 - alpha over the draws, under every perturbation
    within ``radius``, at least ``share`` of the noisy runs have a metric of ``bound``
    or more (and of ``upper`` or less, if ``two_sided``). It is about the randomised
    predictor "one noisy run", not about the voted map. `claim` says it in words.

    The bound follows from the fields. Metric, radius, share and alpha must have been
    chosen before looking at ``values``, which are in the order of the draws. Several
    metrics may share their draws: each holds at its own alpha, all together at the sum.
    The last fields identify what the claim is about, as in `segcertify.Certificate`.
    """

    metric: str
    values: FloatArray
    radius: float
    share: float
    alpha: float
    noise: Noise
    norm: str = ""
    two_sided: bool = False
    seed: int | None = None
    input_id: str = ""
    seed_given: bool = True
    input_shape: tuple[int, ...] | None = None
    input_digest: str = ""
    model: Mapping[str, Any] = field(default_factory=dict)
    preprocessing: Preprocessing | None = None
    version: str = __version__
    date: str = field(default_factory=utc_now)
    command: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", require_not_negative("radius", self.radius))
        object.__setattr__(self, "share", require_probability("share", self.share))
        object.__setattr__(self, "alpha", require_probability("alpha", self.alpha))
        object.__setattr__(self, "values", frozen_values(self.values))
        object.__setattr__(self, "norm", self.norm or self.noise.norm)
        object.__setattr__(self, "model", require_plain("model", self.model))
        if self.preprocessing is not None:
            object.__setattr__(self, "preprocessing", require_plain("preprocessing", self.preprocessing))
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
    def threat(self) -> str:
        """The perturbations that the claim is about, in words."""
        return f"{self.noise.threat(self.norm)} at most {radius_text(self.radius)}"

    @property
    def units(self) -> str:
        """What the radius is measured in, in words; empty if the input was not pre-processed."""
        return in_words(self.preprocessing)

    @property
    def claim(self) -> str:
        """What this certificate says, what it is about, and what it assumes."""
        before = "the noise was drawn" if self.seed is None else "the seed was chosen"
        assumed = seed_assumption(self.seed_given, what="input, model and metric", before=before)
        remarks = f"{self.units} {assumed}".strip()
        claimed = MetricClaim(self.metric, self.share, self.alpha, self.noise, self.norm, remarks)
        return claimed.about(self.bound, self.upper, self.radius)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file (safetensors, format ``segcertify.metric-certificate``)."""
        names = [name for name in self.__dataclass_fields__ if name not in ("values", "noise")]
        header = {name: getattr(self, name) for name in names} | {"noise": to_plain(self.noise)}
        archive.write(path, kind=KIND, version=_VERSION, header=header, arrays={"values": self.values})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MetricCertificate:
        """Read a file that `save` wrote."""
        header, arrays = archive.read(path, kind=KIND, version=_VERSION)
        try:
            header["input_shape"] = None if header["input_shape"] is None else tuple(header["input_shape"])
            header["noise"] = from_plain(header["noise"])
            return cls(values=arrays["values"], **header)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a complete metric certificate ({error}): make it again") from None

    def __repr__(self) -> str:
        found = "no bound" if self.bound is None else f"at least {lower_value(self.bound)}"
        found += "" if self.upper is None else f", at most {upper_value(self.upper)}"
        return f"MetricCertificate({self.metric}: {found}; {self.noise}, n={self.n}: {self.claim})"


KIND = "metric-certificate"
