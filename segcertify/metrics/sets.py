"""How good a certificate of sets is: its scores are given together, as each alone can mislead.

A labeller that answers at random gets small sets almost everywhere, so sizes say little without how often the truth
is in its set, and how often a label is certified. Counts of several scenes add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from segcertify.arrays import BoolArray, FloatArray, IntArray
from segcertify.certificate import ABSTAIN
from segcertify.errors import InputError, require_integer
from segcertify.metrics.scores import require_shapes
from segcertify.sets.certificate import SetCertificate
from segcertify.sets.groups import Groups
from segcertify.storage import limits

LARGEST = 3
"""Sets of 1 .. 3 labels are counted by their size, and those of 2 and 3 by their labels."""

Small = Counter[tuple[int, ...]]
"""How often sets of a few labels occur, by their labels in rising order."""


@dataclass(frozen=True, eq=False)
class SetCounts:
    """Counts over valid components. Those of classes have shape (C,), ``of_size`` (3,): sets of at most 1, 2, 3 labels.

    ``right`` are certified labels that are the truth, by class, and ``inside`` components with the truth in their set;
    ``possible`` are components of another truth whose set has the class. ``only`` have one label by exclusion alone.
    ``informative`` have no certified label and the truth in a set of 1 .. C labels. ``small`` are the sets of 2 and 3
    labels, ``small_true`` those of them with the truth.
    """

    valid: int
    certified: int
    only: int
    of_size: IntArray
    right: IntArray
    inside: IntArray
    truth: IntArray
    possible: IntArray
    informative: IntArray
    small: Small
    small_true: Small

    def __add__(self, other: SetCounts) -> SetCounts:
        """The counts of both scenes."""
        if len(self.truth) != len(other.truth):
            raise InputError(f"scenes of {len(self.truth)} and of {len(other.truth)} classes do not add up")
        return SetCounts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def gain(self) -> float:
        """The sum of the information gains (`SetScores`)."""
        C = len(self.truth)
        by_size = 1 - np.log(np.arange(2, C + 2)) / np.log(C + 1)
        return float(self.right.sum() + self.informative @ by_size)


@dataclass(frozen=True)
class SetScores:
    """All that is said of sets, together.

    ``worst_case_miou`` is a lower bound under attack for the majority-or-nothing model: the one that answers the
    majority label, or nothing where there is none, which counts as a miss. It is no bound for the arg-max model.
    ``certified_accuracy`` is the share of valid components whose certified label is right. ``information_gain`` is 1
    for those, and else what the set tells of the truth if it holds it: (ln(C + 1) - ln(|S| + 1)) / ln(C + 1), as
    "nothing" is an answer too. The others are shares of valid components; ``only`` have one label by exclusion alone.
    NaN where nothing is valid.
    """

    worst_case_miou: float
    certified_accuracy: float
    information_gain: float
    truth_in_set: float
    certified: float
    at_most_1: float
    at_most_2: float
    at_most_3: float
    only: float


def set_counts(certificate: SetCertificate | Groups, target: IntArray, valid: BoolArray, *, classes: int) -> SetCounts:
    """What a certificate of sets says beside the ground truth, over valid components."""
    target, valid = np.asarray(target), np.asarray(valid)
    require_shapes(target, valid, certificate.labels.shape)
    if len(certificate.sets) > classes:
        raise InputError(f"the sets are of {len(certificate.sets)} classes, but the data set has {classes}")
    labels, truth = certificate.labels[valid], target[valid].astype(np.int64)
    if truth.size and not (truth.min() >= 0 and truth.max() < classes):
        raise InputError(f"target must lie in 0 .. {classes - 1} where valid, but spans {truth.min()} .. {truth.max()}")
    sets = np.zeros((classes, labels.size), bool)
    sets[: len(certificate.sets)] = certificate.sets[:, valid]
    free = labels == ABSTAIN
    if not certificate.excludes:
        sets[:, free] = True  # also of classes that were never seen
    sizes, inside = sets.sum(0), sets[truth, np.arange(truth.size)]
    return SetCounts(
        valid=truth.size,
        certified=int(np.count_nonzero(~free)),
        only=int(np.count_nonzero(free & (sizes == 1))),
        of_size=np.array([np.count_nonzero(sizes <= size) for size in range(1, LARGEST + 1)]),
        right=np.bincount(truth[labels == truth], minlength=classes),
        inside=np.bincount(truth[inside], minlength=classes),
        truth=np.bincount(truth, minlength=classes),
        possible=sets.sum(1) - np.bincount(truth[inside], minlength=classes),
        informative=np.bincount(sizes[free & inside], minlength=classes + 1)[1:],
        small=small_sets(sets[:, free]),
        small_true=small_sets(sets[:, free & inside]),
    )


def small_sets(sets: BoolArray) -> Small:
    """How often each set of 2 or 3 labels occurs among sets (classes, components).

    >>> sorted(small_sets(np.array([[1, 1, 1, 0], [1, 1, 0, 1], [0, 1, 0, 1]], bool)).items())
    [((0, 1), 1), ((0, 1, 2), 1), ((1, 2), 1)]
    """
    sizes, C = sets.sum(0), len(sets)
    chosen = sets[:, (sizes > 1) & (sizes <= LARGEST)]
    if not chosen.size:
        return Counter()
    first, last = chosen.argmax(0), C - 1 - chosen[::-1].argmax(0)
    middle = np.zeros_like(first)
    for label, plane in enumerate(chosen):
        middle += label * plane
    middle -= last + first * (chosen.sum(0) == LARGEST)  # of two labels: the first again
    codes, counts = np.unique((first * C + middle) * C + last, return_counts=True)
    labels = (tuple(sorted({code // C**2, code // C % C, code % C})) for code in codes.tolist())
    return Counter(dict(zip(labels, counts.tolist(), strict=True)))


def worst_case_set_iou(counts: SetCounts) -> FloatArray:
    """The smallest IoU of each class under attack, of the majority-or-nothing model; NaN where no truth has it: (C,).

    #{certified label = c = y} / (|G_c| + #{y != c, c in S}).
    """
    present = counts.truth > 0
    return np.where(present, counts.right / np.maximum(counts.truth + counts.possible, 1), np.nan)


def set_scores(counts: SetCounts) -> SetScores:
    """The scores of sets, together."""
    if not counts.valid:
        return SetScores(*[float("nan")] * len(fields(SetScores)))
    shares = (counts.inside.sum(), counts.certified, *counts.of_size.tolist(), counts.only)
    return SetScores(
        float(np.nanmean(worst_case_set_iou(counts))),
        float(counts.right.sum()) / counts.valid,
        counts.gain / counts.valid,
        *(float(share) / counts.valid for share in shares),
    )


def sets_to_plain(counts: SetCounts) -> dict[str, Any]:
    """Counts of sets as plain values for JSON; ``small`` is a list of [labels, count, count with the truth]."""
    plain = {name: value for name, value in vars(counts).items() if isinstance(value, int)}
    plain |= {name: value.tolist() for name, value in vars(counts).items() if isinstance(value, np.ndarray)}
    small = [[list(key), n, counts.small_true[key]] for key, n in sorted(counts.small.items())]
    return {"classes": len(counts.truth), **plain, "small": small}


def sets_from_plain(values: Mapping[str, Any]) -> SetCounts:
    """The counts that `sets_to_plain` wrote down."""

    def integers(name: str, length: int) -> IntArray:
        found = [_count(name, each) for each in values[name]]
        if len(found) != length:
            raise InputError(f"{name} must hold {length} counts, but has {len(found)}")
        return np.array(found, np.int64)

    try:
        C, small, small_true = require_integer("classes", values["classes"]), Small(), Small()
        if C > limits.CLASSES:
            raise InputError(f"{C:,} classes, but at most {limits.CLASSES:,} are evaluated")
        for labels, count, true in values["small"]:
            key = tuple(require_integer("a label", each, at_least=0, at_most=C - 1) for each in labels)
            small[key], small_true[key] = _count("a set's count", count, at_least=1), _count("a set's count", true)
            if key != tuple(sorted(set(key))) or small_true[key] > small[key]:
                raise InputError(f"the set {labels!r:.40} came up {count!r:.20} times, {true!r:.20} with the truth")
        return SetCounts(
            valid=_count("valid", values["valid"]), certified=_count("certified", values["certified"]),
            only=_count("only", values["only"]), of_size=integers("of_size", LARGEST), right=integers("right", C),
            inside=integers("inside", C), truth=integers("truth", C), possible=integers("possible", C),
            informative=integers("informative", C), small=small, small_true=small_true,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise InputError(f"not counts of sets ({error}): evaluate the scene again") from None


def _count(name: str, value: int, *, at_least: int = 0) -> int:
    return require_integer(name, value, at_least=at_least, at_most=2**53)
