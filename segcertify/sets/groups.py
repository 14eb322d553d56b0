"""Nested groups of classes, baselines beside sets: after the hierarchies of Anani et al. (2024), made sound.

`certify_groups` tests every level, fixed before sampling, at an equal share of alpha: any choice among them is allowed.
`certify_by_gap` is their rule: the pilot alone chooses a level for each component, by the gap between its two most
frequent labels, and that one group is tested on the later draws. Proofs are in docs/theory.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from segcertify.arrays import BoolArray, FloatArray, IntArray
from segcertify.certificate import ABSTAIN
from segcertify.errors import InputError, require_probability
from segcertify.stats.correction import PROCEDURES
from segcertify.stats.pilotless import label_threshold
from segcertify.votes import Votes

GAP = 0.25
"""The first threshold that `gap_thresholds` gives, as Anani et al. have it for Cityscapes."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The level at which each component's group is certified (-1: none), and that group as a set of classes.

    With probability at least 1 - alpha, for all components with a level and all perturbations within ``radius``, the
    probability of the set stays above 1/2: a majority label, where there is one, is in it. A component without a level
    has a full set.
    """

    level: IntArray
    sets: BoolArray
    radius: float
    alpha: float

    excludes = True
    """Whether sets are what they seem to be, as in `segcertify.SetCertificate`."""

    @property
    def labels(self) -> IntArray:
        """The label where a group of one class is certified, ABSTAIN elsewhere."""
        single = (self.level >= 0) & (self.sets.sum(0) == 1)
        return np.where(single, self.sets.argmax(0), ABSTAIN)


def certify_groups(votes: Votes, levels: Sequence[IntArray], *, tau: float, alpha: float) -> Groups:
    """Certify the group of each candidate at each level, by Holm at alpha / L, and keep the finest that holds.

    ``levels`` says for each class which group it is in, (classes,), from fine to coarse; it must be chosen before
    sampling. Votes need a pilot and the counts of all classes.
    """
    tau = require_probability("tau", tau, low=0.5, closed=True)
    alpha = require_probability("alpha", alpha)
    counts, levels = _require_counts(votes), _require_levels(votes, levels)
    found = np.full(votes.candidate.shape, -1)
    sets = np.ones((len(levels[0]), *votes.candidate.shape), bool)
    for index in reversed(range(len(levels))):  # finer ones come last and replace coarser ones
        group = levels[index]
        own = group[votes.candidate]
        certified = _certified(votes, _counted(counts, group, own), tau=tau, alpha=alpha / len(levels))
        found[certified] = index
        for label, of_label in enumerate(group):
            sets[label][certified] = of_label == own[certified]
    return Groups(found, sets, _radius(votes, tau), alpha)


def certify_by_gap(
    votes: Votes, levels: Sequence[IntArray], *, tau: float, alpha: float, thresholds: Sequence[float] | None = None
) -> Groups:
    """Certify one group for each component, at the level that the pilot's posterior gap chooses [Anani2024].

    The gap is the share of the n0 draws that gave the most frequent label, less that of the second. Level l is
    taken, the coarsest of several, where the gap is at most ``thresholds[l - 1]``, else level 0: where the pilot
    is unsure, a coarser group is tested. The group is the pilot's most frequent one at that level. Then the n later
    draws test it, one hypothesis for each component, by Holm at alpha.

    ``levels`` (as in `certify_groups`) and ``thresholds`` must be chosen before sampling; these are `gap_thresholds`
    by default. Votes need the counts of all classes, also of the pilot.
    """
    tau = require_probability("tau", tau, low=0.5, closed=True)
    alpha = require_probability("alpha", alpha)
    counts, levels = _require_counts(votes), _require_levels(votes, levels)
    if (pilot := votes.pilot_counts) is None:
        raise InputError("the posterior gap needs the pilot's counts of all classes: sample anew with counts=True")
    thresholds = gap_thresholds(len(levels)) if thresholds is None else thresholds
    if len(thresholds) != len(levels) - 1:
        raise InputError(f"{len(levels)} levels need {len(levels) - 1} thresholds, but got {len(thresholds)}")
    chosen = chosen_levels(pilot, thresholds)
    agree, sets = np.zeros(chosen.shape, np.int64), np.ones((len(levels[0]), *chosen.shape), bool)
    groups = [(chosen == index, level, _most_frequent_group(pilot, level)) for index, level in enumerate(levels)]
    for here, level, own in groups:
        agree[here] = _counted(counts, level, own)[here]
    certified = _certified(votes, agree, tau=tau, alpha=alpha)
    for here, level, own in groups:
        for label, of_label in enumerate(level):
            sets[label][here & certified] = of_label == own[here & certified]
    return Groups(np.where(certified, chosen, -1), sets, _radius(votes, tau), alpha)


def gap_thresholds(levels: int) -> tuple[float, ...]:
    """Those of Anani et al. for Cityscapes: a gap of 0.25 at most for the first level above single classes, else 0.

    >>> gap_thresholds(4), gap_thresholds(1)
    ((0.25, 0.0, 0.0), ())
    """
    return tuple(GAP if level == 1 else 0.0 for level in range(1, levels))


def chosen_levels(pilot: IntArray, thresholds: Sequence[float]) -> IntArray:
    """The level of each component, from the counts of all classes in the pilot's draws: (classes, *components)."""
    falling = np.asarray(thresholds, float)
    if not ((falling >= 0) & (falling <= 1)).all() or (np.diff(falling) > 0).any():
        raise InputError(f"thresholds must lie in [0, 1] and must not rise with the level, but are {list(thresholds)}")
    gap, level = _gap(pilot), np.zeros(pilot.shape[1:], np.int64)
    for index, threshold in enumerate(falling, start=1):
        level[gap <= threshold] = index
    return level


