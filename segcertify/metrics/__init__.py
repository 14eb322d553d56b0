"""How good a segmentation is, certified or not."""

from segcertify.metrics.certificate import MetricCertificate
from segcertify.metrics.map_metrics import MapMetric, agreement, area, dice, miou, overall_accuracy, recall, volume
from segcertify.metrics.planning import MetricPlan, plan_metric
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
    mislabelled,
    shape_iou,
    to_plain,
    worst_case_accuracy,
    worst_case_iou,
    worst_case_shape_iou,
)
from segcertify.metrics.sets import (
    SetCounts,
    SetScores,
    set_counts,
    set_scores,
    sets_from_plain,
    sets_to_plain,
    worst_case_set_iou,
)

__all__ = [
    "FORMS", "Confusion", "MapMetric", "MetricCertificate", "MetricPlan", "RadiusCurve", "SetCounts", "SetScores",
    "abstention", "accuracy", "agreement", "area", "certified_accuracy_curve", "class_abstention", "class_accuracy",
    "confusion", "dice", "from_plain", "iou", "mean_iou", "miou", "mislabelled", "overall_accuracy", "plan_metric",
    "radius_counts", "recall", "set_counts", "set_scores", "sets_from_plain", "sets_to_plain", "shape_iou",
    "to_plain", "volume", "worst_case_accuracy", "worst_case_iou", "worst_case_set_iou", "worst_case_shape_iou",
]  # fmt: skip
