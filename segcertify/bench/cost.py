"""What certifying one input costs: the total, its stages, and the bare network beside it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from segcertify.bench import network
from segcertify.bench.machine import resident_gib, seconds, wait
from segcertify.certificate import Certificate
from segcertify.certification import certify_votes
from segcertify.errors import require_integer
from segcertify.sampling.draws import Draws
from segcertify.sampling.inputs import Input
from segcertify.sampling.partition import evenly
from segcertify.sampling.segmenter import to_model_dtype
from segcertify.sampling.smooth import Smooth
from segcertify.sampling.stages import Stopwatch, stage
from segcertify.sampling.streams import DrawStream

STAGES = {
    "noise": "drawing the noise and adding it",
    "resize": "resizing around the network, scales, precision",
    "network": "the network's forward passes",
    "labels": "upsampling and arg-max",
    "counting": "counting labels",
    "checks": "asking some draws again (cross-talk)",
    "tests": "binomial tests and correction",
    "rest": "everything else: Python, copies, waiting",
}
"""The stages in their order, and what each is."""
ENOUGH = 30.0
"""No measurement is repeated after so many seconds."""
WARM = 6
"""How many more certificates are made on CUDA before any is timed: in some, passes are recorded to be replayed."""
PLANNED = (100, 1000, 10_000)
"""The n whose time is estimated."""


@dataclass(frozen=True)
class Cost:
    """Seconds of one certificate, and of its parts.

    ``total`` is the median of ``totals``: sampling and tests, each measured without any instrument. ``stages`` come
    from one run more, with a stopwatch, which took ``instrumented`` seconds; they add up to it. ``first`` is the time
    of the first certificate, which also probes the model and warms the device up. ``network`` is the median time of the
    same forward passes alone.
    """

    first: float
    totals: tuple[float, ...]
    stages: dict[str, float]
    instrumented: float
    networks: tuple[float, ...]
    flops_per_draw: int
    n: int
    n0: int
    components: int
    batch_size: int
    certified: int
    cuda_gib: float | None
    """The most memory that torch held on the GPU during a certificate; None elsewhere."""
    resident_gib: float

    @property
    def total(self) -> float:
        """The median of the totals."""
        return median(self.totals)

    @property
    def network(self) -> float:
        """The median time of the bare network's passes."""
        return median(self.networks)

    @property
    def ratio(self) -> float:
        """The total as a multiple of the bare network."""
        return self.total / self.network

    @property
    def tflops(self) -> float:
        """Achieved TFLOP/s over the whole certificate."""
        return self._tflop / self.total

    @property
    def tflops_of_network(self) -> float:
        """Achieved TFLOP/s of the bare network."""
        return self._tflop / self.network

    @property
    def _tflop(self) -> float:
        return self.flops_per_draw * (self.n0 + self.n) / 1e12

    def seconds_at(self, n: int) -> float:
        """An estimate for n draws: all grows linearly in them but tests and checks, whose share the stopwatch tells."""
        fixed = self.total * min(1.0, (self.stages["tests"] + self.stages["checks"]) / self.instrumented)
        return fixed + (self.total - fixed) * (self.n0 + n) / (self.n0 + self.n)


def measure(
    smooth: Smooth, x: Input, *, n: int = 100, n0: int = 10, tau: float = 0.75, alpha: float = 0.001, repeats: int = 3
) -> Cost:
    """Certify x a few times and time it, then its stages, then the network alone."""
    repeats, start = require_integer("repeats", repeats), time.perf_counter()
    made: list[Certificate] = []

    def certify() -> None:
        votes = smooth.votes(x, n=n, n0=n0, input_id="bench", progress=lambda step: None)
        with stage("tests"), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an n that certifies nothing takes as long
            made[:] = [certify_votes(votes, tau=tau, alpha=alpha)]

    draws = smooth.draws(x, "bench")  # also refuses what cannot be certified
    device, model = draws.x.device, draws.model  # which may be a faster copy of the one that was given
    certify()
    wait(device)
    first = time.perf_counter() - start
    if device.type == "cuda":
        repeated(device, certify, WARM)
        torch.cuda.reset_peak_memory_stats(device)
    totals = repeated(device, certify, repeats)
    cuda_gib = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None
    with Stopwatch(device) as watch, network.marked(model, watch):
        instrumented = seconds(device, certify)
    calls = passes(draws, evenly(n0 + n, draws.most))
    network.run(calls, device)  # warm
    networks = repeated(device, lambda: network.run(calls, device), repeats)
    (certificate,) = made
    return Cost(
        first, totals, _stages(watch.seconds(), instrumented), instrumented, networks,
        network.flops(smooth.model, to_model_dtype(smooth.model, draws.x)), n=certificate.n, n0=certificate.n0,
        components=certificate.N, batch_size=draws.batch_size, certified=certificate.certified, cuda_gib=cuda_gib,
        resident_gib=resident_gib(),
    )  # fmt: skip


def repeated(device: torch.device, work: Callable[[], object], repeats: int) -> tuple[float, ...]:
    """The times of some work that is done several times, but not again once it took `ENOUGH`."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < ENOUGH:
        times.append(seconds(device, work))
    return tuple(times)


def passes(draws: Draws, sizes: list[int]) -> list[list[network.Call]]:
    """The network's calls for noisy batches of these sizes, each size drawn once."""

    def noisy(size: int) -> torch.Tensor:
        streams = [DrawStream(0, "bench", "probe", index) for index in range(size)]
        return to_model_dtype(draws.model, draws.noise.draw(draws.x, streams))

    found = {size: network.calls(draws.model, noisy(size)) for size in sorted(set(sizes))}
    return [found[size] for size in sizes]


def _stages(measured: dict[str, float], total: float) -> dict[str, float]:
    """All stages in their order; what no stage measured is the rest."""
    times = dict(measured)
    around = times.pop("model", 0.0)
    times["resize" if "network" in times else "network"] = around
    known = {name: times.get(name, 0.0) for name in STAGES if name != "rest"}
    return known | {"rest": total - sum(known.values())}
