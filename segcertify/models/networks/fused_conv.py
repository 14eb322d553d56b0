"""A convolution with what follows it in one pass over memory: its bias, a shortcut, and a ReLU.

On the CPU oneDNN does it, through operators of torch that its own compiler uses (`torch._inductor`). They belong to no
documented interface, so each is trusted only after it was right in this process; else plain torch takes their place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

Activation = Literal["relu", "relu6"]
Pads = tuple[tuple[int, int], tuple[int, int]]
"""Zeros around an image: (above, below), (left, right)."""

_ONEDNN: dict[Activation | None, tuple[str, list[float]]] = {
    None: ("none", []), "relu": ("relu", []), "relu6": ("hardtanh", [0.0, 6.0])
}  # fmt: skip


def convolved(
    conv: Any, x: Tensor, activation: Activation | None = None, shortcut: Tensor | None = None, pads: Pads | None = None
) -> Tensor:
    """The activation of a convolution, or of its sum with a shortcut; with its own padding, or other ``pads``."""
    takes = shortcut is None or _adds(shortcut, x, activation)
    if not (takes and _in_one(conv, x) and trusted(x.dtype)):
        return plain(conv, x, activation, shortcut, pads)
    kernel = (conv.weight, conv.padding) if pads is None else _symmetric(conv.weight, pads)
    return _onednn(conv, x, activation, shortcut, kernel)


def plain(
    conv: Any, x: Tensor, activation: Activation | None = None, shortcut: Tensor | None = None, pads: Pads | None = None
) -> Tensor:
    """The same step by step."""
    around = conv.padding if pads is None else (0, 0)
    image = x if pads is None else pad(x, (*pads[1], *pads[0]))
    y = torch.conv2d(image, conv.weight, conv.bias, conv.stride, around, conv.dilation, conv.groups)
    y = y if shortcut is None else y.add_(shortcut) if y.dtype == shortcut.dtype else y + shortcut
    return y if activation is None else y.relu_() if activation == "relu" else y.clamp_(0, 6)


def _in_one(conv: Any, x: Tensor) -> bool:
    """Whether oneDNN takes the convolution with what follows it: it knows no gradients, and mixes no precisions."""
    wanted = torch.is_grad_enabled() and (x.requires_grad or conv.weight.requires_grad)
    alike = x.dtype == conv.weight.dtype and x.dtype in (torch.float32, torch.bfloat16) and 0 not in x.shape
    return x.device.type == "cpu" and alike and not wanted and conv.padding_mode == "zeros"


def _adds(shortcut: Tensor, x: Tensor, activation: Activation | None) -> bool:
    """Whether oneDNN adds the shortcut: it does so in single precision, and may rectify the sum, but not clip it."""
    return shortcut.dtype == x.dtype == torch.float32 and activation != "relu6"


def _onednn(
    conv: Any, x: Tensor, activation: Activation | None, shortcut: Tensor | None, kernel: tuple[Tensor, Any]
) -> Tensor:
    """A convolution with this kernel and padding, and what follows it."""
    weight, padding = kernel
    shape = weight, conv.bias, padding, conv.stride, conv.dilation, conv.groups
    run = torch.ops.mkldnn._convolution_pointwise
    if shortcut is None:
        return run(x, *shape, *_ONEDNN[activation], "")  # type: ignore[no-any-return]
    return run.binary(x, shortcut, *shape, "add", 1.0, activation, [], "")  # type: ignore[no-any-return]


def _symmetric(weight: Tensor, pads: Pads) -> tuple[Tensor, list[int]]:
    """A kernel and the same padding on both sides that give what uneven pads give: the kernel gets zeros instead.

    A copy of the image with zeros around it would take longer than the convolution.
    """
    more = [(max(after - before, 0), max(before - after, 0)) for before, after in pads]
    if any(sum(each) for each in more):
        weight = pad(weight, (*more[1], *more[0])).contiguous(memory_format=torch.channels_last)
    return weight, [max(each) for each in pads]


@cache
def trusted(dtype: torch.dtype, check: Callable[[torch.dtype], bool] | None = None) -> bool:
    """Whether torch's operators are right here in that precision, by `right` or another check; asked once."""
    try:
        if (check or right)(dtype):
            return True
        reason = "they differ from plain ones"
    except Exception as error:  # such as an operator that this version of torch does not have
        reason = f"they failed with {type(error).__name__}: {str(error).strip()[:200]}"
    warnings.warn(
        f"oneDNN's layers with activations are not used in {dtype}, because {reason}. Plain torch takes their "
        "place: results are the same up to rounding, only slower. Please report this with the version of torch.",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


@torch.no_grad()
def right(dtype: torch.dtype) -> bool:
    """Whether the operators give what plain convolutions give: each activation, shortcut and way to pad."""
    draw = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw).to(dtype)

    x = numbers(2, 16, 11, 14).to(memory_format=torch.channels_last)
    for groups, kernel, stride, uneven in ((1, 1, 1, 0), (1, 3, 2, 1), (16, 3, 1, 0), (16, 5, 2, 1)):
        conv: Any = nn.Conv2d(16, 16, kernel, stride=stride, groups=groups)
        weight = (numbers(*conv.weight.shape) / kernel).to(memory_format=torch.channels_last)
        conv.weight, conv.bias = nn.Parameter(weight), nn.Parameter(numbers(16))
        side = kernel // 2
        pads = ((side, side - uneven), (side - uneven, side))
        shortcut = numbers(*plain(conv, x, pads=pads).shape).to(memory_format=torch.channels_last)
        for activation in _ONEDNN:
            for added in (None, shortcut) if _adds(shortcut, x, activation) else (None,):
                given = _onednn(conv, x, activation, added, _symmetric(conv.weight, pads))
                if not close(given, plain(conv, x, activation, added, pads)):
                    return False
    return True


def close(given: Tensor, wanted: Tensor) -> bool:
    """Whether two results differ by rounding alone."""
    rounding = 1e-4 if wanted.dtype == torch.float32 else 0.05
    return given.shape == wanted.shape and bool(((given - wanted).abs() <= rounding * (1 + wanted.abs())).all())
