"""The command line: parses, turns names into objects, calls one function, prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

import segcertify
from segcertify.certificate import radius_text
from segcertify.errors import InputError
from segcertify.noise import AxisRotation, Gaussian, Laplace, Noise, Rotation, Uniform

if TYPE_CHECKING:
    import torch

    from segcertify.certificate import Certificate
    from segcertify.segmenter import Segmenter

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
reproduce_app = typer.Typer(no_args_is_help=True, help="Run the paper's experiments again.")
app.add_typer(reproduce_app, name="reproduce")
console = Console()


class NoiseName(StrEnum):
    """What `certify` can draw."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    UNIFORM = "uniform"
    ROTATION = "rotation"
    AXIS_ROTATION = "axis-rotation"


Tau = Annotated[float, typer.Option(help="Threshold in [0.5, 1) on a label's probability; sets the radius.")]
Alpha = Annotated[float, typer.Option(help="Allowed probability of any false certificate.")]
CorrectionName = Annotated[str, typer.Option(help="holm, bonferroni, k-fwer, bh or by.")]
Budget = Annotated[int | None, typer.Option("--b", help="Error budget for k-fwer (k = b + 1).")]
Seed = Annotated[int, typer.Option(help="Fixes all noise.")]


def main() -> None:
    """Run the command line; bad input ends with one clear line, not a traceback."""
    try:
        app()
    except InputError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {_escape(str(error))}", soft_wrap=True)
        sys.exit(2)


def _escape(text: str) -> str:
    return text.replace("[", "\\[")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"segcertify {segcertify.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Certified segmentation: labels that provably cannot be changed within a radius, or an abstention."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and the certificate.")] = Path("certified/demo"),
    sigma: Annotated[float, typer.Option(help="Standard deviation of the noise.")] = 0.25,
    seed: Seed = 0,
) -> None:
    """Certify the colour regions of a bundled photograph of a cat."""
    from segcertify.demo import run

    result = run(_folder(out), sigma=sigma, seed=seed)
    _print_certificate(result.certificate, [result.picture, result.file])


@app.command()
def certify(
    input: Annotated[Path, typer.Argument(help="An image (becomes RGB in [0, 1]) or a .npy file of floats.")],
    model: Annotated[str, typer.Option(help="python:module:factory, imported from this folder or installed.")],
    sigma: Annotated[
        float, typer.Option(help="The noise's scale, in the input's units (b for laplace, lam for uniform).")
    ],
    noise: Annotated[NoiseName, typer.Option(help="What is drawn.")] = NoiseName.GAUSSIAN,
    tau: Tau = 0.75,
    n: Annotated[int, typer.Option("--n", help="Draws that test the candidates.")] = 100,
    n0: Annotated[int, typer.Option("--n0", help="Draws that choose the candidates.")] = 10,
    alpha: Alpha = 0.001,
    correction: CorrectionName = "holm",
    b: Budget = None,
    norm: Annotated[str | None, typer.Option(help="linf, for gaussian noise; the noise's own norm by default.")] = None,
    channels: Annotated[
        str | None, typer.Option(help="Noise on these channels only, such as 0,1,2 (gaussian).")
    ] = None,
    axis: Annotated[
        str | None, typer.Option(help="Axis of the channels (default 0), or of axis-rotation: x, y, z.")
    ] = None,
    seed: Seed = 0,
    batch_size: Annotated[int | None, typer.Option(help="Found automatically by default.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, ...; CUDA where there is one by default.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default certified/NAME.")] = None,
) -> None:
    """Certify one input: writes votes, certificate and, for images, a picture. Run again to resume."""
    import torch
    from torch import nn

    from segcertify.data import read_input
    from segcertify.models import load
    from segcertify.sampler import certify

    chosen = _noise(noise, sigma, channels, axis)
    folder = _folder(out or Path("certified") / input.stem)
    x = torch.from_numpy(read_input(input))
    sys.path.insert(0, os.getcwd())  # modules in this folder
    segmenter = load(model)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if isinstance(segmenter, nn.Module):
        segmenter = segmenter.to(device)
    votes, resume = folder / "votes.safetensors", folder / "resume.safetensors"
    certificate = certify(
        segmenter,
        x,
        noise=chosen,
        tau=tau,
        n=n,
        n0=n0,
        alpha=alpha,
        seed=seed,
        correction=correction,
        b=b,
        norm=norm,
        batch_size=batch_size,
        device=device,
        input_id=input.stem,
        checkpoint=resume,
        save_votes=votes,
    )
    certificate.save(folder / "certificate.safetensors")
    resume.unlink(missing_ok=True)
    files = [folder / "certificate.safetensors", votes]
    if x.ndim == 3 and len(x) == 3 and certificate.labels.shape == x.shape[1:]:
        files.append(_draw(segmenter, x, certificate, folder / "certified.png", device))
    _print_certificate(certificate, files)


