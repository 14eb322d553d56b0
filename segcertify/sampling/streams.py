"""The randomness of one draw, a function of (seed, input id, phase, index) and nothing else.

Draws are addressed, not consumed: batch size, order and what ran before cannot
change them. On the CPU (and any device but CUDA) the numbers come from NumPy's
SFC64: torch's CPU generator uses only 32 bits of its seed, so that among 10,000
draws two would be the same with probability 1 %. On CUDA they come from torch's
Philox, keyed with 64 bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cached_property
from typing import Literal

import numpy as np
import torch

from segcertify.arrays import Array

Phase = Literal["probe", "candidate", "agree"]


class DrawStream:
    """The numbers that draw ``index`` of a phase uses, on tensors of any device."""

    def __init__(self, seed: int, input_id: str, phase: Phase, index: int) -> None:
        text = json.dumps(["segcertify 1", seed, input_id, phase, index])
        self._key = hashlib.blake2b(text.encode(), digest_size=32).digest()

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(int.from_bytes(self._key[:16], "little")))

    @property
    def model_seed(self) -> int:
        """What a model that is itself random gets for this draw."""
        return int.from_bytes(self._key[16:24], "little") >> 1

    def normal_(self, out: torch.Tensor) -> torch.Tensor:
        if out.is_cuda:
            return out.normal_(generator=self._cuda(out.device))
        return _fill(out, lambda array: self.rng.standard_normal(out=array, dtype=array.dtype))

    def exponential_(self, out: torch.Tensor) -> torch.Tensor:
        if out.is_cuda:
            return out.exponential_(generator=self._cuda(out.device))
        return _fill(out, lambda array: self.rng.standard_exponential(out=array, dtype=array.dtype))

    def uniform_(self, out: torch.Tensor) -> torch.Tensor:
        if out.is_cuda:
            return out.uniform_(generator=self._cuda(out.device))
        return _fill(out, lambda array: self.rng.random(out=array, dtype=array.dtype))

    def _cuda(self, device: torch.device) -> torch.Generator:
        """This draw's CUDA generator, made at the first use and then going on."""
        if "_generator" not in self.__dict__:
            self._generator = torch.Generator(device).manual_seed(int.from_bytes(self._key[24:], "little"))
        return self._generator


def _fill(out: torch.Tensor, numbers: Callable[[Array], object]) -> torch.Tensor:
    """``out`` with ``numbers`` written into it, in place on the CPU and by a copy elsewhere."""
    host = out if out.device.type == "cpu" and out.is_contiguous() else torch.empty(out.shape, dtype=out.dtype)
    numbers(host.numpy())
    return out if host is out else out.copy_(host)
