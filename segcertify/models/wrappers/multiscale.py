"""Prediction at one or several scales, as in the paper's experiments [Fischer2021, sec. 6.2].

Noise is added at the original resolution, before this wrapper. In order: the image is resized; the network's logits are
upsampled to the network's input; averaged over flips; exponentiated; averaged over tiles; resized to the image; summed
over scales. The arg-max is left to the sampler.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import interpolate, log_softmax

from segcertify.errors import InputError, require_finite, require_integer, require_positive, unknown
from segcertify.models.wrappers.adapters import adapt
from segcertify.models.wrappers.wrapper import Wrapper
from segcertify.sampling.kernels.scores import resize_exp
from segcertify.sampling.segmenter import Segmenter

Combine = Literal["exp", "softmax"]
Seeds = Sequence[int] | None

SAFE_SPREAD = 80.0
"""exp of a difference up to this, and of a sum of a few such terms, is a normal number in single precision."""


@dataclass(frozen=True)
class Setting:
    """Scales, flips and the longer side that scale 1 means; None is the image's own."""

    scales: tuple[float, ...]
    flip: bool = False
    base_size: int | None = None


SETTINGS: dict[str, Setting] = {
    "multi": Setting((0.5, 0.75, 1.0, 1.25, 1.5, 1.75), flip=True),
    "multi-pascal": Setting((0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0), flip=True, base_size=520),
}


def setting(text: str) -> Setting:
    """The paper's setting of that name, or the scales that the text lists.

    >>> setting("0.25").scales
    (0.25,)
    """
    if text in SETTINGS:
        return SETTINGS[text]
    try:
        return Setting(tuple(float(scale) for scale in text.split(",")))
    except ValueError:
        raise unknown("scale", text, SETTINGS, forms=("a number", "a list such as 0.5,1.0", *SETTINGS)) from None


