"""The command that attacks: two base models and the smoothed one, on one image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.certificate import radius_text
from segcertify.cli.options import Alpha, Candidates, Device, Model, Seed, Tau, chosen_device, folder, ready_model
from segcertify.cli.printing import console, escape, print_files, print_table
from segcertify.errors import InputError, require_integer, require_positive

if TYPE_CHECKING:
    import torch

    from segcertify.arrays import Array, IntArray
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
    short_side: Annotated[int | None, typer.Option(help="Resize to this many pixels on the short side.")] = None,
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
    picture, target = _read(image, label, ignore, short_side)
    out = folder(out or Path("attacked") / image.stem)
    device = chosen_device(device)
    robust, other = ready_model(model, device), ready_model(non_robust, device)
    card = card_of(robust)
    if target is not None and card is not None:
        _require_classes(target, len(card.classes), label=label)
    x = torch.from_numpy(picture).to(device)
    _require_same_classes(*(_classes(each, x) for each in (robust, other)))
    certificate = certify(robust, x, sigma=sigma, tau=tau, n=n, n0=n0, alpha=alpha, seed=seed, device=device)
    certificate.save(out / "certificate.safetensors")
    console.print(escape(certificate.claim))
    found = compare(
        robust,
        other,
        x,
        certificate,
        target=target,
        radius=radius,
        steps=steps,
        loss=loss,
        restarts=restarts,
        draws=draws,
        seed=seed,
    )
    figure = attack_figure(
        picture,
        found,
        target=target,
        colours=np.array(card.colours) / 255 if card else None,
        names=card.classes if card else (),
    )
    save_figure(figure, out / "attacked.png")
    print_table(_table(found))
    console.print(escape(_verdict(found)))
    print_files([out / "attacked.png", out / "certificate.safetensors"])


def _read(image: Path, label: Path | None, ignore: int, short_side: int | None) -> tuple[Array, IntArray | None]:
    """The image and its ground truth, -1 where ignored, both resized if asked (labels to the nearest)."""
    import numpy as np

    from segcertify.data.images.reading import image_size, read_label

    if image.suffix.lower() in (".npy", ".txt", ".ply"):
        raise InputError(
            f"an image is attacked, but {image} holds an array or a cloud: use evaluate --attack for clouds"
        )
    picture = read_resized(image, short_side, upright=label is None)  # labels are of the pixels as they are stored
    if label is None:
        return picture, None
    full, target = image_size(image), read_label(label)
    if target.shape != full:
        raise InputError(f"{label} has size {target.shape}, but the image has size {full}")
    sizes = zip(picture.shape[1:], full, strict=True)
    rows, columns = (((np.arange(new) + 0.5) * old / new).astype(int) for new, old in sizes)
    target = target[rows][:, columns]
    return picture, np.where(target == ignore, -1, target)


def read_resized(image: Path, short_side: int | None, *, upright: bool = True) -> Array:
    """An image, its short side of so many pixels if asked."""
    from segcertify.data.images.reading import image_size, read_image

    if not image.is_file():
        raise InputError(f"no file at {image}")
    if short_side is None:
        return read_image(image, upright=upright)
    full = image_size(image, upright=upright)
    factor = require_integer("--short-side", short_side) / min(full)
    size = (max(1, round(full[0] * factor)), max(1, round(full[1] * factor)))
    return read_image(image, resize=size, upright=upright)


def _require_classes(target: IntArray, classes: int, *, label: Path | None) -> None:
    """Refuse a ground truth with labels that the model does not have."""
    if (largest := int(target.max())) >= classes:
        raise InputError(
            f"{label} holds the label {largest}, but the model's are 0 .. {classes - 1}: "
            f"if it stands for no ground truth, give --ignore {largest}"
        )


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
