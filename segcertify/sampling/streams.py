"""The randomness of one draw, a function of (seed, input id, phase, index) and nothing else.

Draws are addressed, not consumed: batch size, order and what ran before cannot
change them. On the CPU (and any device but CUDA) the numbers come from NumPy's
SFC64: torch's CPU generator uses only 32 bits of its seed, so that among 10,000
draws two would be the same with probability 1 %. On CUDA they come from Philox,
keyed with 128 bits (`segcertify.sampling.kernels.philox`), for all draws of a batch at once.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import torch

from segcertify.sampling.kernels import philox
from segcertify.sampling.kernels.fused import like_cuda

Phase = Literal["probe", "candidate", "agree", "verify", "neighbour"]
Address = tuple[Phase, int]
"""A draw of an input: its phase, and its index there."""


class DrawStream:
    """The numbers that draw ``index`` of a phase uses, on tensors of any device."""

    def __init__(self, seed: int, input_id: str, phase: Phase, index: int) -> None:
        text = f"{_before_index(seed, input_id, phase)}, {index}]"
        self._key = hashlib.blake2b(text.encode(), digest_size=32).digest()
        self._calls = 0  # how often numbers were drawn on CUDA

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
        return self._fill(out, "normal", np.random.Generator.standard_normal)

    def exponential_(self, out: torch.Tensor) -> torch.Tensor:
        return self._fill(out, "exponential", np.random.Generator.standard_exponential)

    def uniform_(self, out: torch.Tensor) -> torch.Tensor:
        return self._fill(out, "uniform", np.random.Generator.random)

    @staticmethod
    def plus(
        streams: Sequence["DrawStream"], x: torch.Tensor, law: philox.Law, scale: float, shift: float
    ) -> torch.Tensor | None:
        """x + scale (number + shift) for each stream, on CUDA in one pass; None where streams fill one at a time.

        `Wanted` streams may ask for another size and precision.
        """
        if not like_cuda(x) or len({stream._calls for stream in streams}) != 1:
            return None
        call, wanted = streams[0]._calls, streams if isinstance(streams, Wanted) else Wanted(streams)
        for stream in streams:
            stream._calls += 1
        keys = key_words(streams, x.device)
        return philox.plus(x, keys, law, scale, shift=shift, call=call, size=wanted.size, dtype=wanted.dtype)

    def _fill(self, out: torch.Tensor, law: philox.Law, on_host: Callable[..., object]) -> torch.Tensor:
        """``out`` with random numbers in it: written in place on the CPU, by a copy elsewhere."""
        if like_cuda(out):
            drawn = philox.numbers(out, key_words([self], out.device), law, call=self._calls)
            self._calls += 1
            return out.copy_(drawn[0])
        host = out if out.device.type == "cpu" and out.is_contiguous() else torch.empty(out.shape, dtype=out.dtype)
        array = host.numpy()
        on_host(self.rng, out=array, dtype=array.dtype)
        return out if host is out else out.copy_(host)


@lru_cache(16)
def _before_index(seed: int, input_id: str, phase: Phase) -> str:
    """A draw's address as JSON, up to its index: it takes longer than the rest of a key."""
    return json.dumps(["segcertify 1", seed, input_id, phase])[:-1]


class Wanted(list[DrawStream]):
    """Streams of a batch of which a noise is wanted at another size (a resized image's) and precision."""

    def __init__(
        self, streams: Sequence[DrawStream], size: tuple[int, int] | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__(streams)
        self.size, self.dtype = size, dtype


def key_words(streams: Sequence[DrawStream], device: torch.device) -> torch.Tensor:
    """128 bits of each stream's key for `philox`, (B, 4): none that a model's seed has."""
    keys = b"".join(stream._key[24:] + stream._key[:8] for stream in streams)
    return torch.from_numpy(np.frombuffer(keys, np.int32).reshape(-1, 4).copy()).to(device, non_blocking=True)
