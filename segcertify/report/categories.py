"""Scores of point clouds by category, in ShapeNet's convention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from segcertify import metrics
from segcertify.records import Record, grouped


@dataclass(frozen=True)
class Category:
    """The shapes of one category under one setting.

    ``accuracy`` and ``abstained`` are shares of all their points; ``iou`` and
    ``worst_case_iou`` are means over shapes of `metrics.shape_iou` and
    `metrics.worst_case_shape_iou`.
    """

    name: str
    shapes: int
    accuracy: float
    abstained: float
    iou: float
    worst_case_iou: float


class ShapeScores(NamedTuple):
    """Shape IoU over all categories.

    ``mean`` is over shapes, ``category_mean`` over the means of the categories;
    ``worst_case`` is a lower bound on ``mean`` under attack: over M shapes it
    holds with probability at least 1 - M alpha.
    """

    mean: float
    category_mean: float
    worst_case: float


def by_category(records: Sequence[Record], parts: Mapping[str, Sequence[int]], b: int = 0) -> tuple[Category, ...]:
    """The categories of one setting's records, by name; ``parts`` are their classes. Other records are left out.

    ``b`` labels of each shape may not hold.
    """
    groups = grouped(records, lambda record: record.category or "")
    return tuple(_category(name, groups[name], parts[name], b) for name in sorted(groups) if name in parts)


def shape_scores(categories: Sequence[Category]) -> ShapeScores:
    """The scores of at least one category together."""
    shapes = [category.shapes for category in categories]
    return ShapeScores(
        mean=fmean([category.iou for category in categories], shapes),
        category_mean=fmean(category.iou for category in categories),
        worst_case=fmean([category.worst_case_iou for category in categories], shapes),
    )


def _category(name: str, records: Sequence[Record], parts: Sequence[int], b: int) -> Category:
    matrices = [metrics.from_plain(record.confusion or {}) for record in records]
    pooled = np.sum(matrices, axis=0)
    return Category(
        name,
        shapes=len(records),
        accuracy=metrics.accuracy(pooled),
        abstained=metrics.abstention(pooled),
        iou=fmean(metrics.shape_iou(matrix, parts) for matrix in matrices),
        worst_case_iou=fmean(metrics.worst_case_shape_iou(matrix, parts, b=b) for matrix in matrices),
    )
