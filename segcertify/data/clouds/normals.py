"""Normals of a cloud whose file has none, estimated from its points."""

import numpy as np
from scipy.spatial import cKDTree

from segcertify.arrays import FloatArray

NEIGHBOURS, AT_ONCE = 16, 1 << 16


def estimated_normals(points: FloatArray) -> FloatArray:
    """The direction in which each point's nearest neighbours vary least, away from the middle of all points.

    Parameters
    ----------
    points : array (N, 3)

    Returns
    -------
    array (N, 3)
        Vectors of length 1, rounded to 6 decimals: machines that differ in the last bits give the same.

    Examples
    --------
    >>> flat = np.array([[x, y, 0.0] for x in range(5) for y in range(5)])
    >>> np.abs(estimated_normals(flat)[12]).tolist()
    [0.0, 0.0, 1.0]
    """
    tree, middle = cKDTree(points), points.mean(axis=0)
    found = np.empty_like(points)
    for first in range(0, len(points), AT_ONCE):
        some = points[first : first + AT_ONCE]
        near = points[tree.query(some, k=min(NEIGHBOURS, len(points)))[1].reshape(len(some), -1)]
        near = near - near.mean(axis=1, keepdims=True)
        least = np.linalg.eigh(np.einsum("nki,nkj->nij", near, near)).eigenvectors[:, :, 0]
        inward = (least * (some - middle)).sum(axis=1) < 0
        found[first : first + AT_ONCE] = np.where(inward[:, None], -least, least)
    return found.round(6) + 0.0  # no negative zeros
