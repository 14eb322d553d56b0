"""Kernels that fail or differ are found out before they are used: planted ones, in the place of Triton's."""

import importlib.util
import warnings

import pytest
import torch
from cloud_cases import cases

from segcertify.models.networks import grouping, trusted_kernels
from segcertify.models.networks.pointnet2 import _offset_features
from segcertify.models.networks.trusted_kernels import kernel, trusted

CPU = torch.device("cpu")
SIZES = {"farthest": 90, "ball": 6, "nearest": 0, "offset_features": 20}


class Kernels:
    """Right ones, in plain torch."""

    @staticmethod
    def fits(xyz):
        return True

    @staticmethod
    def farthest(xyz, count, start):
        return grouping.farthest(xyz, count, start)

    @staticmethod
    def ball(xyz, chosen, radius, most):
        return grouping.ball(xyz, chosen, radius, most)

    @staticmethod
    def nearest(xyz, chosen):
        return grouping.nearest(xyz, chosen)

    @staticmethod
    def offset_features(*arguments):
        return _offset_features(*arguments).relu()


def last_of_equals(xyz, count, start):
    """Of equally far points, the last."""
    turned = grouping.farthest(xyz.flip(1), count, xyz.shape[1] - 1 - start)
    return xyz.shape[1] - 1 - turned


def radius_not_squared(xyz, chosen, radius, most):
    return grouping.ball(xyz, chosen, radius**0.5, most)


def filled_with_the_last(xyz, chosen, radius, most):
    points, sizes = grouping.ball(xyz, chosen, radius, most)
    return points.gather(2, torch.minimum(torch.arange(most), sizes.unsqueeze(2) - 1)), sizes


def copies_counted(xyz, chosen, radius, most):
    points, sizes = grouping.ball(xyz, chosen, radius, most)
    return points, torch.full_like(sizes, most)


def of_the_first_cloud(xyz, chosen):
    """Neighbours among another cloud's centres."""
    return grouping.nearest(xyz[:1].expand_as(xyz), chosen)


def last_of_equal_centres(xyz, chosen):
    return chosen.shape[1] - 1 - grouping.nearest(xyz, chosen.flip(1))


def offsets_turned(features, xyz, centres, *others):
    return _offset_features(features, centres[:, [0] * xyz.shape[1]], xyz, *others).relu()


def not_compiled(*arguments):
    raise RuntimeError("no such target")


DEFECTS = [
    ("farthest", last_of_equals), ("farthest", not_compiled),
    ("ball", radius_not_squared), ("ball", filled_with_the_last), ("ball", copies_counted), ("ball", not_compiled),
    ("nearest", of_the_first_cloud), ("nearest", last_of_equal_centres), ("nearest", not_compiled),
    ("offset_features", offsets_turned), ("offset_features", not_compiled),
    ("offset_features", _offset_features),  # without ReLU
]  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_right_kernels_are_trusted(name):
    assert trusted(Kernels(), name, CPU, SIZES[name])


@pytest.mark.parametrize(("name", "defect"), DEFECTS)
def test_wrong_kernels_are_not_used_and_one_warning_says_so(name, defect):
    planted = type("Planted", (Kernels,), {name: staticmethod(defect)})()
    reason = "failed with RuntimeError: no such target" if defect is not_compiled else "differs from plain code"
    with pytest.warns(RuntimeWarning, match=rf"kernel '{name}' is not used on cpu .*{reason}.*Plain torch"):
        assert not trusted(planted, name, CPU, SIZES[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not trusted(planted, name, CPU, SIZES[name])
        assert all(trusted(planted, other, CPU, SIZES[other]) for other in SIZES if other != name)


def test_memory_that_ran_out_says_nothing_about_a_kernel():
    def large(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory")

    planted = type("Planted", (Kernels,), {"nearest": staticmethod(large)})()
    with pytest.raises(torch.OutOfMemoryError):
        trusted(planted, "nearest", CPU, 0)
    type(planted).nearest = staticmethod(Kernels.nearest)
    assert trusted(planted, "nearest", CPU, 0)


class OnCuda(torch.Tensor):
    """A tensor that says it is on a GPU, and is not."""

    is_cuda = True


@pytest.mark.parametrize("defect", [None, not_compiled])
def test_the_way_to_the_neighbours(monkeypatch, defect):
    """Kernels are used where they are right, and plain torch where they are not."""
    used = []

    def farthest(xyz, count, start):
        used.append(count)
        return grouping.farthest(xyz.as_subclass(torch.Tensor), count, start)

    planted = type("Planted", (Kernels,), {"farthest": staticmethod(defect or farthest)})()
    monkeypatch.setattr(trusted_kernels, "_kernels", lambda: planted)
    case = cases()["random"]
    xyz, start = torch.from_numpy(case.xyz), torch.tensor(case.start)
    expected = grouping.farthest(xyz, 7, start)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert torch.equal(grouping.farthest(xyz.as_subclass(OnCuda), 7, start), expected)
    assert (used[1:], len(said)) == (([], 1) if defect else ([7], 0))


def test_only_cuda_has_kernels_and_without_triton_none_has(monkeypatch):
    assert kernel("nearest", torch.zeros(1, 600, 3)) is None
    monkeypatch.setattr(trusted_kernels, "_kernels", lambda: None)
    assert kernel("nearest", torch.zeros(1, 600, 3).as_subclass(OnCuda)) is None


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernels_take_clouds_in_single_precision_that_fit():
    from segcertify.models.networks.triton_grouping import LARGEST, fits

    assert fits(torch.zeros(2, LARGEST, 3))
    assert not fits(torch.zeros(2, LARGEST + 1, 3))
    assert not fits(torch.zeros(2, 600, 3, dtype=torch.float64))
    assert not fits(torch.zeros(0, 600, 3))
