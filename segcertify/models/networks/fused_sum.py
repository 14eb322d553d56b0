"""A sum of features at several resolutions in one pass over memory: each is brought to the finest, added, and rectified.

HRNet ends every module with such sums. Step by step they read and write the finest resolution once for each term, which
on a GPU takes a quarter of the network's time. On CUDA one Triton kernel does it; elsewhere plain torch, its twin.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import interpolate

MOST = 4
"""How many terms a sum may have: HRNet has four branches."""


def summed(terms: Sequence[Tensor], *, active: bool = True, out: Tensor | None = None, first: int = 0) -> Tensor:
    """The sum of the terms (B, C, h, w), bilinearly at the size of the first, and with ``active`` a ReLU.

    The result is stored with its channels last. With ``out``, it is written to the channels of it that begin at
    ``first``, and ``out`` is returned.
    """
    if len(terms) > MOST:
        raise ValueError(f"a sum has at most {MOST} terms, but got {len(terms)}")
    target = terms[0]
    if out is None:
        out = torch.empty_like(target, memory_format=torch.channels_last)
    if target.is_cuda and len({term.dtype for term in (out, *terms)}) == 1:
        from segcertify.models.networks.triton_sum import launch

        launch(terms, out, active=active, first=first)
        return out
    return plain_sum(terms, out, active=active, first=first)


def plain_sum(terms: Sequence[Tensor], out: Tensor, *, active: bool = True, first: int = 0) -> Tensor:
    """The same in plain torch, a term at a time."""
    target, size = out[:, first : first + terms[0].shape[1]], terms[0].shape[2:]
    target.copy_(terms[0])
    for term in terms[1:]:
        same = term.shape[2:] == size
        target += term if same else interpolate(term, size=size, mode="bilinear", align_corners=False)
    if active:
        target.relu_()
    return out


def enlarged(x: Tensor, out: Tensor, first: int) -> None:
    """Write the features, bilinearly at the size of ``out``, to its channels that begin at ``first``."""
    if x.is_cuda and x.dtype == out.dtype:
        from segcertify.models.networks.triton_sum import launch

        launch([x], out, active=False, first=first)
    else:
        same = x.shape[2:] == out.shape[2:]
        resized = x if same else interpolate(x, size=out.shape[2:], mode="bilinear", align_corners=False)
        out[:, first : first + x.shape[1]] = resized