@app.command()
def plan(
    components: Annotated[int, typer.Option("--N", "-N", help="Number of components (pixels, points) tested.")],
    tau: Tau = 0.75,
    alpha: Alpha = 0.001,
    correction: CorrectionName = "holm",
    b: Budget = None,
    n: Annotated[int | None, typer.Option("--n", help="A number of draws to judge; the smallest by default.")] = None,
    p: Annotated[float | None, typer.Option("--p", help="Assumed probability of the candidates.")] = None,
) -> None:
    """How many draws are needed, and how many of them may disagree. Draws nothing."""
    from segcertify.stats.planning import plan as make_plan

    result = make_plan(components, tau, alpha=alpha, correction=correction, b=b, n=n, p=p)
    tolerates = "certifies nothing" if result.tolerates is None else f"{result.tolerates:,}"
    rows = {
        "components N": f"{result.N:,}",
        "tau, alpha, correction": f"{tau:g}, {alpha:g}, {result.correction}",
        "smallest n that certifies anything": f"{result.n_min:,}",
        f"disagreeing draws tolerated at n = {result.n:,}": tolerates,
    }
    if result.expected is not None:
        rows[f"expected certified fraction at p = {p:g}"] = f"{result.expected:.4f}"
    _print_rows(rows)


@reproduce_app.callback()
def _reproduce() -> None:
    """Run the paper's experiments again."""


@reproduce_app.command()
def toy(
    out: Annotated[Path, typer.Option(help="Folder for figures and numbers.")] = Path("toy"),
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in seconds.")] = False,
    seed: Seed = 0,
) -> None:
    """The figures of sections 6.1 and B: power of all four methods on toy data."""
    from segcertify.reproduce.toy import run

    summary = run(_folder(out), quick=quick, seed=seed)
    console.print(_escape(str(summary)))
    _print_files(summary.files)


def _noise(name: NoiseName, sigma: float, channels: str | None, axis: str | None) -> Noise:
    """The noise that the options name."""
    if channels is not None and name != NoiseName.GAUSSIAN:
        raise InputError(f"--channels belongs to gaussian noise, not to {name}")
    if axis is not None and channels is None and name != NoiseName.AXIS_ROTATION:
        raise InputError("--axis belongs to --channels or to axis-rotation noise")
    try:
        chosen = None if channels is None else tuple(int(channel) for channel in channels.split(","))
        number = int(axis or 0) if chosen else 0
    except ValueError:
        raise InputError(f"--channels and --axis take whole numbers, but got {channels!r} and {axis!r}") from None
    noises: dict[NoiseName, Callable[[], Noise]] = {
        NoiseName.GAUSSIAN: lambda: Gaussian(sigma, chosen, number),
        NoiseName.LAPLACE: lambda: Laplace(sigma),
        NoiseName.UNIFORM: lambda: Uniform(sigma),
        NoiseName.ROTATION: lambda: Rotation(sigma),
        NoiseName.AXIS_ROTATION: lambda: AxisRotation(sigma, axis or "z"),
    }
    return noises[name]()


def _folder(path: Path) -> Path:
    """A folder that can be written to, or an error before the long work."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to the folder {path}: {error.strerror}") from None
    return path


def _draw(segmenter: Segmenter, x: torch.Tensor, certificate: Certificate, path: Path, device: str) -> Path:
    """The picture of a certified image."""
    from segcertify.pictures import certified_figure, save_figure
    from segcertify.segmenter import is_random, predict

    seeds = [0] if is_random(segmenter) else None
    prediction = predict(segmenter, x[None].to(device), seeds)[0].cpu().numpy()
    save_figure(certified_figure(x.numpy(), prediction, certificate), path)
    return path


def _print_certificate(certificate: Certificate, files: Sequence[Path]) -> None:
    """What was proved, in one sentence and a small table."""
    console.print(_escape(certificate.claim))
    certified = f"{certificate.certified:,} of {certificate.N:,} ({certificate.certified / certificate.N:.1%})"
    _print_rows(
        {
            "radius R": f"{radius_text(certificate.radius, 4)} ({certificate.noise.threat(certificate.norm)})",
            "certified": certified,
            "abstained": f"{1 - certificate.certified / certificate.N:.1%}",
            "noise": _escape(str(certificate.noise)),
            "tau, n0, n": f"{certificate.tau:g}, {certificate.n0:,}, {certificate.n:,}",
            "alpha, correction": f"{certificate.alpha:g}, {certificate.correction}",
        }
    )
    _print_files(files)


def _print_rows(rows: dict[str, str]) -> None:
    table = Table(show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)


def _print_files(files: Sequence[Path]) -> None:
    for file in files:
        console.print(f"wrote {_escape(str(file))}", soft_wrap=True)
