"""SetCertificate: a set of labels for every component that its majority label cannot leave within a radius."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from segcertify import plain_words
from segcertify.arrays import BoolArray, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.claims import Claim, seed_assumption
from segcertify.errors import InputError, require_integer
from segcertify.noise import Noise
from segcertify.provenance import Issued, from_header
from segcertify.storage import archive

_VERSION = 1


@dataclass(frozen=True, eq=False)
class SetCertificate(Issued):
    """Which labels each component can get within ``radius``, and the label itself where it is certified.

    ``sets`` (classes, *components) is True where a class is not excluded. ``labels``
    holds the certified labels, ABSTAIN elsewhere. A set with one label by exclusion
    alone means "this label, or no majority at all", which is less than a certified
    label: `only` tells the two apart.

    ``classes`` is None if the number of classes is not known: ``sets`` then ends at the
    largest label seen, and all others are excluded too. ``excludes`` is False if the
    draws could exclude nothing, not even a class never seen; the sets then claim
    nothing. A component that a mask left out has a full set. Other fields are as in
    `segcertify.Certificate`, and ``radius`` is in the same units.
    """

    sets: BoolArray
    labels: IntArray
    radius: float
    norm: str
    tau: float
    alpha: float
    correction: str
    n: int
    n0: int
    noise: Noise
    N: int
    classes: int | None = None
    excludes: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.as_labels()  # checks what both have: labels, numbers, norm and radius
        if self.sets.dtype != bool or self.sets.shape[1:] != self.labels.shape or not len(self.sets):
            raise InputError(
                f"sets must be boolean (classes, *{self.labels.shape}), but are {self.sets.dtype} {self.sets.shape}"
            )
        if self.classes is not None and require_integer("classes", self.classes) != len(self.sets):
            raise InputError(f"sets are of {len(self.sets)} classes, but classes={self.classes}")
        if int(self.labels.max()) >= len(self.sets):
            raise InputError(f"labels reach {self.labels.max()}, but sets are of {len(self.sets)} classes")
        sizes, certified = self.sizes, self.labels != ABSTAIN
        if (sizes < 1).any():
            raise InputError(f"{int((sizes < 1).sum())} sets are empty: a set has at least one label")
        inside = np.take_along_axis(self.sets, np.maximum(self.labels, 0).astype(np.int64)[None], 0)[0]
        if (certified & ((sizes > 1) | ~inside)).any():
            raise InputError("where a label is certified, its set must hold that label alone")
        if not isinstance(self.excludes, bool) or (not self.excludes and not self.sets[:, ~certified].all()):
            raise InputError("excludes=False is for full sets, but some are not")

    def as_labels(self) -> Certificate:
        """The certified labels alone, which hold at alpha / 2: this certificate without its sets."""
        return Certificate(
            self.labels, self.radius, self.norm, self.tau, self.alpha / 2, self.correction, "fwer", self.n, self.n0,
            self.noise, self.N, version=self.version, date=self.date, command=self.command, **self.provenance,
        )  # fmt: skip

    @property
    def sizes(self) -> IntArray:
        """How many labels each set has."""
        sizes = np.zeros(self.labels.shape, np.int32)
        for inside in self.sets:
            sizes += inside
        return sizes

    @property
    def abstained(self) -> BoolArray:
        """Where no label is certified; the set may still exclude some."""
        return np.asarray(self.labels == ABSTAIN)

    @property
    def certified(self) -> int:
        """How many components have a certified label."""
        return int(np.count_nonzero(self.labels != ABSTAIN))

    @property
    def only(self) -> BoolArray:
        """Where a set has one label by exclusion alone: the majority label is this one, if there is a majority."""
        return np.asarray(self.abstained & (self.sizes == 1))

    @property
    def claim(self) -> str:
        """What this certificate says, and what it assumes."""
        remarks = f"{self.units} {seed_assumption(self.seed_given, before=self.before)}".strip()
        claim = Claim(
            self.correction, "fwer", self.alpha, self.noise, self.norm, remarks=remarks, perturbed=self.perturbed
        )  # fmt: skip
        return claim.of_sets(self.N, self.certified, self.claimed_radius, excludes=self.excludes)

    @property
    def sentence(self) -> str:
        """The same in plain words, with three digits and an example; empty where there are none for it."""
        return plain_words.of_sets(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file (safetensors, format ``segcertify.sets``); a set's labels take a bit each."""
        header = self.to_header("sets", "labels") | {"shape": self.labels.shape}
        sets = np.packbits(self.sets.reshape(len(self.sets), -1), axis=1)
        arrays = {"sets": sets, "labels": archive.smallest_integers(self.labels)}
        archive.write(path, kind="sets", version=_VERSION, header=header, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SetCertificate:
        """Read a file that `save` wrote."""
        header, arrays = archive.read(path, kind="sets", version=_VERSION)
        try:
            shape = tuple(header.pop("shape"))
            labels, packed = arrays["labels"].astype(np.int32).reshape(shape), arrays["sets"]
            sets = np.unpackbits(packed, axis=1, count=labels.size).astype(bool).reshape(len(packed), *shape)
            return cls(sets, labels, **from_header(header, cls))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a complete file of sets ({error}): make it again") from None

    def __repr__(self) -> str:
        return f"SetCertificate({self.noise}, n0={self.n0}, n={self.n}: {self.claim})"
