"""Certificate: labels that provably hold within a radius, or abstentions, and what exactly is claimed."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from segcertify import plain_words
from segcertify.arrays import BoolArray, IntArray
from segcertify.chunks import by_chunks
from segcertify.claims import Claim, looked, seed_assumption
from segcertify.errors import InputError, require_integer, require_not_negative, require_probability
from segcertify.noise import Gaussian, Noise
from segcertify.numerals import exact, radius_text
from segcertify.provenance import Issued, from_header
from segcertify.stats.correction import K_FWER, PROCEDURES, Guarantee
from segcertify.storage import archive
from segcertify.votes import require_draws

ABSTAIN = -1
"""The label of a component about which nothing is claimed."""

_VERSION = 2


@dataclass(frozen=True, eq=False)
class Certificate(Issued):
    """A label per component that no perturbation within ``radius`` can change, or ABSTAIN.

    `claim` says in words what holds, with what probability. ``N`` is the number
    of components tested; what a mask left out abstains. ``radius`` is in the units of
    the input that the noise went on, `input_radius` in those of the file it came from.

    ``looks`` are the times of tests, if there were several: n, the draws used, is one
    of them. The fields of `Issued` identify what the claim is about. In files of format
    version 1 they are unknown: all are empty, and all seeds were given.
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
    looks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_probability("alpha", self.alpha)
        require_probability("tau", self.tau, closed=True)
        require_not_negative("radius", self.radius)
        for name in ("n", "n0", "N", "k"):
            require_integer(name, getattr(self, name), at_least=int(name != "n0"))  # n0 = 0: no pilot
        require_draws("n", self.n)
        for name in ("norm", "correction"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name} must be a text, but got {getattr(self, name)!r:.100}")
        self._require_labels()
        self._require_guarantee()
        self._require_looks()
        proved = self._proved_radius()
        if not 0 <= self.radius <= proved * (1 + 1e-9):
            raise InputError(
                f"{self.noise} proves a radius of {radius_text(proved)} in {self.norm} norm at tau={exact(self.tau)}, "
                f"not {self.radius!r}: make the certificate with certify_votes(votes, tau=..., norm={self.norm!r})"
            )

    def _require_looks(self) -> None:
        """Looks are rising numbers of draws, and the last that was taken is at n."""
        looks = tuple(require_integer("a look", time) for time in self.looks)
        if looks and (list(looks) != sorted(set(looks)) or self.n not in looks):
            raise InputError(f"looks must rise, and n={self.n} be one of them, but they are at {looks} draws")
        object.__setattr__(self, "looks", looks)

    def _require_labels(self) -> None:
        """Labels are classes or ABSTAIN, and no more components have a class than were tested."""
        if self.labels.dtype.kind not in "iu":
            raise InputError(f"labels must be integers, but are {self.labels.dtype}")
        if self.labels.size < self.N:
            raise InputError(f"N={self.N} components cannot have been tested of {self.labels.size}")
        found = by_chunks(lambda chunk: (int(chunk.min()), int(chunk.max()), _certified(chunk)), self.labels)
        lows, highs, certified = zip(*found, strict=True)
        low, high, most = min(lows), max(highs), np.iinfo(np.int32).max
        if low < ABSTAIN or high > most:
            raise InputError(f"labels must be from {ABSTAIN} to {most}, but are from {low} to {high}")
        if sum(certified) > self.N:
            raise InputError(f"{sum(certified)} components are certified, but only N={self.N} were tested")

    def _require_guarantee(self) -> None:
        """The correction gives the guarantee, and k belongs to it."""
        if self.guarantee not in get_args(Guarantee):
            raise InputError(f"unknown guarantee {self.guarantee!r}: expected one of {get_args(Guarantee)}")
        known = {name: each.guarantee for name, each in PROCEDURES.items()} | {K_FWER: K_FWER}
        if known.get(self.correction, "custom") != self.guarantee:
            raise InputError(f"the correction {self.correction!r} does not give the guarantee {self.guarantee!r}")
        if self.k > 1 and self.guarantee != K_FWER:
            raise InputError(f"k={self.k} is for the guarantee {K_FWER!r}, but this is {self.guarantee!r}")
        if self.k > self.N:
            raise InputError(f"k-FWER with k={self.k} claims nothing over N={self.N} components")

    def _proved_radius(self) -> float:
        """The radius that noise, norm, tau and input shape prove."""
        if not self.norm:
            raise InputError(f"a radius needs the name of its norm, but got {self.norm!r}")
        if isinstance(self.noise, Gaussian) and self.norm == "linf" and self.input_shape is None and not self.version:
            return self.noise.radius(self.tau) / math.sqrt(2)  # of files without the shape: of two entries or more
        return self.noise.radius(self.tau, self.norm, self.input_shape)

    @property
    def abstained(self) -> BoolArray:
        """Where nothing is claimed."""
        return np.asarray(self.labels == ABSTAIN)

    @property
    def certified(self) -> int:
        """How many components have a label."""
        return sum(by_chunks(_certified, self.labels))

    @property
    def claim(self) -> str:
        """What this certificate says: one sentence, what it assumes, and what its radius is about."""
        certified = f"{self.certified:,} {self.word} of {self.N:,} tested components"
        return self.claim_about(f"the {certified}")

    @property
    def sentence(self) -> str:
        """The same in plain words, with three digits and an example; empty where not all labels hold at once."""
        return plain_words.of_labels(self)

    @property
    def word(self) -> str:
        """What to call components that have a label: certified, or labelled where no label is said to hold."""
        return "certified" if self.claimed.certifies else "labelled"

    def claim_about(self, certified: str) -> str:
        """The same about the certified components under another name."""
        if not self.certified:
            return f"Nothing is certified: all {self.N:,} tested components abstain, and nothing is claimed."
        vacuous = self.guarantee == "k-fwer" and self.certified < self.k
        words = self.claimed.about(certified, self.claimed_radius)
        return f"{words} (Fewer than that are certified: nothing is claimed.)" if vacuous else words

    @property
    def looked(self) -> str:
        """At which looks the components were tested, in words; empty if there was one test."""
        saved = f" Sampling stopped after {self.n} draws, and saved {self.saved}." if self.saved else ""
        return looked(self.looks) + saved

    @property
    def saved(self) -> int:
        """How many of the planned draws were not made, because a look stopped the run."""
        return self.looks[-1] - self.n if self.looks else 0

    @property
    def claimed(self) -> Claim:
        """The guarantee and the noise, without labels and radius: all that decides the words of a claim."""
        sentences = (self.looked, self.units, seed_assumption(self.seed_given, before=self.before))
        remarks = " ".join(filter(None, sentences))
        return Claim(
            self.correction, self.guarantee, self.alpha, self.noise, self.norm, self.k, remarks, self.perturbed
        )  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file (safetensors, format ``segcertify.certificate``)."""
        header = self.to_header("labels", *([] if self.looks else ["looks"]))
        arrays = {"labels": archive.smallest_integers(self.labels)}
        archive.write(path, kind="certificate", version=_VERSION, header=header, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a file that `save` wrote."""
        header, arrays = archive.read(path, kind="certificate", version=_VERSION, migrations={1: _from_version_1})
        try:
            fields = from_header(header, cls)
            certificate = cls(arrays["labels"], **fields | {"looks": tuple(fields.get("looks", ()))})
            return replace(certificate, labels=certificate.labels.astype(np.int32))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{path} is not a complete certificate file ({error}): make it again") from None

    def __repr__(self) -> str:
        made = f"{self.noise}, n0={self.n0}, n={self.n}, tau={exact(self.tau)}, {self.correction}"
        return f"Certificate({made}: {self.claim})"


def _certified(labels: IntArray) -> int:
    return int(np.count_nonzero(labels != ABSTAIN))


def _from_version_1(header: dict[str, Any]) -> dict[str, Any]:
    """Then a certificate did not say what it was about, nor who made it when."""
    return {**header, "input_shape": None, "version": "", "date": ""}
