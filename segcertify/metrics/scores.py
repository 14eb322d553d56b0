"""How good a segmentation is, certified or not: accuracy, abstention and forms of IoU, from confusion matrices.

A confusion matrix (C, C + 1) counts valid components, those that have ground
truth: rows are the ground truth, columns the labels, the last column ABSTAIN.
Matrices of several scenes add up. Of M certificates at level alpha, what is
said about all their labels together holds with probability at least 1 - M alpha.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from segcertify.arrays import Array, BoolArray, FloatArray, IntArray
from segcertify.certificate import ABSTAIN
from segcertify.errors import InputError, require_integer, unknown
from segcertify.storage import limits

Confusion = npt.NDArray[np.int64]


def confusion(labels: IntArray, target: IntArray, valid: BoolArray, *, classes: int) -> Confusion:
    """How often each ground truth got each label, over valid components: (classes, classes + 1).

    >>> confusion(np.array([0, 1, 1, ABSTAIN]), np.array([0, 0, 1, 1]), np.array([True] * 4), classes=2)
    array([[1, 1, 0],
           [0, 1, 1]])
    """
    C = require_integer("classes", classes)
    labels, target, valid = np.asarray(labels), np.asarray(target), np.asarray(valid)
    require_shapes(target, valid, labels.shape)
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels must hold integers, but got {labels.dtype}")
    if labels.size and not (labels.min() >= ABSTAIN and labels.max() < C):
        raise InputError(
            f"labels must be ABSTAIN or lie in 0 .. {C - 1}, but span {labels.min()} .. {labels.max()}: "
            "does the model have other classes than the data set?"
        )
    rows, columns = target[valid].astype(np.int64), labels[valid].astype(np.int64)
    if rows.size and not (rows.min() >= 0 and rows.max() < C):
        raise InputError(f"target must lie in 0 .. {C - 1} where valid, but spans {rows.min()} .. {rows.max()}")
    columns[columns == ABSTAIN] = C
    return np.bincount(rows * (C + 1) + columns, minlength=C * (C + 1)).reshape(C, C + 1)


def accuracy(matrix: Confusion) -> float:
    """The fraction of valid components whose label is right; an abstention is wrong. NaN if none is valid."""
    matrix = _require_matrix(matrix)
    return _ratio(np.trace(matrix), matrix.sum())


def worst_case_accuracy(matrix: Confusion, *, b: int = 0) -> float:
    """The smallest accuracy under attack if at most ``b`` certified labels do not hold. NaN if none is valid.

    Certified labels that are right stay so, but for b of them (``guarantee="k-fwer"``,
    b = k - 1; over M scenes the sum of their budgets, with probability at least
    1 - M alpha). Which ones is not known: a single label is then no certificate.
    """
    matrix = _require_matrix(matrix)
    return _ratio(max(0, int(np.trace(matrix)) - require_integer("b", b, at_least=0)), matrix.sum())


def abstention(matrix: Confusion) -> float:
    """The fraction of valid components that abstain. NaN if none is valid.

    (The paper's code counts ignored pixels too: that is ``certificate.abstained.mean()``.)
    """
    matrix = _require_matrix(matrix)
    return _ratio(matrix[:, -1].sum(), matrix.sum())


def mislabelled(matrix: Confusion) -> float:
    """The fraction of valid components that have a label, but not the right one. NaN if none is valid.

    >>> mislabelled(np.array([[1, 1, 0], [0, 1, 1]]))
    0.25
    """
    matrix = _require_matrix(matrix)
    return _ratio(matrix[:, :-1].sum() - np.trace(matrix), matrix.sum())


def class_accuracy(matrix: Confusion) -> FloatArray:
    """The fraction of each class's valid components whose label is right; NaN where it has none: (C,)."""
    matrix = _require_matrix(matrix)
    return _ratios(np.diagonal(matrix), matrix.sum(axis=1))


def class_abstention(matrix: Confusion) -> FloatArray:
    """The fraction of each class's valid components that abstain; NaN where it has none: (C,)."""
    matrix = _require_matrix(matrix)
    return _ratios(matrix[:, -1], matrix.sum(axis=1))


def iou(matrix: Confusion) -> FloatArray:
    """TP_c / (|G_c| + |P_c| - TP_c) for each class c, NaN where neither ground truth nor labels have it: (C,).

    G_c is the ground truth's share, P_c the labels'. Abstentions count in G_c
    and in no P_c, as in the paper. **Not** a bound under attack, where an
    abstained component may take any label: that is `worst_case_iou`.
    """
    matrix = _require_matrix(matrix)
    return _ratios(np.diagonal(matrix), _labelled_or_true(matrix))


def worst_case_iou(matrix: Confusion, *, b: int = 0) -> FloatArray:
    """The smallest IoU that each class can have under attack, NaN where the ground truth lacks the class: (C,).

    TP_c / (|G_c| + #{i: y_i != c and (label_i = c or ABSTAIN)}). If the labels
    are a certificate's (``guarantee="fwer"``), then whenever it holds, no
    perturbation within its radius brings the smoothed model's IoU of class c
    below this: certified labels stay, and each abstained component is counted
    as the worst label it could take. Attackers can attain it for one class at a time.

    If at most ``b`` labels do not hold (``guarantee="k-fwer"``, b = k - 1), TP_c is
    lowered by b. A label that fails is taken from TP_c, or is added to what may be
    called c, never both; the first does more harm. It holds for all classes at once.
    """
    matrix = _require_matrix(matrix)
    return np.where(matrix.sum(axis=1) > 0, _at_worst(matrix, b), np.nan)


def shape_iou(matrix: Confusion, parts: Sequence[int]) -> float:
    """ShapeNet's score of one shape: the mean of `iou` over the ``parts`` of its category, whether it has them or not.

    A part that neither the ground truth nor the labels have counts 1. An
    abstained point belongs to no part: it is missing from its own. So is a point
    that is labelled as a part of another category.
    **Not** a bound under attack: that is `worst_case_shape_iou`.

    >>> shape_iou(confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([True] * 3), classes=3), [0, 1, 2])
    0.6666666666666666
    """
    values = iou(matrix)[_require_parts(matrix, parts)]
    return float(np.nan_to_num(values, nan=1.0).mean())


def worst_case_shape_iou(matrix: Confusion, parts: Sequence[int], *, b: int = 0) -> float:
    """A lower bound on `shape_iou` under attack: each part counted at the worst that abstained points can make of it.

    A part of the ground truth counts as in `worst_case_iou`. One that the shape
    lacks counts 0 if any point has or may take its label, else 1. Whenever the
    certificate holds (``guarantee="fwer"``), no perturbation within its radius
    brings the smoothed model's `shape_iou` below this. With ``b`` labels that may not
    hold, as in `worst_case_iou`, any of them may take the label of a part that the shape lacks.
    """
    chosen = _require_parts(matrix, parts)
    values = _at_worst(np.asarray(matrix), b)[chosen]
    return float(np.nan_to_num(values, nan=1.0).mean())


def mean_iou(matrices: Sequence[Confusion] | Array, form: str = "pooled", *, b: int = 0) -> float:
    """Mean IoU over scenes, given a confusion matrix for each. NaN where nothing is valid.

    ``"per_image"``, the paper's text [Fischer2021, app. A]: the mean over all
    (scene, class) whose IoU exists, each counting the same. A class that neither
    the ground truth nor the labels of a scene have is left out of that scene
    (the text does not say; 0 / 0 has no value).

    ``"pooled"``: the mean of `iou` of the sum of all matrices, over the classes
    that the ground truth or the labels of any scene have. The paper's released code
    does this, but averages over all C classes and counts an absent one as 0:
    ``np.nan_to_num(iou(total)).mean()``. Both agree if every class occurs.

    ``"worst_case"``: the mean of `worst_case_iou` of the sum, over the classes that
    the ground truth of any scene has. The only form that holds under attack: with
    probability at least 1 - M alpha over M scenes, no perturbations within the
    radius bring the mean of `iou` over those classes below it. ``b``, for this form
    alone, is how many labels of each scene may not hold (`worst_case_iou`).
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS, where=" of mean IoU")
    if b and form != "worst_case":
        raise InputError(f"an error budget b={b} belongs to the form 'worst_case', not to {form!r}")
    matrices = [_require_matrix(matrix) for matrix in matrices]
    if not matrices or len({matrix.shape for matrix in matrices}) > 1:
        shapes = sorted({matrix.shape for matrix in matrices})
        raise InputError(f"mean IoU needs confusion matrices of one shape, at least one, but got {shapes}")
    stack = np.stack(matrices)
    values = worst_case_iou(stack.sum(axis=0), b=b * len(stack)) if b else FORMS[form](stack)
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


FORMS: dict[str, Callable[[Confusion], FloatArray]] = {
    "per_image": lambda stack: np.concatenate([iou(matrix) for matrix in stack]),
    "pooled": lambda stack: iou(stack.sum(axis=0)),
    "worst_case": lambda stack: worst_case_iou(stack.sum(axis=0)),
}
"""The forms of mean IoU: from stacked matrices (M, C, C + 1) to the values that are averaged."""


def to_plain(matrix: Confusion) -> dict[str, Any]:
    """A confusion matrix as plain values for JSON: the number of classes and [row, column, count] where not zero.

    >>> to_plain(np.array([[1, 0, 0], [0, 0, 7]]))
    {'classes': 2, 'cells': [[0, 0, 1], [1, 2, 7]]}
    """
    matrix = _require_matrix(matrix)
    cells = [[int(row), int(column), int(matrix[row, column])] for row, column in np.argwhere(matrix)]
    return {"classes": len(matrix), "cells": cells}


def from_plain(values: Mapping[str, Any]) -> Confusion:
    """The confusion matrix that `to_plain` wrote down."""
    try:
        C = require_integer("classes", values["classes"])
        if C > limits.CLASSES:
            raise InputError(f"{C:,} classes, but at most {limits.CLASSES:,} are evaluated")
        matrix = np.zeros((C, C + 1), np.int64)
        for row, column, count in values["cells"]:
            cell = require_integer("row", row, at_least=0), require_integer("column", column, at_least=0)
            matrix[cell] = require_integer("count", count, at_least=0)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise InputError(f"not a confusion matrix ({error!r}): evaluate the scene again") from None
    return matrix


def require_shapes(target: Array, valid: Array, shape: tuple[int, ...]) -> None:
    """Refuse ground truth that does not fit labels of this shape."""
    if target.shape != shape or valid.shape != shape or valid.dtype != bool or target.dtype.kind not in "iu":
        raise InputError(
            f"target must hold integers and valid booleans of shape {shape}, as the labels, "
            f"but got {target.dtype} of shape {target.shape} and {valid.dtype} of shape {valid.shape}"
        )


def _require_matrix(matrix: Confusion) -> Confusion:
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[1] != matrix.shape[0] + 1 or not np.issubdtype(matrix.dtype, np.integer):
        raise InputError(
            f"expected a confusion matrix (C, C + 1) of integers, but got {matrix.dtype} of shape {matrix.shape}: "
            "make it with metrics.confusion"
        )
    return matrix


def _require_parts(matrix: Confusion, parts: Sequence[int]) -> list[int]:
    """A category's parts, if they are different classes and at least one."""
    C, chosen = len(_require_matrix(matrix)), [require_integer("a part", part, at_least=0) for part in parts]
    if not chosen or len(set(chosen)) < len(chosen) or max(chosen) >= C:
        raise InputError(f"parts must be different classes of 0 .. {C - 1}, at least one, but got {list(parts)}")
    return chosen


def _labelled_or_true(matrix: Confusion) -> Confusion:
    """|G_c| + |P_c| - TP_c: how many components are of each class or are labelled as it: (C,)."""
    return np.asarray(matrix.sum(axis=1) + matrix[:, :-1].sum(axis=0) - np.diagonal(matrix))


def _at_worst(matrix: Confusion, b: int) -> FloatArray:
    """The IoU of each class if b of its right labels fail, and what abstains and is of other classes takes it: (C,)."""
    b, abstained = require_integer("b", b, at_least=0), matrix[:, -1]
    whole = _labelled_or_true(matrix) + abstained.sum() - abstained
    return _ratios(np.maximum(np.diagonal(matrix) - b, 0), np.where(matrix.sum(axis=1) > 0, whole, whole + b))


def _ratio(part: int, whole: int) -> float:
    return int(part) / int(whole) if whole else float("nan")


def _ratios(part: Array, whole: Array) -> FloatArray:
    """Part by whole, NaN where the whole is 0."""
    return np.asarray(np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0), float)
