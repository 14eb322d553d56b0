"""Commands on one input: demo, certify, plan."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from segcertify.cli.options import (
    Alpha,
    BatchSize,
    Budget,
    Candidates,
    CorrectionName,
    Device,
    Model,
    Precision,
    Seed,
    ShortSide,
    Tau,
    chosen_device,
    folder,
    ready_model,
)
from segcertify.cli.printing import console, escape, print_certificate, print_files, print_rows, print_table, resumable
from segcertify.errors import InputError
from segcertify.metrics.shapenet import CATEGORIES
from segcertify.noise import AxisRotation, Gaussian, Laplace, Noise, Rotation, Uniform, scale_for


class NoiseName(StrEnum):
    """What `certify` can draw."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    UNIFORM = "uniform"
    ROTATION = "rotation"
    AXIS_ROTATION = "axis-rotation"


def demo(
    shape: Annotated[
        str | None, typer.Option(help=f"Certify a generated shape instead, one of {', '.join(CATEGORIES)}.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the pictures and the certificate; default certified/demo, or demo-SHAPE there."),
    ] = None,
    sigma: Annotated[
        float, typer.Option(help="Standard deviation of the noise; the model was trained with 0.25.")
    ] = 0.25,
    seed: Seed = 0,
) -> None:
    """Certify a bundled photograph of a cat, or a generated shape, with a bundled model, on the CPU."""
    start = time.perf_counter()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that sleep, not spin: much faster on a busy CPU
    from segcertify.demo import run
    from segcertify.models.wrappers.part_segmenter import category_name

    category = None if shape is None else category_name(shape)
    name = "demo" if category is None else f"demo-{category.lower()}"
    result = run(folder(out or Path("certified") / name), category=category, sigma=sigma, seed=seed)
    console.print(escape(result.sentence))
    print_table(result.table)
    print_files(result.files)
    console.print(f"took {time.perf_counter() - start:.1f} s on the CPU")


def certify(
    input: Annotated[
        Path,
        typer.Argument(
            help="An image (becomes RGB in [0, 1]). A cloud of points (becomes centred, of radius 1) in a .txt or .ply "
            "file, or in a .npy file if the model is for shapes' parts: columns x y z, then nx ny nz and label where "
            "known. Any other .npy file of floats stays as it is."
        ),
    ],
    model: Model,
    sigma: Annotated[
        float, typer.Option(help="The noise's scale, in the input's units (b for laplace, lam for uniform).")
    ],
    noise: Annotated[NoiseName, typer.Option(help="What is drawn.")] = NoiseName.GAUSSIAN,
    tau: Tau = 0.75,
    n: Annotated[int, typer.Option("--n", help="Draws that test the candidates.")] = 100,
    n0: Candidates = 10,
    alpha: Alpha = 0.001,
    correction: CorrectionName = "holm",
    b: Budget = None,
    norm: Annotated[str | None, typer.Option(help="linf, for gaussian noise; the noise's own norm by default.")] = None,
    channels: Annotated[
        str | None,
        typer.Option(
            help="Noise on these channels only, such as 0,1,2 (gaussian). Of clouds with normals, x, y, z by default."
        ),
    ] = None,
    axis: Annotated[
        str | None,
        typer.Option(
            help="Axis of the channels (default 0, of clouds 1), or of axis-rotation: x, y, z or such as 1,1,0."
        ),
    ] = None,
    label: Annotated[
        Path | None, typer.Option(help="An image's ground truth as a PNG of class numbers, for the picture.")
    ] = None,
    ignore: Annotated[int, typer.Option(help="The ground truth's number for ignored pixels or points.")] = 255,
    short_side: ShortSide = None,
    seed: Seed = 0,
    batch_size: BatchSize = None,
    device: Device = None,
    precision: Precision = "fp32",
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default certified/NAME.")] = None,
) -> None:
    """Certify one input: writes votes, certificate and, for images and clouds, pictures. Run again to resume."""
    import torch

    from segcertify.cli.inputs import draw, read, require_its_folder
    from segcertify.models import card_of
    from segcertify.sampling.smooth import certify

    chosen = _noise(noise, sigma, channels, axis)
    if not input.is_file():
        raise InputError(f"no file at {input}")
    device = chosen_device(device)
    segmenter = ready_model(model, device, precision=precision)
    read_in = read(input, segmenter, label=label, ignore=ignore, short_side=short_side)
    x = torch.from_numpy(read_in.x)
    chosen = read_in.domain.noise(chosen, x.shape)
    if isinstance(chosen, Gaussian) and channels is not None and axis is None:
        chosen = replace(chosen, axis=read_in.domain.axis)
    in_range = read_in.domain.bounds is None or card_of(segmenter) is None or not x.numel()
    if not in_range and (largest := float(x.abs().amax())) > 2:
        console.print(
            f"[yellow]note:[/] {escape(str(input))} has values of size {largest:g}, but the model was "
            "trained on images in [0, 1], whose units sigma and the radius have: divide by 255?",
            soft_wrap=True,
        )
    out = folder(out or Path("certified") / input.stem)
    votes, resume = out / "votes.safetensors", out / "resume.safetensors"
    require_its_folder(votes, x)
    with resumable():
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
    certificate.save(out / "certificate.safetensors")
    resume.unlink(missing_ok=True)
    drawn = draw(segmenter, read_in, certificate, device=device, out=out)
    print_certificate(certificate, [out / "certificate.safetensors", votes, *drawn])


def plan(
    components: Annotated[int, typer.Option("--N", "-N", help="Number of components (pixels, points) tested.")],
    tau: Tau = 0.75,
    alpha: Alpha = 0.001,
    correction: CorrectionName = "holm",
    b: Budget = None,
    n: Annotated[int | None, typer.Option("--n", help="A number of draws to judge; the smallest by default.")] = None,
    p: Annotated[float | None, typer.Option("--p", help="Assumed probability of the candidates.")] = None,
    radius: Annotated[
        float | None, typer.Option(help="A radius to prove; all rotations are 3.1415926, an angle.")
    ] = None,
    noise: Annotated[
        NoiseName, typer.Option(help="The noise whose sigma to find for the radius.")
    ] = NoiseName.GAUSSIAN,
) -> None:
    """How many draws are needed, how many of them may disagree, and which sigma a radius takes. Draws nothing."""
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
    if radius is not None:
        rows[f"sigma of {noise} noise that proves R = {radius:g}"] = _sigma_text(noise, radius, tau)
    print_rows(rows)


def _sigma_text(name: NoiseName, radius: float, tau: float) -> str:
    """The noise's scale for a radius, rounded up to six digits or so."""
    scale = scale_for(type(_noise(name, 1.0, None, None)), radius, tau=tau)
    return f"{scale * (1 + 5e-6):.6g}"


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
        NoiseName.AXIS_ROTATION: lambda: AxisRotation(sigma, _axis(axis or "z")),
    }
    return noises[name]()


def _axis(text: str) -> str | tuple[float, ...]:
    """An axis by name, or by three numbers such as 1,1,0."""
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        return text
