"""Certificate: labels that provably hold within a radius, or abstentions, and what exactly is claimed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import get_args

import numpy as np

from segcertify.arrays import BoolArray, IntArray
from segcertify.claims import Claim, seed_assumption
from segcertify.errors import InputError, require_integer, require_probability
from segcertify.noise import Noise, from_plain, to_plain
from segcertify.numerals import exact
from segcertify.stats.correction import PROCEDURES, Guarantee
from segcertify.storage import archive

ABSTAIN = -1
"""The label of a component about which nothing is claimed."""

_VERSION = 1


@dataclass(frozen=True, eq=False)
class Certificate:
    """A label per component that no perturbation within ``radius`` can change, or ABSTAIN.

    `claim` says in words what holds, with what probability. ``N`` is the number
    of components tested; what a mask left out abstains. ``seed_given`` is False if
    the operating system drew the seed; files of earlier versions do not say, and
    their seeds were all given.
    """

    labels: IntArray
    radius: float
    norm: str
    tau: float
    alpha: float
    correction: str
    guarantee: Guarantee
    n: int
    n0: int
    noise: Noise
    N: int
    k: int = 1
    seed: int | None = None
    input_id: str = ""
    seed_given: bool = True

    def __post_init__(self) -> None:
        require_probability("alpha", self.alpha)
        require_integer("N", self.N)
        require_integer("k", self.k)
        if self.guarantee not in get_args(Guarantee):
            raise InputError(f"unknown guarantee {self.guarantee!r}: expected one of {get_args(Guarantee)}")
        if self.correction in PROCEDURES and PROCEDURES[self.correction].guarantee != self.guarantee:
            raise InputError(f"the correction {self.correction!r} does not give the guarantee {self.guarantee!r}")
        proved = self.noise.radius(self.tau)  # in the noise's own norm; l-inf radii are smaller
        if not 0 <= self.radius <= proved * (1 + 1e-9):
            raise InputError(f"{self.noise} proves a radius of {proved:g} at tau={self.tau:g}, not {self.radius!r}")

    @property
    def abstained(self) -> BoolArray:
        """Where nothing is claimed."""
        return np.asarray(self.labels == ABSTAIN)

    @property
    def certified(self) -> int:
        """How many components have a label."""
        return int(np.count_nonzero(self.labels != ABSTAIN))

    @property
    def claim(self) -> str:
        """What this certificate says, in one sentence, and what it assumes."""
        certified = f"{self.certified:,} certified of {self.N:,} tested components"
        return self.claim_about(f"the {certified}")

    def claim_about(self, certified: str) -> str:
        """The same about the certified components under another name."""
        vacuous = self.guarantee == "k-fwer" and self.certified < self.k
        words = self.claimed.about(certified, self.radius)
        return f"{words} (Fewer than that are certified: nothing is claimed.)" if vacuous else words

    @property
    def claimed(self) -> Claim:
        """The guarantee and the noise, without labels and radius: all that decides the words of a claim."""
        before = "the noise was drawn" if self.seed is None else "the seed was chosen"
        remarks = seed_assumption(self.seed_given, before=before)
        return Claim(self.correction, self.guarantee, self.alpha, self.noise, self.norm, self.k, remarks)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file (safetensors, format ``segcertify.certificate``)."""
        header = {name: value for name, value in vars(self).items() if name not in ("labels", "noise")}
        header["noise"] = to_plain(self.noise)
        arrays = {"labels": archive.smallest_integers(self.labels)}
        archive.write(path, kind="certificate", version=_VERSION, header=header, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a file that `save` wrote."""
        header, arrays = archive.read(path, kind="certificate", version=_VERSION)
        try:
            header["noise"] = from_plain(header["noise"])
            return cls(arrays["labels"].astype(np.int32), **header)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a complete certificate file ({error}): make it again") from None

    def __repr__(self) -> str:
        made = f"{self.noise}, n0={self.n0}, n={self.n}, tau={exact(self.tau)}, {self.correction}"
        return f"Certificate({made}: {self.claim})"
