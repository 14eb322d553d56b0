"""How good a certificate of sets is: its scores are given together, as each alone can mislead.

A labeller that answers at random gets small sets almost everywhere, so sizes say little without how often the truth
is in its set, and how often a label is certified. Counts of several scenes add up.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from segcertify.arrays import BoolArray, FloatArray, IntArray
from segcertify.certificate import ABSTAIN
from segcertify.errors import InputError
from segcertify.metrics.scores import require_shapes
from segcertify.sets.certificate import SetCertificate

LARGEST = 3
"""Sets of 1 .. 3 labels are counted by their size."""


@dataclass(frozen=True, eq=False)
class SetCounts:
    """Counts over valid components. Those of classes have shape (C,), ``of_size`` (3,): sets of at most 1, 2, 3 labels.

    ``right`` are certified labels that are the truth, by class; ``possible`` are components of another truth
    whose set has the class; ``gain`` is the sum of the information gains.
    """

    valid: int
    certified: int
    truth_in_set: int
    of_size: IntArray
    right: IntArray
    truth: IntArray
    possible: IntArray
    gain: float

    def __add__(self, other: SetCounts) -> SetCounts:
        """The counts of both scenes."""
        return SetCounts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True)
class SetScores:
    """All that is said of sets, together.

    ``worst_case_miou`` is a lower bound under attack for the majority-or-nothing model: the one that answers the
    majority label, or nothing where there is none, which counts as a miss. It is no bound for the arg-max model.
    ``certified_accuracy`` is the share of valid components whose certified label is right. ``information_gain`` is 1
    for those, and else what the set tells of the truth if it holds it: (ln(C + 1) - ln(|S| + 1)) / ln(C + 1), as
    "nothing" is an answer too. The others are shares of valid components. NaN where nothing is valid.
    """

    worst_case_miou: float
    certified_accuracy: float
    information_gain: float
    truth_in_set: float
    certified: float
    at_most_1: float
    at_most_2: float
    at_most_3: float


def set_counts(certificate: SetCertificate, target: IntArray, valid: BoolArray, *, classes: int) -> SetCounts:
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
    if not certificate.excludes:
        sets[:, labels == ABSTAIN] = True  # also of classes that were never seen
    sizes, inside = sets.sum(0), sets[truth, np.arange(truth.size)]
    right = labels == truth
    gains = np.where(right, 1.0, inside * (labels == ABSTAIN) * (1 - np.log(sizes + 1) / np.log(classes + 1)))
    return SetCounts(
        valid=truth.size,
        certified=int(np.count_nonzero(labels != ABSTAIN)),
        truth_in_set=int(inside.sum()),
        of_size=np.array([np.count_nonzero(sizes <= size) for size in range(1, LARGEST + 1)]),
        right=np.bincount(truth[right], minlength=classes),
        truth=np.bincount(truth, minlength=classes),
        possible=sets.sum(1) - np.bincount(truth[inside], minlength=classes),
        gain=float(gains.sum()),
    )


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
    shares = (counts.truth_in_set, counts.certified, *counts.of_size.tolist())
    return SetScores(
        float(np.nanmean(worst_case_set_iou(counts))),
        float(counts.right.sum()) / counts.valid,
        counts.gain / counts.valid,
        *(share / counts.valid for share in shares),
    )
