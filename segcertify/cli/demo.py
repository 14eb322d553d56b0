"""`segcertify demo`: a certificate in seconds, of what ships with the package."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from segcertify.cli.options import Json, Out, Quiet, Seed, Sigma, command_line, folder
from segcertify.cli.printing import Printer, certificate_values
from segcertify.metrics.shapenet import CATEGORIES


def demo(
    shape: Annotated[
        str | None, typer.Option(help=f"Certify a generated shape instead, one of {', '.join(CATEGORIES)}.")
    ] = None,
    sigma: Sigma[float] = 0.25,
    seed: Seed[int] = 0,
    out: Out[Path | None] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Certify a bundled photograph of a cat, or a generated shape, with a bundled model, on the CPU."""
    start = time.perf_counter()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that sleep, not spin: much faster on a busy CPU
    from segcertify.demo import run
    from segcertify.models.wrappers.part_segmenter import category_name

    printer = Printer(json, quiet)
    category = None if shape is None else category_name(shape)
    name = "demo" if category is None else f"demo-{category.lower()}"
    out = folder(out or Path("certified") / name)
    found = run(out, category=category, sigma=sigma, seed=seed, command=command_line(), progress=printer.progress)
    printer.claim(found.certificate)
    printer.table(found.table)
    printer.files(found.files)
    printer.detail(f"took {time.perf_counter() - start:.1f} s on the CPU")
    printer.result(**certificate_values(found.certificate), files=found.files)
