"""Nested groups of classes, the baseline beside sets: after the hierarchies of Anani et al. (2024), made sound.

Their rule looks at the gap of two posteriors to choose a level and then tests it. Here the levels are fixed before
sampling, and each is tested for all components at an equal share of alpha: any choice among them is then allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from segcertify.arrays import BoolArray, IntArray
from segcertify.errors import InputError, require_probability
from segcertify.stats.correction import PROCEDURES
from segcertify.stats.pilotless import label_threshold
from segcertify.votes import Votes


@dataclass(frozen=True, eq=False)
class Groups:
    """The finest level at which each component's group is certified (-1: none), and that group as a set of classes.

    With probability at least 1 - alpha, for all components with a level and all perturbations within ``radius``, the
    probability of the set stays above 1/2: a majority label, where there is one, is in it.
    """

    level: IntArray
    sets: BoolArray
    radius: float
    alpha: float


def certify_groups(votes: Votes, levels: Sequence[IntArray], *, tau: float, alpha: float) -> Groups:
    """Certify the group of each candidate at each level, by Holm at alpha / L, and keep the finest that holds.

    ``levels`` says for each class which group it is in, (classes,), from fine to coarse; it must be chosen before
    sampling. Votes need a pilot and the counts of all classes.
    """
    tau = require_probability("tau", tau, low=0.5, closed=True)
    alpha = require_probability("alpha", alpha)
    if votes.counts is None or not votes.n0:
        raise InputError("groups need votes with a pilot (n0 >= 1) and the counts of all classes (counts=True)")
    counts, C = votes.counts, len(votes.counts)
    found = np.full(votes.candidate.shape, -1)
    sets = np.ones(counts.shape, bool)
    for index in reversed(range(len(levels))):  # finer ones come last and replace coarser ones
        group = np.asarray(levels[index])
        if group.shape != (C,):
            raise InputError(f"a level must give the group of {C} classes, but has shape {group.shape}")
        own = group[votes.candidate]
        agree = np.zeros(votes.candidate.shape, np.int64)
        for label, plane in enumerate(counts):
            agree += np.where(group[label] == own, plane, 0)
        tested = agree if votes.mask is None else agree[votes.mask]
        enough = label_threshold(
            np.bincount(tested.ravel(), minlength=votes.n + 1), n=votes.n, tau=tau, alpha=alpha / len(levels),
            chosen=PROCEDURES["holm"],
        )  # fmt: skip
        certified = agree >= enough if votes.mask is None else (agree >= enough) & votes.mask
        found[certified] = index
        for label in range(C):
            sets[label][certified] = group[label] == own[certified]
    return Groups(found, sets, float(votes.noise.radius(tau, None, votes.input_shape)), alpha)
