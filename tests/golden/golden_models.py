"""Models whose answers have no rounding: thresholds of single entries, and integer arithmetic.

Every CPU gives the same labels, as long as no entry of a noisy input lies within rounding of a threshold.
`nearest` tells how near the nearest entry came, so that `generate.py` can refuse a seed that is not safe.
"""

import math
from dataclasses import dataclass

import torch

_NEAREST = [math.inf]


def nearest():
    """The smallest distance of any compared entry from its threshold since the last call."""
    distance, _NEAREST[0] = _NEAREST[0], math.inf
    return distance


def above(values, threshold):
    """Whether each value lies above its threshold."""
    _NEAREST[0] = min(_NEAREST[0], float((values - threshold).abs().min()))
    return values > threshold


@dataclass(frozen=True)
class Bits:
    """Each component's label is a binary number: bit i says whether entry ``chosen[i]`` along ``axis`` is high.

    ``axis`` counts the batch axis too. With ``one_hot`` the answer is logits, else labels.
    """

    axis: int
    chosen: tuple[int, ...]
    threshold: float
    one_hot: bool = False

    def __call__(self, batch):
        bits = [
            above(batch.select(self.axis, entry), self.threshold).long() << i for i, entry in enumerate(self.chosen)
        ]
        labels = torch.stack(bits).sum(0)
        if not self.one_hot:
            return labels
        return torch.nn.functional.one_hot(labels, 2 ** len(self.chosen)).movedim(-1, 1).float()


class Fickle:
    """A random model of images: its seed picks one of five thresholds, and the label where it is not reached."""

    random = True

    def __call__(self, batch, seeds):
        eighths = torch.tensor([2 + seed % 5 for seed in seeds])[:, None, None]
        otherwise = torch.tensor([2 * (seed % 3 == 0) for seed in seeds])[:, None, None]
        return torch.where(above(batch[:, 0], eighths / 8), 1, otherwise)


def image():
    """Labels 0 .. 7 of images with three channels, (B, 3, H, W)."""
    return Bits(1, (0, 1, 2), 0.5)


def image_logits():
    """The same as logits (B, 8, H, W)."""
    return Bits(1, (0, 1, 2), 0.5, one_hot=True)


def cloud():
    """Labels 0 .. 3 of clouds (B, N, columns), by the first and the last column."""
    return Bits(2, (0, -1), 3.5 / 64)


def classifier():
    """One label 0 .. 3 for each vector (B, d), by its first two entries."""
    return Bits(1, (0, 1), 0.5)


def fickle():
    """Labels 0 .. 2 of images, at random."""
    return Fickle()
