"""The options that say where draws are made: in this process, in several, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from segcertify.cli import options as opt

if TYPE_CHECKING:
    from segcertify.engines import Engine
    from segcertify.noise import Noise
    from segcertify.sampling.segmenter import Segmenter
    from segcertify.sampling.shared import Smoothing
    from segcertify.sampling.smooth import Smooth

Kind = Annotated[
    str,
    typer.Option(
        "--engine", help="local is this machine; ray is a Ray cluster (docs/cluster.md).", rich_help_panel=opt.MACHINE
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        help="Processes that draw: each has a GPU, or its share of the CPU's threads. By default local has none, and "
        "ray one for each GPU of the cluster, or for each core where it has none.",
        rich_help_panel=opt.MACHINE,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Of a running Ray cluster: auto, HOST:PORT or ray://HOST:PORT. By default ray starts one on this machine.",
        rich_help_panel=opt.MACHINE,
    ),
]
Patience = Annotated[
    float,
    typer.Option(
        "--patience",
        help="Seconds after which a worker that does not answer is replaced; one answer takes about 5, or one batch.",
        rich_help_panel=opt.MACHINE,
    ),
]


def chosen_engine(kind: str, workers: int | None, address: str | None, patience: float) -> Engine:
    """The engine that the options name."""
    from segcertify.engines import Engine

    return Engine(kind, workers, address, patience)


def devices(engine: Engine, device: str | None) -> tuple[str, str | None]:
    """The device of the model in this process, and that of the draws. A Ray cluster has others than this machine."""
    if engine.kind == "ray":
        return "cpu", device
    chosen = opt.chosen_device(device)
    return chosen if engine.in_process else "cpu", chosen


class Ready(NamedTuple):
    """A model in this process, and where its draws are made."""

    network: Segmenter
    model: Segmenter
    """The network in the precision of its draws."""
    device: str
    """The device of both, in this process."""
    smoothing: AbstractContextManager[Smoothing]
    """Within, the engine's workers are there (`segcertify.engines.Engine.smoothing`)."""

    @contextmanager
    def smoothed(self, noise: Noise, *, seed: int | None, batch_size: int | None) -> Iterator[Smooth]:
        """The smoothed model. Within, the engine's workers are there."""
        with self.smoothing as made:
            yield made(self.model, noise, seed=seed, batch_size=batch_size, device=self.device)


def ready(
    engine: Engine, spec: str, device: str | None, *, precision: str = "fp32", compile: bool = False,
    trust_code: bool = False,
) -> Ready:  # fmt: skip
    """The model of a spec, for draws on an engine."""
    from segcertify.models import with_precision

    here, theirs = devices(engine, device)
    network = opt.ready_model(spec, here, compile=compile, trust_code=trust_code)
    chosen = engine.of(spec, trust_code=trust_code, compile=compile)
    smoothing = chosen.smoothing(network, precision=precision, device=theirs)
    return Ready(network, with_precision(network, precision), here, smoothing)
