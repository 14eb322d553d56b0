"""A sum of features at several resolutions in one pass over memory: brought to one size, added, rectified.

HRNet ends every module with such sums. Step by step they read and write the finest resolution once for each term, which
on a GPU takes a quarter of the network's time. On CUDA one Triton kernel does it; elsewhere plain torch, its twin.
"""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn.functional import interpolate

MOST = 4
"""How many terms a sum may have: HRNet has four branches."""


def summed(terms: Sequence[Tensor], *, bias: Tensor) -> Tensor:
    """ReLU of the sum of a bias (C,) and the terms (B, C, h, w), bilinearly at the size of the first; channels last."""
    if len(terms) > MOST:
        raise ValueError(f"a sum has at most {MOST} terms, but got {len(terms)}")
    if _kernel_takes(bias, *terms):
        from segcertify.models.networks.triton_sum import launch

        out = torch.empty_like(terms[0], memory_format=torch.channels_last)
        launch(terms, out, bias=bias)
        return out
    return plain_sum(terms, bias)


def plain_sum(terms: Sequence[Tensor], bias: Tensor) -> Tensor:
    """The same in plain torch, a term at a time."""
    total, size = terms[0] + bias.view(-1, 1, 1), terms[0].shape[2:]
    for term in terms[1:]:
        same = term.shape[2:] == size
        total += term if same else interpolate(term, size=size, mode="bilinear", align_corners=False)
    return total.relu_()


def enlarged(x: Tensor, out: Tensor, first: int) -> None:
    """Write the features, bilinearly at the size of ``out``, to its channels that begin at ``first``."""
    if _kernel_takes(x, out):
        from segcertify.models.networks.triton_sum import launch

        launch([x], out, first=first)
    else:
        same = x.shape[2:] == out.shape[2:]
        resized = x if same else interpolate(x, size=out.shape[2:], mode="bilinear", align_corners=False)
        out[:, first : first + x.shape[1]] = resized


def _kernel_takes(*tensors: Tensor) -> bool:
    """Whether the kernel can run: on CUDA with Triton, in one precision, and where no gradient is wanted."""
    wanted = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    alike = all(each.is_cuda and each.dtype == tensors[0].dtype for each in tensors)
    return alike and not wanted and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
