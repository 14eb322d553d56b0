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
from segcertify.sampling.kernels.trust import trusted

FACTORS = {2: 2, 4: 4, 8: 2, 16: 1}
"""Of each factor the rows between two scores that one thread takes: more would not fit into registers."""
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
        """Whether kernels, which gave what the twins give, take them."""
        if self.values.dtype not in TYPES or not fused(self.values):
            return False
        factor = self.factor
        kind = "logarithms" if self.logs else "logits"
        case = f"{kind} in {self.values.dtype}, upsampled by {factor or 'any factor'}, on {self.values.device}"
        return trusted("counts", case, lambda: _differs(self.values.device, self.values.dtype, self.logs, factor))

    @property
    def factor(self) -> int:
        """How many times as large the image is, if that is a power of two for which kernels have a form; else 0."""
        factor = self.size[0] // self.values.shape[2]
        whole = tuple(factor * side for side in self.values.shape[2:]) == self.size
        return factor if whole and factor in FACTORS else 0


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


def _differs(device: torch.device, dtype: torch.dtype, logs: bool, factor: int) -> str:
    """Which of the kernels give something else than the twin for small scores; empty if none."""
    from segcertify.sampling.kernels import triton_scores

    values = torch.randn((3, 5, 4, 6), generator=torch.Generator().manual_seed(8)).mul_(8).to(device, dtype)
    size = (4 * factor, 6 * factor) if factor else (9, 11)
    twin = labels_twin(Scores(values, size, logs), torch.zeros(1, dtype=torch.int32, device=device))
    candidate, sevens = twin[1].to(torch.int16), torch.full((6, *size), 7, dtype=torch.uint8, device=device)

    def agreement(asked: Scores, bad: torch.Tensor) -> torch.Tensor:
        agree = sevens[0].clone()
        triton_scores.add_agreement(asked, candidate, agree, bad)
        return agree

    def class_counts(asked: Scores, bad: torch.Tensor) -> torch.Tensor:
        counts = sevens.clone()
        triton_scores.add_class_counts(asked, counts, bad)
        return counts

    right = {
        "label_maps": (triton_scores.label_maps, twin.to(torch.int16)),
        "add_agreement": (agreement, sevens[0] + (twin == candidate).sum(0, dtype=torch.uint8)),
        "add_class_counts": (class_counts, sevens.clone().scatter_add_(0, twin, sevens.new_ones(twin.shape))),
    }
    wrong = []
    for name, (kernel, expected) in right.items():
        fine = []
        for value in (0.0, torch.nan, torch.inf):
            asked, bad = Scores(values.clone(), size, logs), torch.zeros(1, dtype=torch.int32, device=device)
            asked.values[2, 4, 3, 5] += value
            found = kernel(asked, bad)
            fine.append(torch.equal(found, expected) and not int(bad) if value == 0 else int(bad) == 1)
        wrong += [] if all(fine) else [f"{name} (right without and with NaN and infinity: {fine})"]
    return f"wrong are {', '.join(wrong)}" if wrong else ""


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
