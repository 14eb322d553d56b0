"""The command that attacks: two base models and the smoothed one, on one image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.certificate import radius_text
from segcertify.cli.options import (
    Alpha,
    Candidates,
    Device,
    Model,
    Seed,
    ShortSide,
    Tau,
    chosen_device,
    folder,
    ready_model,
)
from segcertify.cli.printing import console, escape, print_files, print_table
from segcertify.errors import InputError, require_integer, require_positive

if TYPE_CHECKING:
    import torch

    from segcertify.attacks.comparison import Comparison
    from segcertify.report.table import Table
    from segcertify.sampling.segmenter import Segmenter


def attack(
    image: Annotated[Path, typer.Argument(help="An image; becomes RGB in [0, 1].")],
    model: Model,
    non_robust: Annotated[str, typer.Option(help="The spec of a model with the same classes, trained without noise.")],
    label: Annotated[
        Path | None, typer.Option(help="Ground truth as a PNG of class numbers; else what each model says is attacked.")
    ] = None,
    ignore: Annotated[int, typer.Option(help="The ground truth's number for ignored pixels.")] = 255,
    short_side: ShortSide = None,
    sigma: Annotated[float, typer.Option(help="Standard deviation of the smoothed model's noise.")] = 0.25,
    tau: Tau = 0.75,
    n: Annotated[int, typer.Option("--n", help="Draws that test the candidates, and that ask again.")] = 100,
    n0: Candidates = 10,
    alpha: Alpha = 0.001,
    radius: Annotated[
        float | None,
        typer.Option(help="The attacks' l2 radius; the certified one by default. Beyond, nothing is sure."),
    ] = None,
    steps: Annotated[
        int, typer.Option(help="Steps of size 10 R / steps; a fifth of them on the smoothed model.")
    ] = 100,
    loss: Annotated[str, typer.Option(help="cross-entropy (the paper's), segpgd or cospgd.")] = "cross-entropy",
    restarts: Annotated[int, typer.Option(help="Random starts.")] = 1,
    draws: Annotated[int, typer.Option(help="Noisy copies a step, in the attack on the smoothed model.")] = 8,
    seed: Seed = 0,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the picture; default attacked/NAME.")] = None,
) -> None:
    """Attack a non-robust, a robust and the smoothed model, and draw the paper's Figure 1."""
    import numpy as np
    import torch

    from segcertify.attacks.comparison import compare
    from segcertify.attacks.losses import require_loss
    from segcertify.cli.inputs import read
    from segcertify.figures.attack import attack_figure
    from segcertify.figures.image import save_figure
    from segcertify.models import card_of
    from segcertify.sampling.smooth import certify

    require_loss(loss)
    for name, count in (("steps", steps), ("restarts", restarts), ("draws", draws)):
        require_integer(f"--{name}", count)
    if radius is None and tau == 0.5:
        raise InputError(f"tau={tau:g} certifies no radius to attack within: give --radius, or a larger --tau")
    radius = None if radius is None else require_positive("radius", radius)
    if image.suffix.lower() in (".npy", ".txt", ".ply"):
        raise InputError(
            f"an image is attacked, but {image} holds an array or a cloud: use evaluate --attack for clouds"
        )
    device = chosen_device(device)
    robust, other = ready_model(model, device), ready_model(non_robust, device)
    card, read_in = card_of(robust), read(image, robust, label=label, ignore=ignore, short_side=short_side)
    out = folder(out or Path("attacked") / image.stem)
    x = torch.from_numpy(read_in.x).to(device)
    _require_same_classes(*(_classes(each, x) for each in (robust, other)))
    certificate = certify(robust, x, sigma=sigma, tau=tau, n=n, n0=n0, alpha=alpha, seed=seed, device=device)
    certificate.save(out / "certificate.safetensors")
    console.print(escape(certificate.claim))
    found = compare(
        robust,
        other,
        x,
        certificate,
        target=read_in.target,
        radius=radius,
        steps=steps,
        loss=loss,
        restarts=restarts,
        draws=draws,
        seed=seed,
    )
    figure = attack_figure(
        read_in.x,
        found,
        target=read_in.target,
        colours=np.array(card.colours) / 255 if card else None,
        names=card.classes if card else (),
    )
    save_figure(figure, out / "attacked.png")
    print_table(_table(found))
    console.print(escape(_verdict(found)))
    print_files([out / "attacked.png", out / "certificate.safetensors"])


def _classes(model: Segmenter, x: torch.Tensor) -> int:
    """How many classes a model gives logits of."""
    from segcertify.sampling.segmenter import is_random, raw_output, to_model_dtype

    try:
        output = raw_output(model, to_model_dtype(model, x[None]), [0] if is_random(model) else None)
    except (RuntimeError, ValueError, TypeError) as error:
        raise InputError(f"the model failed on this image, {type(error).__name__}: {error}") from error
    if not output.is_floating_point() or output.ndim < 2:
        raise InputError(f"an attack follows gradients and needs logits, but the model gave {output.dtype}")
    return output.shape[1]


def _require_same_classes(robust: int, other: int) -> None:
    if robust != other:
        raise InputError(f"--model has {robust} classes and --non-robust {other}: they must have the same")


def _table(found: Comparison) -> Table:
    """How many pixels each attack changed, and what the smoothed model says there."""
    from segcertify.report.table import Table

    rows = []
    for name, each in found.attacks.items():
        flipped = f"{each.flipped:,} of {each.clean.size:,} ({each.flipped / each.clean.size:.1%})"
        asked = f"{each.smoothed.moved:,} of {each.smoothed.certified:,}"
        rows.append((name, flipped, asked, f"{each.smoothed.refuted:,}"))
    n = found.certificate.n
    return Table(
        f"Attacks within l2 norm {radius_text(found.radius, 4)}",
        ("attacked", "its pixels that changed", "certified pixels of the smoothed model that moved", "significantly"),
        tuple(rows),
        notes=(
            "Changed: the attacked model's label differs from its label without attack (smoothed model: the most "
            f"frequent of {n:,} draws, before and after).",
            f"Moved: at the attacked image the most frequent label among {n:,} fresh draws is not the certified one. "
            "Significantly: so rare that its probability is at most 1/2, at level "
            f"{found.certificate.alpha:g} for all pixels together.",
        ),
    )


def _verdict(found: Comparison) -> str:
    """What the three recounts say of the certificate."""
    asked, certificate = [each.smoothed for each in found.attacks.values()], found.certificate
    moved, refuted = max(each.moved for each in asked), max(each.refuted for each in asked)
    if found.radius > certificate.radius:
        proved = radius_text(certificate.radius, 4)
        return f"The attacks went beyond the certified radius of {proved}: there nothing is promised."
    if not certificate.certified:
        return "Nothing is certified: there was nothing to attack in the smoothed model."
    if not moved:
        return "No certified pixel of the smoothed model moved, under any of the three attacks."
    if not refuted:
        return (
            f"Up to {moved:,} certified pixels had another majority, none significantly: their probability may be "
            "close to 1/2. Ask with a larger --n."
        )
    return (
        f"Up to {refuted:,} certified pixels moved significantly. The chance of that is at most "
        f"{(1 + len(asked)) * certificate.alpha:g}: please report it."
    )
