"""The options that say where draws are made: in this process, in several, or on a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.cli import options as opt

if TYPE_CHECKING:
    from segcertify.engines import Engine

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
