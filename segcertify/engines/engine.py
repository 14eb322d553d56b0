"""Engine: the choice of where draws are made, and the workers that it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn

from segcertify.engines.pool import PATIENCE, Pool
from segcertify.engines.processes import ProcessWorker
from segcertify.engines.source import Source, pickled
from segcertify.errors import InputError, require_integer, require_positive, unknown
from segcertify.sampling.identity import weights_digest
from segcertify.sampling.inputs import require_device
from segcertify.sampling.segmenter import Segmenter
from segcertify.sampling.shared import SharedSmooth, Smoothing, alone

KINDS = ("local", "ray")
LONGEST = 10**6
"""The most seconds of patience: some eleven days, more than which no system waits at once."""


@dataclass(frozen=True)
class Engine:
    """Where draws are made. The votes are the same everywhere, on one kind of device with as many threads.

    ``local`` without workers is this process; with them, so many processes of this machine, one for each GPU or with an
    equal share of its threads. ``ray`` is a Ray cluster: the one at ``address``, or one of this machine that ends with
    the run. There ``workers`` are by default as many as it has GPUs, or CPU cores where it has none.

    Workers load a model that has a ``spec`` themselves. Any other is sent to them: as a pickle, within this machine or
    the user's own cluster. ``patience`` is how many seconds a worker may take for a task, which is cut to take a few.
    """

    kind: str = "local"
    workers: int | None = None
    address: str | None = None
    patience: float = PATIENCE
    spec: str = ""
    trust_code: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("engine", self.kind, KINDS)
        if self.workers is not None:
            require_integer("workers", self.workers)
        if self.address is not None and self.kind != "ray":
            raise InputError(f"address={self.address!r} is of a Ray cluster, but the engine is {self.kind}: use ray")
        if require_positive("patience", self.patience) > LONGEST:
            raise InputError(f"patience must be at most {LONGEST:,} seconds, but got {self.patience:g}")

    @property
    def in_process(self) -> bool:
        """Whether this process draws itself."""
        return self.kind == "local" and self.workers is None

    @property
    def threads(self) -> int:
        """How many threads a process that draws has, unless a run has recorded another number."""
        return 1 if self.kind == "ray" else max(1, torch.get_num_threads() // (self.workers or 1))

    @contextmanager
    def started(
        self, model: Segmenter, *, precision: str = "fp32", device: str | torch.device | None = None,
        threads: int | None = None,
    ) -> Iterator[Pool]:  # fmt: skip
        """The engine's workers with this model, until the end of the block."""
        source = Source(
            weights_digest(model), self.spec, self.trust_code, self.compile, precision, threads or self.threads,
            os.getcwd(),
        )  # fmt: skip
        if self.kind == "ray":
            from segcertify.engines.ray_cluster import connected

            with connected(self, source, model, device=device) as pool:
                yield pool
            return
        sent = b"" if self.spec else pickled(model)
        places = _places(device, model)

        def hire(index: int) -> ProcessWorker:
            return ProcessWorker(source, places[index % len(places)], sent)

        kind = torch.device(places[0]).type
        with Pool(hire, self.workers or 1, device=kind, patience=self.patience) as pool:
            yield pool

    @contextmanager
    def smoothing(
        self, model: Segmenter, *, precision: str = "fp32", device: str | torch.device | None = None
    ) -> Iterator[Smoothing]:
        """Gives what makes smoothed models of this model and a noise, whose draws the engine makes.

        It is called with ``with_precision(model, precision)``. What takes ``smoothing`` works on any engine, such as
        `segcertify.audit.audit_certificate`.
        """
        if self.in_process:
            yield alone
        else:
            with self.started(model, precision=precision, device=device) as workers:
                yield partial(SharedSmooth, workers)

    def of(self, spec: str, *, trust_code: bool = False, compile: bool = False) -> Engine:
        """The same engine for the model of a spec."""
        return replace(self, spec=spec, trust_code=trust_code, compile=compile)


def as_engine(engine: str | Engine, workers: int | None = None, address: str | None = None) -> Engine:
    """An engine as users give it: a name, and what belongs to it."""
    return engine if isinstance(engine, Engine) else Engine(engine, workers, address)


def _places(device: str | torch.device | None, model: Segmenter) -> list[str]:
    """The devices of a machine's workers, in turn: the one that was named, or all GPUs, or the CPU."""
    if device is None and isinstance(model, nn.Module):
        device = next((each.device for each in model.parameters()), None)
    chosen = require_device(device or "cpu")
    if chosen.type != "cuda" or chosen.index is not None:
        return [str(chosen)]
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
