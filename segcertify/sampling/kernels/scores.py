"""From a network's scores to counts of labels: upsampling, arg-max, comparison and counting in one pass.

Scores are a network's logits, or logarithms of scores (``logs``), possibly coarser than the image: they are resized
bilinearly (logarithms: their exponentials are), and a pixel's label is the class of the largest, the lowest of equals.
Full-size scores and label maps are never held. Nothing here waits for the device: scores that are not finite raise a
flag on it, which the host reads before any count is used. (Of logarithms, minus infinity is a score of 0.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import interpolate

from segcertify.sampling.kernels.fused import fused

TYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores (B, classes, h, w) of images of a size, as a model gave them."""

    values: torch.Tensor
    size: tuple[int, int]
    logs: bool = False
    """Whether they are logarithms of the scores."""

    @property
    def fused(self) -> bool:
        """Whether a kernel takes them."""
        return fused(self.values) and self.values.dtype in TYPES


def add_agreement(scores: Scores, candidate: torch.Tensor, agree: torch.Tensor, bad: torch.Tensor) -> None:
    """Add to ``agree`` (H, W) how many label maps have the candidate's label; ``bad`` becomes 1 where scores are."""
    if scores.fused:
        from segcertify.sampling.kernels import triton_scores

        triton_scores.add_agreement(scores, candidate.contiguous(), agree, bad)
    else:
        agree += (labels_twin(scores, bad) == candidate).sum(0, dtype=agree.dtype)


def add_class_counts(scores: Scores, counts: torch.Tensor, bad: torch.Tensor) -> None:
    """Add to ``counts`` (at least as many classes, H, W) how many label maps have each class."""
    if scores.fused:
        from segcertify.sampling.kernels import triton_scores

        triton_scores.add_class_counts(scores, counts, bad)
    else:
        labels = labels_twin(scores, bad)
        counts.scatter_add_(0, labels, counts.new_ones(()).expand(labels.shape))


def label_maps(scores: Scores, bad: torch.Tensor) -> torch.Tensor:
    """The labels themselves, (B, H, W), in int64."""
    if scores.fused:
        from segcertify.sampling.kernels import triton_scores

        return triton_scores.label_maps(scores, bad).long()
    return labels_twin(scores, bad)


def labels_twin(scores: Scores, bad: torch.Tensor) -> torch.Tensor:
    """What the kernels compute, in plain torch."""
    values = scores.values
    finite = values.isfinite() | (values == -torch.inf) if scores.logs else values.isfinite()
    bad |= ~finite.all() | (scores.logs and (values.amax(1) == -torch.inf).any())
    if tuple(values.shape[2:]) == scores.size:
        return values.argmax(1)
    if scores.logs:
        return resize_exp(values.float(), scores.size).argmax(1)
    return interpolate(values.float(), size=scores.size, mode="bilinear", align_corners=False).argmax(1)


def resize_exp(logs: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """log of the bilinear resize of exp(logs), without overflow or underflow: one axis at a time."""
    for axis, target in ((2, size[0]), (3, size[1])):
        if logs.shape[axis] != target:
            logs = _resize_axis(logs, axis, target)
    return logs


def _resize_axis(logs: torch.Tensor, axis: int, target: int) -> torch.Tensor:
    """log((1 - w) exp(a) + w exp(b)) between the two source entries of each target entry (half-pixel centres)."""
    source = logs.shape[axis]
    centres = ((torch.arange(target, dtype=torch.float64) + 0.5) * source / target - 0.5).clamp(0, source - 1)
    low = centres.floor().long().clamp(max=max(source - 2, 0))
    weight = (centres - low).float().view([-1 if i == axis else 1 for i in range(4)]).to(logs.device)
    ends = low, (low + 1).clamp(max=source - 1)
    below, above = ((slice(None),) * axis + (index.to(logs.device),) for index in ends)
    out = logs.new_empty([target if i == axis else side for i, side in enumerate(logs.shape)])
    for c in range(logs.shape[1]):  # a class at a time: temporaries stay small
        plane = logs[:, c : c + 1]
        out[:, c : c + 1] = torch.logaddexp(plane[below] + torch.log1p(-weight), plane[above] + weight.log())
    return out
