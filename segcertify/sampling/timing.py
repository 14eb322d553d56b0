"""How long draws take on this machine: measured in a few batches, for a plan."""

import time
from dataclasses import dataclass

import torch

from segcertify.errors import require_integer, require_positive
from segcertify.sampling.inputs import Input
from segcertify.sampling.smooth import Smooth


@dataclass(frozen=True)
class Timing:
    """Seconds of one draw, the mean of a few batches; an estimate, since machines are not always as busy."""

    seconds_per_draw: float
    batches: int
    batch_size: int
    components: int
    device: str

    def seconds(self, draws: int) -> float:
        """The estimate for so many draws."""
        return self.seconds_per_draw * require_integer("draws", draws, at_least=0)


def time_draws(smooth: Smooth, x: Input, *, seconds: float = 2.0, batches: int = 5) -> Timing:
    """Time batches of draws at x, at most so many and at least two, until about so many seconds have passed.

    The first batch is not counted: it warms up, and is checked against single draws.
    """
    seconds, most = require_positive("seconds", seconds), require_integer("batches", batches, at_least=2)
    draws = smooth.draws(x, "timing")
    size = draws.batch_size
    most_draws = (most + 1) * size
    counted = draws.agreement("candidate", 0, most_draws, draws.zeros(size), draws.zeros(most_draws))
    first, _ = next(counted)
    _wait(draws.x)
    start, done, made = time.perf_counter(), first, 0
    for stop, _ in counted:
        _wait(draws.x)
        done, made = stop, made + 1
        if made >= 2 and time.perf_counter() - start >= seconds:
            break
    each = (time.perf_counter() - start) / (done - first)
    components = int(torch.Size(draws.components).numel())
    return Timing(each, made, draws.batch_size, components, draws.x.device.type)


def _wait(x: torch.Tensor) -> None:
    """Until the device has done what it was told."""
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
