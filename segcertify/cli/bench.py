"""`segcertify bench`: what a certificate costs on this machine, and where the time goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.cli import options as opt
from segcertify.cli.printing import Printer
from segcertify.cli.timing import require_sides, smoothed
from segcertify.errors import InputError, require_integer
from segcertify.noise.names import parse

if TYPE_CHECKING:
    from segcertify.noise import Noise

SIZE, CLOUD = (360, 480), (2048, 6)


def bench(
    model: opt.Model[str] = "pets",
    input: opt.InputFile = None,
    size: opt.Size = None,
    sigma: opt.Sigma[float] = 0.25,
    noise: opt.Noise[str] = "gaussian",
    n: opt.Draws[int] = 100,
    tau: opt.Tau[float] = 0.75,
    n0: opt.Candidates = 10,
    alpha: opt.Alpha = 0.001,
    repeats: Annotated[
        int,
        typer.Option(
            help="Measure so many times and take the median; fewer if that takes longer than 30 seconds.",
            rich_help_panel=opt.MACHINE,
        ),
    ] = 3,
    baseline: Annotated[
        bool,
        typer.Option(
            "--baseline",
            help="Also time the pipeline that was released with the paper, re-created step by step. It tests pixels "
            "one by one, which takes minutes for a large image.",
            rich_help_panel=opt.MACHINE,
        ),
    ] = False,
    pixels: Annotated[
        int | None,
        typer.Option(
            help="With --baseline: test so many pixels one by one, and extrapolate to all.", rich_help_panel=opt.MACHINE
        ),
    ] = None,
    batch_size: opt.BatchSize = None,
    device: opt.Device = None,
    precision: opt.Precision = "fp32",
    trust_code: opt.TrustCode = False,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """What a certificate costs on this machine: stage by stage, beside the bare network, with an estimate for larger n.

    Certifies an input several times and writes no file. With --json it prints all that was measured, with the machine
    and the versions.
    """
    import torch

    from segcertify.bench import cost, machine, released, tables

    printer, drawn = Printer(json, quiet), parse(noise)(sigma)
    _require_options(drawn, input, size, n0=n0, baseline=baseline, pixels=pixels)
    device = opt.chosen_device(device)
    sides = None if size is None else require_sides(size)
    segmenter = opt.ready_model(model, device, precision=precision, trust_code=trust_code)
    if input is None and sides is None:
        sides = _usual_sides(segmenter)
    smooth, x = smoothed(segmenter, drawn, input=input, sides=sides, batch_size=batch_size, device=device)
    found = cost.measure(smooth, x, n=n, n0=n0, tau=tau, alpha=alpha, repeats=repeats)
    there = torch.device(device)
    before = None
    if baseline:
        before = released.measure(segmenter, x.to(there), sigma, n=n, n0=n0, tau=tau, alpha=alpha, pixels=pixels)
    settings = {
        "model": model, "input": list(x.shape), "noise": str(smooth.noise), "tau": tau, "alpha": alpha,
        "precision": precision, "repeats": repeats,
    }  # fmt: skip
    peak = tables.Peak(*machine.peak_of_products(there, precision))
    values = tables.values(found, peak, before, device=there, settings=settings)
    printer.table(tables.stage_table(values))
    if before is not None:
        printer.table(tables.baseline_table(values))
    printer.facts(tables.facts(values))
    printer.result(**values)


def _require_options(
    noise: Noise, input: Path | None, size: str | None, *, n0: int, baseline: bool, pixels: int | None
) -> None:
    """Refuse bad options before the model is loaded."""
    from segcertify.noise import Gaussian

    if input is not None and size is not None:
        raise InputError(f"--input {input} and --size {size} exclude each other: give one of them")
    if pixels is not None and not baseline:
        raise InputError(f"--pixels {pixels} is for the released pipeline: add --baseline")
    if pixels is not None:
        require_integer("--pixels", pixels)
    if baseline and (not isinstance(noise, Gaussian) or noise.channels is not None or not n0):
        raise InputError(
            "the released pipeline has Gaussian noise on all channels and a pilot: leave out --noise and --n0 0"
        )


def _usual_sides(model: object) -> tuple[int, int]:
    """The size that is measured if none is given: of an image, or of a cloud with normals."""
    from segcertify.models import card_of

    card = card_of(model)
    return CLOUD if card is not None and card.of_clouds else SIZE
