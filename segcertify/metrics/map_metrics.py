"""Metrics to certify: numbers that a label map alone decides, made with their target or class beforehand.

`segcertify.certify_metric` takes these, and any other function from an integer
label map (NumPy, of the components' shape) to a finite float. They hold no local functions, so that they can travel to
other processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from segcertify.arrays import Array, BoolArray, FloatArray, IntArray
from segcertify.errors import InputError, require_finite, require_integer, require_positive

MapFunction = Callable[[IntArray], float]


@dataclass(frozen=True, eq=False)
class MapMetric:
    """A metric with its name, and whether it is bounded on both sides.

    ``digest`` tells it from metrics of the same name with another target.
    """

    name: str
    of: MapFunction
    two_sided: bool = False
    digest: str = ""

    def __call__(self, labels: IntArray) -> float:
        """The metric of one label map."""
        return float(self.of(labels))

    def __repr__(self) -> str:
        return f"MapMetric({self.name!r})"


def overall_accuracy(target: IntArray, *, ignore: int | None = 255) -> MapMetric:
    """The share of components with the right label, among those that have ground truth.

    Where the target is ``ignore`` or negative there is none.

    >>> overall_accuracy(np.array([0, 1, 1, 255]))(np.array([0, 1, 0, 0]))
    0.6666666666666666
    """
    truth = _Truth(target, ignore)
    return truth.metric("accuracy", truth.share)


def miou(target: IntArray, *, ignore: int | None = 255) -> MapMetric:
    """The mean of the IoU over the classes that the target has.

    >>> miou(np.array([0, 0, 1, 1]))(np.array([0, 0, 0, 1]))
    0.5833333333333333
    """
    truth = _Truth(target, ignore)
    classes, sizes = np.unique(truth.known, return_counts=True)
    return truth.metric("mIoU", partial(_mean_iou, truth, classes, sizes))


def dice(target: IntArray, label: int, *, ignore: int | None = 255, undefined: float = 1.0) -> MapMetric:
    """2 TP / (|G| + |P|) of one class: the overlap of its ground truth G with the components P that get its label.

    ``undefined`` is the value where neither has a component.
    """
    truth, label = _Truth(target, ignore), require_integer("label", label, at_least=0)
    undefined = require_finite("undefined", undefined)
    value = partial(_dice, truth, truth.known == label, label, undefined)
    return truth.metric(f"Dice of class {label}", value, label, undefined)


def recall(target: IntArray, label: int, *, ignore: int | None = 255, undefined: float = 1.0) -> MapMetric:
    """The share of a class's components that get its label; ``undefined`` if the target has none of them."""
    truth, label = _Truth(target, ignore), require_integer("label", label, at_least=0)
    undefined = require_finite("undefined", undefined)
    value = partial(_recall, truth, truth.known == label, label, undefined)
    return truth.metric(f"recall of class {label}", value, label, undefined)


def area(label: int, *, pixel: float = 1.0) -> MapMetric:
    """How many components get a label, times the area of one of them. Needs no ground truth; bounded on both sides."""
    return _size("area", label, require_positive("pixel", pixel))


def volume(label: int, *, voxel: float = 1.0) -> MapMetric:
    """How many components get a label, times the volume of one of them. Needs no ground truth; bounded on both sides.

    >>> volume(2, voxel=0.5)(np.array([[2, 2], [0, 2]]))
    1.5
    """
    return _size("volume", label, require_positive("voxel", voxel))


def agreement(labels: IntArray) -> MapMetric:
    """The share of components that keep their label in a given map, such as the one that a user is shown.

    Needs no ground truth. The map must be fixed before the noise is drawn: the
    model's labels of the clean image, or those of separate draws (the candidates of
    votes with n0 > 0), never labels voted by the draws that are certified.
    Components whose label is negative (ABSTAIN) are left out.
    """
    truth = _Truth(labels, None)
    return truth.metric("agreement", truth.share)


