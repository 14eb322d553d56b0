"""How good a segmentation is, certified or not."""

from segcertify.metrics.radius_curve import RadiusCurve, certified_accuracy_curve, radius_counts
from segcertify.metrics.scores import (
    FORMS,
    Confusion,
    abstention,
    accuracy,
    class_abstention,
    class_accuracy,
    confusion,
    from_plain,
    iou,
    mean_iou,
    shape_iou,
    to_plain,
    worst_case_iou,
    worst_case_shape_iou,
)

__all__ = [
    "FORMS", "Confusion", "RadiusCurve", "abstention", "accuracy", "certified_accuracy_curve", "class_abstention",
    "class_accuracy", "confusion", "from_plain", "iou", "mean_iou", "radius_counts", "shape_iou", "to_plain",
    "worst_case_iou", "worst_case_shape_iou",
]  # fmt: skip
