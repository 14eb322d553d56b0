"""Votes: all that certification needs to know of a sampling run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from segcertify import class_counts
from segcertify.arrays import Array, BoolArray, Histogram, IntArray
from segcertify.chunks import copied
from segcertify.errors import InputError, require_integer
from segcertify.noise import Noise, require_noise, to_plain
from segcertify.provenance import Provenance, from_header
from segcertify.stats.correction import histogram, require_histogram
from segcertify.storage import archive, limits, sparse
from segcertify.storage.same_run import difference

Interval = tuple[int, int]

_VERSION = 4


@dataclass(frozen=True, eq=False)
class Votes(Provenance):
    """A candidate label per component, from n0 draws, and how many of n fresh draws agree with it.

    With n0 = 0 there is no pilot: the candidate is the most frequent label of the n draws themselves, and corrections
    allow for it (`segcertify.stats.pilotless`).

    Arrays have the components' shape. ``draws`` are the recorded draws as intervals of indices, n in all; ``mask``
    marks the components to test (all by default) and must have been chosen before sampling. ``earlier`` holds the
    agreement after fewer draws, for `at`; ``fingerprint`` a few of the model's answers, for `merge`.
    ``fingerprint_of`` is "probe", or "input" in files of format version 1. Arrays are copied and read-only. The fields
    of `segcertify.provenance.Provenance` say which input, model and seed they are of.

    ``counts``, where they were kept, say how often each class came up in the n draws: (classes, *components).
    ``classes`` is how many the model has, None if unknown: ``counts`` then ends at the largest label seen.
    ``earlier_counts`` are those after fewer draws, ``pilot_counts`` those of the n0 draws: older files have neither.

    ``looks`` are the times of tests that were fixed before sampling (`segcertify.looks`), also those that an early
    stop left out: n is one of them, and ``earlier`` has the counts at those before it. They cannot be chosen later.
    Adding draws, or trying another seed, after seeing a result is a new claim.
    """

    candidate: IntArray
    agree: IntArray
    n: int
    n0: int
    noise: Noise
    fingerprint: tuple[float, ...] = ()
    mask: BoolArray | None = None
    draws: tuple[Interval, ...] = ()
    earlier: Mapping[int, IntArray] = field(default_factory=dict)
    fingerprint_of: str = "probe"
    counts: IntArray | None = None
    classes: int | None = None
    looks: tuple[int, ...] = ()
    earlier_counts: Mapping[int, IntArray] = field(default_factory=dict)
    pilot_counts: IntArray | None = None
    _counted: Histogram | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        n = require_draws("n", self.n)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "n0", require_integer("n0", self.n0, at_least=0))
        require_noise(self.noise)
        super().__post_init__()
        if not all(isinstance(number, int | float) for number in self.fingerprint):
            raise InputError("fingerprint must hold numbers")
        candidate, least, largest = _integers("candidate", self.candidate)
        if candidate.size == 0:
            raise InputError(f"votes need at least one component, but candidate has shape {candidate.shape}")
        if least < 0:
            raise InputError(f"candidate labels must not be negative, but the smallest is {least}")
        object.__setattr__(self, "candidate", candidate)
        object.__setattr__(self, "agree", _counts("agree", self.agree, candidate.shape, n))
        if any(not 0 < m < n for m in self.earlier):
            raise InputError(f"earlier counts must be of fewer than n={n} draws, but are of {sorted(self.earlier)}")
        earlier = {m: _counts(f"agree after {m} draws", a, candidate.shape, m) for m, a in self.earlier.items()}
        object.__setattr__(self, "earlier", MappingProxyType(earlier))
        if self.earlier and not self.n0:
            raise InputError("votes without a pilot (n0=0) keep no earlier counts: their labels could be others then")
        if self.classes is not None and largest >= require_integer("classes", self.classes):
            raise InputError(f"candidates must be below classes={self.classes}, but the largest is {largest}")
        if self.counts is not None:
            counts = class_counts.require_counts(self.counts, candidate, self.agree, n=n, chosen_by_them=not self.n0)
            object.__setattr__(self, "counts", counts)
            if self.classes not in (None, len(counts)):
                raise InputError(f"counts are of {len(counts)} classes, but classes={self.classes}")
        self._require_other_counts()
        self._require_looks()
        if self.mask is not None:
            object.__setattr__(self, "mask", require_mask(self.mask, candidate.shape))
        draws = tuple((require_integer("draws", a, at_least=0), require_integer("draws", b)) for a, b in self.draws)
        draws = draws or ((0, n),)
        if any(start < 0 or stop <= start for start, stop in draws) or sum(b - a for a, b in draws) != n:
            raise InputError(f"draws={draws} are not n={n} draws")
        object.__setattr__(self, "draws", _union(draws, ()))

    def _require_other_counts(self) -> None:
        """The counts of all classes after fewer draws, and of the pilot, are for votes with those of all n draws."""
        if self.counts is None and (self.earlier_counts or self.pilot_counts is not None):
            raise InputError("earlier_counts and pilot_counts belong to counts: give these too")
        if not self.earlier.keys() >= self.earlier_counts.keys():
            raise InputError(f"there are earlier_counts at {sorted(self.earlier_counts)}: earlier must be so too")
        found = {
            m: class_counts.require_counts(each, self.candidate, self.earlier[m], n=m, chosen_by_them=False)
            for m, each in self.earlier_counts.items()
        }
        object.__setattr__(self, "earlier_counts", MappingProxyType(found))
        if self.pilot_counts is not None:
            pilot = class_counts.require_counts(
                self.pilot_counts, self.candidate, None, n=require_integer("n0", self.n0), chosen_by_them=True
            )
            object.__setattr__(self, "pilot_counts", pilot)

    def _require_looks(self) -> None:
        """Votes end at a look, and have counts at all looks before it."""
        looks = tuple(require_integer("a look", time) for time in self.looks)
        object.__setattr__(self, "looks", looks)
        if not looks:
            return
        if not self.n0 or self.counts is not None:
            raise InputError("looks need a pilot (n0 >= 1), and are not proven for the counts of all classes")
        if list(looks) != sorted(set(looks)):
            raise InputError(f"looks must be rising numbers of draws, but are {looks}")
        lacking = [time for time in looks if time < self.n and time not in self.earlier]
        if self.n not in looks or lacking:
            raise InputError(f"votes with looks at {looks} must have counts at each up to n={self.n}, which is one")

    @property
    def planned(self) -> int:
        """How many draws were to be made at most; more than n if a look stopped the run."""
        return self.looks[-1] if self.looks else self.n

    def level(self, alpha: float) -> float:
        """The level of a test of these counts: alpha, or alpha / L if they are of one of L looks."""
        return alpha / max(1, len(self.looks))

    @property
    def N(self) -> int:
        """How many components are tested."""
        return self.candidate.size if self.mask is None else int(np.count_nonzero(self.mask))

    def histogram(self) -> Histogram:
        """How many tested components have k agreeing draws, k = 0 .. n."""
        if self._counted is not None:
            return self._counted.copy()
        agree = self.agree if self.mask is None else self.agree[self.mask]
        return histogram(agree, self.n)

    def keep_histogram(self, counts: Histogram) -> None:
        """Keep the histogram that a device made of these counts, for `histogram`. One that is of others is refused."""
        if self.mask is not None:
            raise InputError("votes with a mask keep no histogram: a device counts all components")
        object.__setattr__(self, "_counted", require_histogram(counts, self.agree, self.n))

    def at(self, n: int) -> Votes:
        """The votes of the first n draws, recorded with ``sample(..., prefixes=...)``.

        Each (n, tau) is a claim of its own: choosing the best after looking voids alpha.
        """
        if n == self.n:
            return self
        if n not in self.earlier:
            known = ", ".join(str(m) for m in sorted({*self.earlier, self.n}))
            raise InputError(f"no counts were recorded at n={n}, only at {known}: pass prefixes=({n},) to sample")
        start = self.draws[0][0]
        shorter = {m: agree for m, agree in self.earlier.items() if m < n}
        counts = self.earlier_counts.get(n)
        return replace(
            self, agree=self.earlier[n], n=n, draws=((start, start + n),), earlier=shorter, counts=counts,
            earlier_counts={m: each for m, each in self.earlier_counts.items() if m < n},
            pilot_counts=None if counts is None else self.pilot_counts,
        )  # fmt: skip

    def require_same_run(self, other: Votes) -> None:
        """Raise `InputError` unless both are of the same input, model, noise, seed, n0 and mask."""
        for name in ("noise", "seed", "n0", "input_id", "input_shape", "input_digest", "looks"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                raise InputError(f"votes with different {name} do not merge: {ours!r} and {theirs!r}")
        if self.fingerprint_of != other.fingerprint_of:
            raise InputError(
                "votes of a file of format version 1 do not merge with newer votes: both hold a few of the model's "
                "answers, but to different inputs, so that nothing shows that the model is the same. "
                "Sample both with this version"
            )
        if not same_answers(self.fingerprint, other.fingerprint):
            raise InputError("votes of different models do not merge: their answers to the same probes differ")
        if differ := model_difference(self.model, other.model):
            raise InputError(f"votes of different models do not merge: {differ}")
        if self.preprocessing and other.preprocessing and self.preprocessing != other.preprocessing:
            both = f"{self.preprocessing} and {other.preprocessing}"
            raise InputError(f"votes with different pre-processing do not merge: {both}")
        if not _same(self.mask, other.mask):
            raise InputError("votes with different masks do not merge")
        if None not in (self.classes, other.classes) and self.classes != other.classes:
            raise InputError(f"votes of {self.classes} and of {other.classes} classes do not merge")

    def merge(self, other: Votes) -> Votes:
        """The votes of both runs' draws together: same input, noise, seed and candidates, different draws.

        The seed counts as given if it was given to either run. Counts of all classes add up where both have them;
        without a pilot both must, and the candidates are chosen anew. Those of the pilot, the same one, are kept once.
        """
        self.require_same_run(other)
        if self.seed is None:
            raise InputError("votes without a seed do not merge: nothing shows that their draws differ")
        if self.looks:
            raise InputError("votes with looks do not merge: the times of looks count from their first draw")
        if self.n0 and not _same(self.candidate, other.candidate):
            raise InputError("votes with different candidates do not merge: they come from different models or draws")
        counts, n, draws = None, self.n + other.n, _union(self.draws, other.draws)
        if self.counts is not None and other.counts is not None:
            counts = class_counts.added(self.counts, other.counts, n)
        candidate, agree = self.candidate, np.asarray(self.agree + other.agree)
        if not self.n0:
            if counts is None:
                raise InputError("votes without a pilot (n0=0) merge by the counts of all classes: use counts=True")
            candidate, agree = class_counts.most_frequent(counts)
        return replace(
            self, candidate=candidate, agree=agree, n=n, draws=draws, earlier={}, counts=counts, earlier_counts={},
            pilot_counts=self.pilot_counts if _same(self.pilot_counts, other.pilot_counts) and counts is not None
            else None,
            classes=self.classes or other.classes,
            seed_given=self.seed_given or other.seed_given, model=self.model or other.model,
            preprocessing=self.preprocessing or other.preprocessing,
        )  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file (safetensors, format ``segcertify.votes``)."""
        counts = {"candidate": self.candidate, "agree": self.agree}
        counts |= {f"agree_{m}": agree for m, agree in self.earlier.items()}
        arrays: dict[str, Array] = {name: archive.smallest_integers(array) for name, array in counts.items()}
        arrays |= {} if self.mask is None else {"mask": self.mask}
        planes = {"counts": self.counts, "counts_of_pilot": self.pilot_counts}
        for name, each in (planes | {f"counts_{m}": each for m, each in self.earlier_counts.items()}).items():
            arrays |= {} if each is None else sparse.packed(name, each)
        header = {
            "n": self.n, "n0": self.n0, "noise": to_plain(self.noise), "seed": self.seed, "input_id": self.input_id,
            "input_shape": self.input_shape, "input_digest": self.input_digest, "draws": self.draws,
            "earlier": list(self.earlier), "fingerprint": self.fingerprint,
            "fingerprint_of": self.fingerprint_of, "seed_given": self.seed_given, "model": self.model,
            "preprocessing": self.preprocessing, "classes": self.classes,
        }  # fmt: skip
        header |= {"looks": self.looks} if self.looks else {}
        archive.write(path, kind="votes", version=_VERSION, header=header, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Votes:
        """Read a file that `save` wrote."""
        migrations: dict[int, archive.Migration] = {1: _from_version_1, 2: dict, 3: dict}  # 2: no model; 3: no counts
        header, arrays = archive.read(path, kind="votes", version=_VERSION, migrations=migrations)
        try:
            earlier = {m: arrays[f"agree_{m}"] for m in header.pop("earlier")}
            header = from_header(header, cls)
            header["fingerprint"] = tuple(header["fingerprint"])
            header["draws"] = tuple((start, stop) for start, stop in header["draws"])
            mask, shape = arrays.get("mask"), arrays["candidate"].shape
            names = {"counts": header["n"], "counts_of_pilot": header["n0"]} | {f"counts_{m}": m for m in earlier}
            found = {
                name: class_counts.from_planes(sparse.unpacked(name, arrays, shape), draws)
                for name, draws in names.items()
                if sparse.packed_planes(name, arrays)
            }
            return cls(
                arrays["candidate"], arrays["agree"], mask=mask, earlier=earlier, counts=found.get("counts"),
                pilot_counts=found.get("counts_of_pilot"),
                earlier_counts={m: found[f"counts_{m}"] for m in earlier if f"counts_{m}" in found}, **header,
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{path} is not a complete votes file ({error}): make it again") from None

    def __repr__(self) -> str:
        with_pilot = f"candidates from n0={self.n0} draws, agreement of n={self.n} further draws"
        chosen = with_pilot if self.n0 else f"the most frequent labels of n={self.n} draws, without a pilot,"
        return (
            f"Votes({self.N:,} components of shape {self.candidate.shape}: {chosen} with {self.noise}, "
            f"seed={seed_text(self.seed)}, input_id={self.input_id!r})"
        )


def _from_version_1(header: dict[str, Any]) -> dict[str, Any]:
    """Then the model's answers were those at the input itself; votes counted elsewhere have none."""
    return {**header, "fingerprint_of": "input" if header.get("fingerprint") else "probe"}


def require_draws(name: str, value: int) -> int:
    """A number of draws, from 1 to `limits.DRAWS`: tables of as many p-values are made."""
    number = require_integer(name, value)
    if number > limits.DRAWS:
        raise InputError(f"{name} must be at most {limits.DRAWS:,} draws, but got {value!r:.40}")
    return number


def require_mask(mask: BoolArray, shape: tuple[int, ...]) -> BoolArray:
    """A boolean mask of the components' shape that selects something."""
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape != shape:
        raise InputError(f"mask must be boolean of shape {shape}, but got {mask.dtype} of shape {mask.shape}")
    if not mask.any():
        raise InputError("mask selects no component: there is nothing to certify")
    return frozen(mask.copy())


def frozen(array: Array) -> Array:
    """The array, read-only from now on: what was counted or chosen must not change."""
    array.flags.writeable = False
    return array


ROUNDING = 1e-3
"""By how much a model's answers may differ on other hardware, as a fraction of their range."""


def same_answers(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether two fingerprints may be of one model: all answers alike, logits up to rounding on other hardware.

    Whole numbers, such as labels, must be equal. What all answers have in common, such as a large offset, does not make
    them alike. Beside `ROUNDING`, the last bits of single precision and 1 % of the distance from the median may differ.
    """
    ours, theirs = np.asarray(a, float), np.asarray(b, float)
    if ours.shape != theirs.shape or not ours.size:
        return ours.shape == theirs.shape
    if np.array_equal(ours, np.round(ours)) and np.array_equal(theirs, np.round(theirs)):
        return np.array_equal(ours, theirs)
    middle, last_bits = np.median(ours), 4e-7 * np.abs(ours).max()
    close = np.isclose(ours - middle, theirs - middle, rtol=0.01, atol=ROUNDING * np.ptp(ours) + last_bits)
    return bool(close.all())


def seed_text(seed: int | None) -> str:
    """A seed as people read it and ``--seed`` takes it: hexadecimal if it is long.

    >>> seed_text(7), seed_text(2**127 + 10)
    ('7', '0x8000000000000000000000000000000a')
    """
    return str(seed) if seed is None or seed < 2**64 else hex(seed)


def model_difference(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """How two descriptions of models differ, in words; empty if they may be of one model, as an unknown one may.

    A function is known by its answers: its name is for readers, and its logits may differ by rounding.
    """
    if not a or not b:
        return ""
    inner = ({"model": {key: each[key] for key in each if key not in ("name", "logits")}} for each in (a, b))
    found = [
        f"its {name.removeprefix('model.')} is {old}, now it is {new}"
        for name, (old, new) in difference(*inner).items()
    ]
    ours, theirs = a.get("logits"), b.get("logits")
    if not found and ours and theirs and not same_answers(ours, theirs):
        found = [f"the mean sizes of its logits are {ours}, now they are {theirs}"]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")


def _integers(name: str, array: IntArray) -> tuple[IntArray, int, int]:
    """A copy in 32 bits, and its least and largest number (0 of none)."""
    array = np.asanyarray(array)
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{name} must hold integers, but got {array.dtype}")
    limits = np.iinfo(np.int32)
    copy, least, largest = copied(array, np.int32)
    if least < limits.min or largest > limits.max:
        raise InputError(f"{name} must fit in 32 bits, but spans {least} .. {largest}")
    return frozen(copy), least, largest


def _counts(name: str, array: IntArray, shape: tuple[int, ...], n: int) -> IntArray:
    counts, least, largest = _integers(name, array)
    if counts.shape != shape:
        raise InputError(f"{name} has shape {counts.shape}, but candidate has shape {shape}")
    if least < 0 or largest > n:
        raise InputError(f"{name} must lie in 0 .. {n}, but spans {least} .. {largest}")
    return counts


def _same(a: Array | None, b: Array | None) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b)


def _union(a: tuple[Interval, ...], b: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Both sets of draws as sorted intervals; an error if they overlap."""
    joined: list[Interval] = []
    for start, stop in sorted((*a, *b)):
        if joined and start < joined[-1][1]:
            raise InputError(f"votes that share draws do not merge: {a} and {b}")
        if joined and start == joined[-1][1]:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)