class _Truth:
    """Ground truth of at least one component, copied: what a metric was made with must not change."""

    def __init__(self, target: IntArray, ignore: int | None) -> None:
        target = np.asarray(target)
        if target.dtype.kind not in "iu":
            raise InputError(f"the target of a metric must hold integers, but got {target.dtype}")
        valid = (target >= 0) & (True if ignore is None else target != ignore)
        if not valid.any():
            raise InputError(f"no component of the target, of shape {target.shape}, has ground truth: nothing to score")
        self.shape, self.known, self.size = target.shape, target[valid].astype(np.int64), int(valid.sum())
        self._valid: BoolArray | None = None if valid.all() else valid

    def of(self, labels: IntArray) -> Array:
        """The labels of the components that have ground truth, in one row."""
        if labels.shape != self.shape:
            raise InputError(f"the target has shape {self.shape}, but the label map has shape {labels.shape}")
        return labels.ravel() if self._valid is None else labels[self._valid]

    def share(self, labels: IntArray) -> float:
        """The share of these that are as in the ground truth."""
        return np.count_nonzero(self.of(labels) == self.known) / self.size

    def metric(self, name: str, value: MapFunction, *settings: float) -> MapMetric:
        """A metric that this ground truth, and further settings, identify."""
        digest = hashlib.sha256(repr((self.shape, settings)).encode())
        digest.update(self.known.tobytes())
        digest.update(b"" if self._valid is None else self._valid.tobytes())
        return MapMetric(name, value, digest=digest.hexdigest()[:16])


def _mean_iou(truth: _Truth, classes: IntArray, sizes: IntArray, labels: IntArray) -> float:
    given = truth.of(labels)
    highest = max(int(classes[-1]), int(given.max()))
    right = np.bincount(truth.known[given == truth.known], minlength=highest + 1)[classes]
    labelled = np.bincount(given, minlength=highest + 1)[classes]
    return float((right / (sizes + labelled - right)).mean())


def _dice(truth: _Truth, wanted: BoolArray, label: int, undefined: float, labels: IntArray) -> float:
    given = truth.of(labels) == label
    both = np.count_nonzero(wanted) + np.count_nonzero(given)
    return 2 * np.count_nonzero(wanted & given) / both if both else undefined


def _recall(truth: _Truth, wanted: BoolArray, label: int, undefined: float, labels: IntArray) -> float:
    size = np.count_nonzero(wanted)
    return np.count_nonzero(wanted & (truth.of(labels) == label)) / size if size else undefined


def _times_unit(label: int, unit: float, labels: IntArray) -> float:
    return np.count_nonzero(labels == label) * unit


def _size(name: str, label: int, unit: float) -> MapMetric:
    label = require_integer("label", label, at_least=0)
    return MapMetric(f"{name} of class {label}", partial(_times_unit, label, unit), two_sided=True, digest=repr(unit))


def metric_name(metric: MapFunction) -> str:
    """The name of a metric: its own, or that of the function."""
    if not callable(metric):
        raise InputError(
            f"a metric must be a function from a label map to a number, but got {metric!r}: use such as "
            "metrics.miou(target), metrics.overall_accuracy(target), or a function of your own"
        )
    name = getattr(metric, "name", None) or getattr(metric, "__name__", None) or type(metric).__name__
    return str(name)


def metric_value(metric: MapFunction, labels: IntArray) -> float:
    """A metric of one label map, checked to be a finite number."""
    try:
        value = float(metric(labels))
    except Exception as error:
        raise InputError(
            f"the metric {metric_name(metric)} failed on a label map of shape {labels.shape}, "
            f"{type(error).__name__}: {error}"
        ) from error
    if not np.isfinite(value):
        raise InputError(
            f"the metric {metric_name(metric)} is {value} for a noisy run: give undefined cases a finite value that is "
            "fixed before sampling, such as 1.0 where a class is absent"
        )
    return value


def frozen_values(values: Array) -> FloatArray:
    """Values of a metric, one a draw: a read-only row of finite numbers."""
    row = np.array(values, float)
    if row.ndim != 1 or not row.size or not np.isfinite(row).all():
        raise InputError(f"the values of a metric must be a row of finite numbers, but got shape {row.shape}: {values}")
    row.flags.writeable = False
    return row