class MultiScale(Wrapper):
    """A model's scores, combined over scales and flips.

    Scores are computed in single precision and are finite whatever the logits: combined in the log domain, or, for
    one scale, relative to the image's largest logit where all pixels' best classes lie within 80 of it. Neither
    changes the arg-max, and an entry of a batch never influences another.

    The model takes images (B, channels, H, W) to logits (B, classes, h, w), coarser ones included. ``scales`` are
    factors on the image's sides; the single scale 1 without flip or tile is the model itself. ``flip`` also runs it on
    the mirrored image and averages the logits. ``tile`` is the largest network input, by default the image's own size,
    and then only scales above 1 are tiled; ``stride`` is the step between tiles as a fraction of a tile (the released
    code uses 1 wherever it adds noise), and the last tile is moved back to fit. ``base_size`` is the longer side that
    scale 1 resizes an image to, by default its own; the released code has 520 for the 480 x 480 pixels of Pascal
    Context. The paper's ``combine``, "exp", sums unnormalised exponentials; "softmax" sums probabilities.
    """

    def __init__(
        self,
        model: Segmenter,
        scales: Sequence[float] = (1.0,),
        *,
        flip: bool = False,
        tile: tuple[int, int] | None = None,
        combine: Combine = "exp",
        stride: float = 1.0,
        base_size: int | None = None,
    ) -> None:
        super().__init__(adapt(model))
        self.scales = tuple(require_positive("a scale", scale) for scale in scales)
        if not self.scales:
            raise InputError("scales must name at least one scale, for example 0.25")
        if combine not in ("exp", "softmax"):
            raise InputError(f"combine must be 'exp' or 'softmax', but got {combine!r}")
        if tile is not None and len([require_integer("a side of tile", side) for side in tile]) != 2:
            raise InputError(f"tile must be (height, width), but got {tile!r}")
        if not 0 < require_finite("stride", stride) <= 1:
            raise InputError(f"stride must lie in (0, 1], or tiles would leave gaps, but got {stride!r}")
        self.flip, self.tile, self.combine, self.stride = bool(flip), tile, combine, float(stride)
        self.base_size = None if base_size is None else require_integer("base_size", base_size)

    @property
    def unchanged(self) -> bool:
        """Whether this is the model itself: one scale, at the image's own size."""
        return self.scales == (1.0,) and not self.flip and self.tile is None and self.base_size is None

    def resized(self, size: Sequence[int], scale: float) -> tuple[int, int]:
        """The height and width that an image of this height and width has at a scale."""
        if self.base_size is None:
            height, width = (side * scale for side in size)
        else:
            longer = math.floor(self.base_size * scale + 0.5)
            height, width = (side * longer / max(size) for side in size)
        return max(1, math.floor(height + 0.5)), max(1, math.floor(width + 0.5))

    def forward(self, batch: Tensor, seeds: Seeds = None) -> Tensor:
        """Scores (B, classes, H, W); for one scale below 1 (B, classes, h, w) before the last upsampling."""
        if batch.ndim != 4:
            raise InputError(f"scales are for images (B, channels, H, W), but got shape {tuple(batch.shape)}")
        if self.unchanged:
            return self.model(batch, seeds)  # type: ignore[no-any-return]
        size = batch.shape[2:]
        if len(self.scales) == 1:
            return _one_scale(self._log_scores(batch, self.scales[0], seeds), size)
        return reduce(torch.logaddexp, (resize_exp(self._log_scores(batch, s, seeds), size) for s in self.scales))

    def identity(self) -> dict[str, Any]:
        """How the scores are combined. Without a base size it is that of models made before there was one."""
        names = ["scales", "flip", "tile", "combine", "stride", *([] if self.base_size is None else ["base_size"])]
        return {name: getattr(self, name) for name in names}

    def resized_to(self, size: tuple[int, int]) -> tuple[int, int] | None:
        """The network's input, if it is one smaller image, that is not cut into tiles."""
        small = self.resized(size, self.scales[0])
        one = len(self.scales) == 1 and not self.unchanged and self.tile is None and self.scales[0] <= 1
        return small if one and small != size and small[0] <= size[0] and small[1] <= size[1] else None

    def log_scores(self, image: Tensor, seeds: Seeds = None) -> Tensor:
        """Logarithms of the scores of images that are resized already: `forward`, for a sampler that does the rest."""
        return self._logits(image, seeds)

    def _log_scores(self, batch: Tensor, scale: float, seeds: Seeds) -> Tensor:
        """Logarithms of one scale's scores, at the size of the resized image; over tiles, of their average."""
        height, width = self.resized(batch.shape[2:], scale)
        image = interpolate(batch, size=(height, width), mode="bilinear", align_corners=False)
        tile = self.tile or batch.shape[2:]
        whole = self.tile is None and scale <= 1  # with a base size, it may be larger than the image
        if whole or (height <= tile[0] and width <= tile[1]):
            return self._logits(image, seeds)
        total: Tensor | None = None
        count = image.new_zeros((height, width), dtype=torch.float32)
        for rows in _spans(height, tile[0], self.stride):
            for columns in _spans(width, tile[1], self.stride):
                logits = self._logits(image[:, :, rows, columns], seeds)
                if total is None:
                    total = logits.new_full((*logits.shape[:2], height, width), -math.inf)
                so_far = total[:, :, rows, columns].clone()
                total[:, :, rows, columns] = torch.logaddexp(so_far, logits)
                count[rows, columns] += 1
        assert total is not None
        return total.sub_(count.log())

    def _logits(self, image: Tensor, seeds: Seeds) -> Tensor:
        """Logits (for softmax, log-probabilities) at the network's input size, averaged over flips."""
        logits = self._run(image, seeds)
        if self.flip:
            logits = (logits + self._run(image.flip(3), seeds).flip(3)) / 2
        return log_softmax(logits, 1) if self.combine == "softmax" else logits

    def _run(self, image: Tensor, seeds: Seeds) -> Tensor:
        """The network's logits in single precision, at the size of its input."""
        logits: Tensor = self.model(image, seeds)
        if not logits.is_floating_point() or logits.ndim != 4 or logits.shape[0] != image.shape[0]:
            got = f"{logits.dtype} of shape {tuple(logits.shape)} for a batch of shape {tuple(image.shape)}"
            raise InputError(f"scales combine logits (B, classes, h, w), but the model gave {got}")
        logits = logits.float()
        if logits.shape[2:] == image.shape[2:]:
            return logits
        if logits.is_cuda:  # torch's kernel for channels that lie last takes several times as long for a few classes
            logits = logits.contiguous()
        return interpolate(logits, size=image.shape[2:], mode="bilinear", align_corners=False)


def _one_scale(logs: Tensor, size: Sequence[int]) -> Tensor:
    """exp of the log scores, relative to each image's largest; in the log domain where that could underflow."""
    best = logs.amax(1).flatten(1)
    peak = best.amax(1)
    unsafe = (peak - best.amin(1) > SAFE_SPREAD).tolist()
    scores = (logs - peak.view(-1, 1, 1, 1)).exp_()
    if not any(unsafe) and scores.shape[2] <= size[0] and scores.shape[3] <= size[1]:
        return scores  # the sampler upsamples, as below
    scores = interpolate(scores, size=size, mode="bilinear", align_corners=False)
    for i, needed in enumerate(unsafe):
        if needed:
            scores[i] = resize_exp(logs[i : i + 1], size)[0]
    return scores


def _spans(side: int, tile: int, stride: float) -> Iterator[slice]:
    """Where tiles lie along a side: a step apart, the last moved back to end with it."""
    step = max(1, math.floor(tile * stride))
    for i in range(max(0, math.ceil((side - tile) / step)) + 1):
        start = max(0, min(i * step, side - tile))
        yield slice(start, min(start + tile, side))
