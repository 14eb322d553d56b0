"""Counts of many classes in a file: what goes in comes out, in little space."""

import numpy as np
import pytest

from segcertify.errors import InputError
from segcertify.storage import sparse


@pytest.mark.parametrize("shape", [(), (5,), (3, 8), (2, 3, 7)])
@pytest.mark.parametrize("largest", [1, 200, 40_000])
def test_planes_come_back(shape, largest):
    rng = np.random.default_rng(0)
    planes = rng.integers(0, largest + 1, (6, *shape)) * (rng.random((6, *shape)) < 0.3)
    arrays = sparse.packed("counts", planes)
    assert sparse.packed_planes("counts", arrays) == 6
    assert sparse.packed_planes("others", arrays) == 0
    back = np.stack([*sparse.unpacked("counts", arrays, shape)])
    assert np.array_equal(back, planes)


def test_few_counts_take_little_space():
    planes = np.zeros((100, 4096), np.int32)
    planes[7] = 3
    assert sum(array.nbytes for array in sparse.packed("counts", planes).values()) == 100 * 512 + 4096


def test_arrays_that_do_not_fit_are_refused():
    arrays = sparse.packed("counts", np.ones((2, 9), int))
    for wrong in ((8,), (17,)):
        with pytest.raises(InputError, match="are not of components of shape"):
            list(sparse.unpacked("counts", arrays, wrong))
    for values in (arrays["counts_values"][:-1], arrays["counts_values"][:9], np.ones(19, int)):  # 9: the first plane's
        with pytest.raises(InputError, match="are not of components of shape"):
            list(sparse.unpacked("counts", {**arrays, "counts_values": values}, (9,)))
    for name in arrays:
        with pytest.raises(InputError, match="are not of components of shape"):
            list(sparse.unpacked("counts", {name: arrays[name]}, (9,)))
    assert sparse.packed_planes("counts", {"counts_above_zero": np.uint8(3)}) == 0
