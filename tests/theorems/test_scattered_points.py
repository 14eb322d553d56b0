"""Points of a generated shape are spread evenly over its surface."""

import numpy as np
import pytest
from scipy.stats import chisquare

from tools.shapes.surfaces import areas, box, extruded, frustum, scatter

FORMS = {
    "box": (box(1, 2, 3),),
    "cone": (frustum(1, 0, 2, axis="x", sides=64),),
    "outline": (extruded([(0, 0), (2, 0), (2, 1), (1, 1), (1, 3), (0, 3)], 1),),
}


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "surface", [FORMS[name][0] for name in ("box", "cone", "outline")], ids=["box", "cone", "outline"]
)
def test_points_are_uniform_by_area(surface, rng):
    """Chi-square over the triangles; a false alarm in 1 of 10^4 seeds for each form."""
    share = areas(surface) / areas(surface).sum()
    surface, share = surface[share > 0], share[share > 0]
    hits = np.bincount(scatter(surface, 20_000, rng).triangles, minlength=len(surface))
    assert chisquare(hits, share * 20_000).pvalue > 1e-4


@pytest.mark.statistical
def test_points_are_uniform_within_a_triangle(rng):
    """A false alarm in 1 of 10^4 seeds: the middle triangle gets a quarter, as each corner does."""
    triangle = np.array([[(0, 0, 0), (3, 0, 0), (0, 1, 0)]], float)
    weight = np.linalg.solve(
        [[0, 3, 0], [0, 0, 1], [1, 1, 1]], np.insert(scatter(triangle, 4000, rng).points[:, :2], 2, 1, 1).T
    )
    corner = np.where(weight.max(axis=0) > 0.5, weight.argmax(axis=0), 3)
    assert chisquare(np.bincount(corner)).pvalue > 1e-4
