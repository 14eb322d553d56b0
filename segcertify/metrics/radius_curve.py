"""Certified accuracy against the radius, valid at all radii at once."""

from dataclasses import dataclass

import numpy as np

from segcertify.arrays import Array, BoolArray, FloatArray, Histogram, IntArray
from segcertify.errors import InputError, require_integer
from segcertify.metrics.scores import require_shapes
from segcertify.votes import Votes


def radius_counts(votes: Votes, target: IntArray, valid: BoolArray) -> Histogram:
    """How many valid components have the right candidate and k agreeing draws, k = 0 .. n: (n + 1,).

    With `radius_table` this is all that certified accuracy against radius needs.
    Components that the votes' mask left out are never certified and not counted.
    """
    target, valid = np.asarray(target), np.asarray(valid)
    require_shapes(target, valid, votes.candidate.shape)
    right = valid & (votes.candidate == target)
    if votes.mask is not None:
        right &= votes.mask
    return np.bincount(votes.agree[right], minlength=votes.n + 1)


@dataclass(frozen=True, eq=False)
class RadiusCurve:
    """Certified accuracy at every radius: ``accuracy[j]`` up to ``radii[j]``, which increase; 0 beyond the last."""

    radii: FloatArray
    accuracy: FloatArray

    def __call__(self, radius: float) -> float:
        """The fraction of valid components that are right and certified within ``radius`` at least."""
        step = int(np.searchsorted(self.radii, radius, side="left"))
        return float(self.accuracy[step]) if step < len(self.radii) else 0.0


def certified_accuracy_curve(counts: Array, radii_table: Array, valid_total: int) -> RadiusCurve:
    """Certified accuracy as a function of the radius, valid at all radii at once.

    ``counts`` are `radius_counts` and ``radii_table`` the `radius_table` they belong
    to: of one scene, summed over scenes with the same n, N and noise, or stacked
    over M scenes (the radii of large and small scenes differ). ``valid_total`` is
    the number of valid components in all of them. With probability at least
    1 - M alpha, at every radius R at once, at least the given fraction of
    components is right under every perturbation within R.

    >>> curve = certified_accuracy_curve(np.array([5, 3, 2]), np.array([0, 0.1, 0.3]), 20)
    >>> [curve(radius) for radius in (0, 0.1, 0.2, 0.3, 0.4)]
    [0.25, 0.25, 0.1, 0.1, 0.0]
    """
    counts, radii = np.asarray(counts), np.asarray(radii_table, float)
    if counts.shape != radii.shape:
        raise InputError(f"counts {counts.shape} and radii_table {radii.shape} must have the same shape")
    if require_integer("valid_total", valid_total) < counts.sum():
        raise InputError(f"valid_total={valid_total} is less than the {counts.sum()} components counted")
    proven = (radii > 0) & (counts > 0)
    steps, step = np.unique(radii[proven], return_inverse=True)
    exactly = np.bincount(step, weights=counts[proven], minlength=len(steps))  # whole numbers below 2^53: exact
    return RadiusCurve(steps, exactly[::-1].cumsum()[::-1] / valid_total)