def _gap(pilot: IntArray) -> FloatArray:
    """The share of the pilot's draws of the most frequent label, less that of the second."""
    first, second = np.zeros(pilot.shape[1:], np.int64), np.zeros(pilot.shape[1:], np.int64)
    for plane in pilot.astype(np.int64, copy=False):
        second = np.maximum(second, np.minimum(first, plane))
        first = np.maximum(first, plane)
    return np.asarray((first - second) / pilot.sum(0, dtype=np.int64))


def _most_frequent_group(pilot: IntArray, level: IntArray) -> IntArray:
    """The group of a level that most of the pilot's draws are in, the lowest of equals."""
    best, own = np.full(pilot.shape[1:], -1, np.int64), np.zeros(pilot.shape[1:], level.dtype)
    for group in np.unique(level):
        count = pilot[level[: len(pilot)] == group].sum(0, dtype=np.int64)
        own[count > best] = group
        best = np.maximum(best, count)
    return own


def _counted(counts: IntArray, level: IntArray, own: IntArray) -> IntArray:
    """How many draws are in each component's own group of a level."""
    agree = np.zeros(own.shape, np.int64)
    for label, plane in enumerate(counts):
        agree += np.where(level[label] == own, plane, 0)
    return agree


def _certified(votes: Votes, agree: IntArray, *, tau: float, alpha: float) -> BoolArray:
    """Where Holm certifies that the probability of an event exceeds tau, of which so many of the n draws are."""
    tested = agree if votes.mask is None else agree[votes.mask]
    enough = label_threshold(
        np.bincount(tested.ravel(), minlength=votes.n + 1), n=votes.n, tau=tau, alpha=alpha, chosen=PROCEDURES["holm"]
    )  # fmt: skip
    return np.asarray(agree >= enough if votes.mask is None else (agree >= enough) & votes.mask)


def _radius(votes: Votes, tau: float) -> float:
    return float(votes.noise.radius(tau, None, votes.input_shape))


def _require_counts(votes: Votes) -> IntArray:
    if votes.counts is None or not votes.n0:
        raise InputError("groups need votes with a pilot (n0 >= 1) and the counts of all classes (counts=True)")
    return votes.counts


def _require_levels(votes: Votes, levels: Sequence[IntArray]) -> list[IntArray]:
    """The levels as arrays, all of the same classes, and of those that were counted."""
    C, found = len(_require_counts(votes)), [np.asarray(level) for level in levels]
    if not found:
        raise InputError("there must be at least one level of groups")
    for level in found:
        if level.ndim != 1 or len(level) < C or level.shape != found[0].shape:
            raise InputError(f"a level must give the group of {C} classes, but has shape {level.shape}")
    return found
