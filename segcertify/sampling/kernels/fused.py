"""Whether the Triton kernels run, or their plain torch twins."""

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec

import torch


def fused(tensor: torch.Tensor) -> bool:
    """Whether a Triton kernel can take a tensor: on CUDA, or anywhere in Triton's interpreter, if it is installed."""
    return like_cuda(tensor) and has_triton()


def like_cuda(tensor: torch.Tensor) -> bool:
    """Whether a tensor is on CUDA, or is treated as one that is: in Triton's interpreter."""
    return tensor.is_cuda or interpreted()


def on_device_of(tensor: torch.Tensor) -> AbstractContextManager[object]:
    """Within, kernels are launched on a tensor's device."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


@cache
def has_triton() -> bool:
    """Whether Triton is installed, as it is with torch for CUDA."""
    return find_spec("triton") is not None


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on the CPU: for tests, which set the variable before the start."""
    return os.environ.get("TRITON_INTERPRET") == "1"
