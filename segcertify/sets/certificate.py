"""SetCertificate: a set of labels for every component that its majority label cannot leave within a radius."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from segcertify import __version__
from segcertify.arrays import BoolArray, IntArray
from segcertify.certificate import ABSTAIN, Certificate, utc_now
from segcertify.claims import Claim, seed_assumption
from segcertify.errors import InputError, require_integer
from segcertify.noise import Noise, from_plain, to_plain
from segcertify.preprocessing import Preprocessing, in_words, require_plain
from segcertify.storage import archive

_VERSION = 1


@dataclass(frozen=True, eq=False)
class SetCertificate:
    """Which labels each component can get within ``radius``, and the label itself where it is certified.

    ``sets`` (classes, *components) is True where a class is not excluded. ``labels``
    holds the certified labels, ABSTAIN elsewhere. A set with one label by exclusion
    alone means "this label, or no majority at all", which is less than a certified
    label: `only` tells the two apart.

    ``classes`` is None if the number of classes is not known: ``sets`` then ends at the
    largest label seen, and all others are excluded too. ``excludes`` is False if the
    draws could exclude nothing, not even a class never seen; the sets then claim
    nothing. A component that a mask left out has a full set. Other fields are as in
    `segcertify.Certificate`.
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
        object.__setattr__(self, "model", require_plain("model", self.model))

    def as_labels(self) -> Certificate:
        """The certified labels alone, which hold at alpha / 2: this certificate without its sets."""
        return Certificate(
            self.labels, self.radius, self.norm, self.tau, self.alpha / 2, self.correction, "fwer", self.n, self.n0,
            self.noise, self.N, seed=self.seed, input_id=self.input_id, seed_given=self.seed_given,
            input_shape=self.input_shape, input_digest=self.input_digest, model=self.model,
            preprocessing=self.preprocessing, version=self.version, date=self.date, command=self.command,
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
        before = "the noise was drawn" if self.seed is None else "the seed was chosen"
        remarks = f"{in_words(self.preprocessing)} {seed_assumption(self.seed_given, before=before)}".strip()
        claim = Claim(self.correction, "fwer", self.alpha, self.noise, self.norm, remarks=remarks)
        return claim.of_sets(self.N, self.certified, self.radius, excludes=self.excludes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file (safetensors, format ``segcertify.sets``); a set's labels take a bit each."""
        header = {name: value for name, value in vars(self).items() if name not in ("sets", "labels", "noise")}
        header |= {"noise": to_plain(self.noise), "shape": self.labels.shape}
        sets = np.packbits(self.sets.reshape(len(self.sets), -1), axis=1)
        arrays = {"sets": sets, "labels": archive.smallest_integers(self.labels)}
        archive.write(path, kind="sets", version=_VERSION, header=header, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SetCertificate:
        """Read a file that `save` wrote."""
        header, arrays = archive.read(path, kind="sets", version=_VERSION)
        try:
            shape = tuple(header.pop("shape"))
            header["input_shape"] = None if header["input_shape"] is None else tuple(header["input_shape"])
            header["noise"] = from_plain(header["noise"])
            labels, packed = arrays["labels"].astype(np.int32).reshape(shape), arrays["sets"]
            sets = np.unpackbits(packed, axis=1, count=labels.size).astype(bool).reshape(len(packed), *shape)
            return cls(sets, labels, **header)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a complete file of sets ({error}): make it again") from None

    def __repr__(self) -> str:
        return f"SetCertificate({self.noise}, n0={self.n0}, n={self.n}: {self.claim})"
