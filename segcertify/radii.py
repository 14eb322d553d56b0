"""RadiusMap: a radius of its own for every component, all of which hold at once, and what exactly is claimed."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from segcertify import plain_words
from segcertify.arrays import FloatArray, IntArray
from segcertify.certificate import ABSTAIN
from segcertify.certification import radius_map
from segcertify.claims import Claim, capped_words, looked, seed_assumption
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.noise import Noise
from segcertify.numerals import exact, radius_text
from segcertify.preprocessing import in_words
from segcertify.provenance import Issued, from_header
from segcertify.stats.binomial import lower_bounds
from segcertify.storage import archive
from segcertify.votes import Votes, require_draws

KIND, _VERSION = "radius-map", 1


@dataclass(frozen=True, eq=False)
class RadiusMap(Issued):
    """A label and a radius per component: within its radius the label stays the smoothed model's most likely one.

    With probability at least 1 - alpha over the draws this holds for all components at once. ``labels`` are ABSTAIN
    and ``radii`` 0 where nothing is claimed. No radius exceeds that of ``cap``, a probability that was chosen before
    sampling (None: no cap). Radii are in the units of the input that the noise went on.
    """

    labels: IntArray
    radii: FloatArray
    alpha: float
    n: int
    n0: int
    N: int
    noise: Noise
    norm: str
    cap: float | None = None
    looks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", require_probability("alpha", self.alpha))
        for name in ("n", "n0", "N"):
            require_integer(name, getattr(self, name), at_least=int(name != "n0"))
        require_draws("n", self.n)
        object.__setattr__(self, "looks", tuple(require_integer("a look", time) for time in self.looks))
        radii, labels = np.asarray(self.radii), np.asarray(self.labels)
        if radii.shape != labels.shape or not np.isfinite(radii).all() or radii.min(initial=0.0) < 0:
            raise InputError(f"radii must be finite, not negative, and of the shape of the labels, {labels.shape}")
        if not np.array_equal(radii > 0, labels != ABSTAIN):
            raise InputError("labels must be ABSTAIN exactly where the radius is 0")
        if self.cap is not None:
            object.__setattr__(self, "cap", require_probability("cap", self.cap, low=0.5))
        proven = lower_bounds(self.n, self.alpha / self.N)[-1] if self.cap is None else self.cap
        most = float(self.noise.radius(float(proven), self.norm, self.input_shape))
        if self.radius > most * (1 + 1e-6):  # radii are kept in single precision
            source = f"n={self.n} draws prove" if self.cap is None else f"the cap {exact(self.cap)} allows"
            raise InputError(f"{source} radii up to {most:g}, but one is {self.radius:g}")

    @classmethod
    def of(cls, votes: Votes, *, alpha: float, norm: str | None = None, cap: float | None = None) -> RadiusMap:
        """The map of some votes: `segcertify.radius_map` with what it is about."""
        found = radius_map(votes, alpha=alpha, norm=norm, cap=cap)
        radii = np.nextafter(found.astype(np.float32), np.float32(0))  # rounded down
        return cls(
            np.where(radii > 0, votes.candidate, ABSTAIN), radii, alpha, votes.n, votes.n0, votes.N, votes.noise,
            norm or votes.noise.norm, cap, votes.looks, **votes.provenance,
        )  # fmt: skip

    @property
    def radius(self) -> float:
        """The largest radius of a component."""
        return float(self.radii.max(initial=0.0))

    @property
    def certified(self) -> int:
        """How many components have a radius."""
        return int(np.count_nonzero(self.radii))

    @property
    def claim(self) -> str:
        """What this map says, and what it assumes."""
        if not self.certified:
            return f"Nothing is certified: all {self.N:,} tested components have radius 0, and nothing is claimed."
        capped = "" if self.cap is None else capped_words(self.cap)
        units = in_words(self.preprocessing)
        if self.file_radius is not None:
            units += f" In the units of the file the largest is {radius_text(self.file_radius)}."
        remarks = (capped, looked(self.looks), units, seed_assumption(self.seed_given, before=self.before))
        claimed = Claim(
            "radius map", "fwer", self.alpha, self.noise, self.norm, remarks=" ".join(filter(None, remarks))
        )
        each = f"the {self.certified:,} components of {self.N:,} tested ones that have a radius above 0"
        return claimed.of_map(each, self.radius)

    @property
    def sentence(self) -> str:
        """The same in plain words, with three digits and an example; empty where there are none for it."""
        return plain_words.of_map(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file (safetensors, format ``segcertify.radius-map``)."""
        arrays = {"labels": archive.smallest_integers(self.labels), "radii": np.asarray(self.radii, np.float32)}
        archive.write(path, kind=KIND, version=_VERSION, header=self.to_header(*arrays), arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RadiusMap:
        """Read a file that `save` wrote."""
        header, arrays = archive.read(path, kind=KIND, version=_VERSION)
        try:
            return cls(arrays["labels"].astype(np.int32), arrays["radii"], **from_header(header, cls))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{path} is not a complete radius map ({error}): make it again") from None

    def __repr__(self) -> str:
        return f"RadiusMap({self.noise}, n0={self.n0}, n={self.n}, cap={self.cap}: {self.claim})"
