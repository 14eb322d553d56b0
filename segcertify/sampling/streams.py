"""The randomness of one draw, a function of (seed, input id, phase, index) and nothing else.

Draws are addressed, not consumed: batch size, order and what ran before cannot
change them. On the CPU (and any device but CUDA) the numbers come from NumPy's
SFC64: torch's CPU generator uses only 32 bits of its seed, so that among 10,000
draws two would be the same with probability 1 %. On CUDA they come from torch's
Philox, keyed with 64 bits.
"""

import hashlib
import json
from collections.abc import Callable
from functools import cached_property
from typing import Literal

import numpy as np
import torch

Phase = Literal["probe", "candidate", "agree", "verify"]


class DrawStream:
    """The numbers that draw ``index`` of a phase uses, on tensors of any device."""

    def __init__(self, seed: int, input_id: str, phase: Phase, index: int) -> None:
        text = json.dumps(["segcertify 1", seed, input_id, phase, index])
        self._key = hashlib.blake2b(text.encode(), digest_size=32).digest()

    @property
    def threads(self) -> int:
        """How many draws may be filled at once on the CPU: torch's threads. NumPy fills without Python's lock."""
        return torch.get_num_threads()

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(int.from_bytes(self._key[:16], "little")))

    @property
    def model_seed(self) -> int:
        """What a model that is itself random gets for this draw."""
        return int.from_bytes(self._key[16:24], "little") >> 1

    def normal_(self, out: torch.Tensor) -> torch.Tensor:
        return self._fill(out, torch.Tensor.normal_, np.random.Generator.standard_normal)

    def exponential_(self, out: torch.Tensor) -> torch.Tensor:
        return self._fill(out, torch.Tensor.exponential_, np.random.Generator.standard_exponential)

    def uniform_(self, out: torch.Tensor) -> torch.Tensor:
        return self._fill(out, torch.Tensor.uniform_, np.random.Generator.random)

    def _fill(
        self, out: torch.Tensor, on_cuda: Callable[..., torch.Tensor], on_host: Callable[..., object]
    ) -> torch.Tensor:
        """``out`` with random numbers in it: written in place on CUDA and on the CPU, by a copy elsewhere."""
        if out.is_cuda:
            if "_generator" not in self.__dict__:  # made at the first use and then going on
                self._generator = torch.Generator(out.device).manual_seed(int.from_bytes(self._key[24:], "little"))
            return on_cuda(out, generator=self._generator)
        host = out if out.device.type == "cpu" and out.is_contiguous() else torch.empty(out.shape, dtype=out.dtype)
        array = host.numpy()
        on_host(self.rng, out=array, dtype=array.dtype)
        return out if host is out else out.copy_(host)
