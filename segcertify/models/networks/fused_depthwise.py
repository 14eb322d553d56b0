"""A depthwise convolution, its bias and ReLU6 in one pass over memory, for features whose channels lie last.

cuDNN compiles a kernel for every layer and every new size of an image, which takes a Lite seconds. On CUDA one Triton
kernel (`segcertify.models.networks.triton_depthwise`) serves all sizes; elsewhere plain torch does it, its twin.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from segcertify.models.networks.fused_conv import Pads, close
from segcertify.sampling.kernels.fused import fused
from segcertify.sampling.kernels.trust import trusted

TYPES = torch.float32, torch.bfloat16, torch.float16


def lay(conv: Any) -> None:
    """Give a depthwise convolution its weight (C, 1, K, K) as the kernel reads it: (K, K, C)."""
    conv.weight = nn.Parameter(conv.weight.detach()[:, 0].permute(1, 2, 0).contiguous(), requires_grad=False)


def is_laid(conv: Any) -> bool:
    """Whether the weight lies as the kernel reads it."""
    return bool(conv.weight.ndim == 3)


def depthwise(conv: Any, x: Tensor, pads: Pads) -> Tensor:
    """ReLU6 of a depthwise convolution whose weight is laid, with this padding, in the precision of its input."""
    weight, bias, stride = conv.weight.to(x.dtype), conv.bias.to(x.dtype), conv.stride[0]
    if _kernel_takes(x, weight, bias, stride):
        from segcertify.models.networks.triton_depthwise import launch

        return launch(x, weight, bias, stride, pads)
    return plain(x, weight, bias, stride, pads)


def plain(x: Tensor, weight: Tensor, bias: Tensor, stride: int, pads: Pads) -> Tensor:
    """The same step by step; on CUDA by torch's own kernel, which is there for all sizes and wants channels first.

    Gradients need the kernel of cuDNN.
    """
    image, kernel = pad(x, (*pads[1], *pads[0])), weight.permute(2, 0, 1).unsqueeze(1)
    steps, none, one = (stride, stride), (0, 0), (1, 1)
    if x.is_cuda and not torch.is_grad_enabled():
        image, kernel = image.contiguous(), kernel.contiguous()
        y = torch.ops.aten._conv_depthwise2d(image, kernel, kernel.shape[2:], bias, steps, none, one)
    else:
        y = torch.conv2d(image, kernel, bias, steps, none, one, len(bias))
    return y.clamp_(0, 6).contiguous(memory_format=torch.channels_last)  # type: ignore[no-any-return]


def _kernel_takes(x: Tensor, weight: Tensor, bias: Tensor, stride: int) -> bool:
    """Whether the kernel runs: where it gave what its twin gives, and no gradient is wanted."""
    wanted = torch.is_grad_enabled() and any(each.requires_grad for each in (x, weight, bias))
    if wanted or x.dtype not in TYPES or not fused(x):
        return False
    size, aligned = weight.shape[0], weight.shape[2] % 16 == 0  # two forms, each compiled for itself
    case = f"{size} x {size}, stride {stride}, {'' if aligned else 'odd '}channels in {x.dtype}, on {x.device}"
    return trusted("depthwise", case, lambda: _differs(x.device, x.dtype, size, stride, 48 if aligned else 41))


@torch.no_grad()
def _differs(device: torch.device, dtype: torch.dtype, size: int, stride: int, channels: int) -> str:
    """Whether the kernel gives something else than the twin for small features; empty if not."""
    from segcertify.models.networks.triton_depthwise import launch

    draw = torch.Generator().manual_seed(0)
    shapes = (2, channels, 11, 14), (size, size, channels), (channels,)
    x, weight, bias = (torch.randn(shape, generator=draw).to(device, dtype) for shape in shapes)
    x, weight = (4 * x).to(memory_format=torch.channels_last), weight / size
    given = x, weight, bias, stride, ((1, 2), (0, 1))
    return "" if close(launch(*given), plain(*given)) else "it differs from plain torch"
