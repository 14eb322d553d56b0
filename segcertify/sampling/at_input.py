"""What a model says to a few noisy copies of the input itself: by this a checkpoint knows its model again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from segcertify.arrays import Array
from segcertify.sampling.probe import fingerprint
from segcertify.sampling.segmenter import to_labels, upsampled
from segcertify.storage import archive
from segcertify.votes import ROUNDING


@dataclass(frozen=True, eq=False)
class InputAnswers:
    """About 512 of the model's numbers at noisy copies of the input, and all of its labels there."""

    fingerprint: tuple[float, ...]
    labels: Array

    @classmethod
    def of(cls, output: torch.Tensor, batch: torch.Tensor) -> Self:
        """From the model's output for the copies."""
        return cls(fingerprint(output), archive.smallest_integers(to_labels(output, batch).cpu().numpy()))


def may_be_labels(stored: Array, output: torch.Tensor, batch: torch.Tensor) -> bool:
    """Whether labels are those of a model's output, or such as rounding may put in their place.

    A model that gives labels has no rounding. Of one that gives logits, those of both labels must be nearly equal.
    """
    labels = to_labels(output, batch).cpu().numpy()
    if not output.is_floating_point():
        return np.array_equal(stored, labels)
    if stored.shape != labels.shape or stored.dtype.kind != "i":
        return False
    if stored.min() < 0 or stored.max() >= output.shape[1]:
        return False
    logits = upsampled(output, batch)
    before = torch.from_numpy(stored).to(logits.device, torch.int64)[:, None]
    gaps = logits.amax(1) - logits.gather(1, before)[:, 0]  # 0 where the label is the same
    return float(gaps.max()) <= ROUNDING * float(logits.max() - logits.min())
