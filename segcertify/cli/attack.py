"""`segcertify attack`: two base models and the smoothed one under attack, on one image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.cli import options as opt
from segcertify.cli.printing import Printer, certificate_values, noted
from segcertify.errors import InputError, require_integer, require_positive
from segcertify.names import file_name
from segcertify.numerals import exact, percent, radius_text, union_bound

if TYPE_CHECKING:
    from segcertify.attacks.comparison import Attacked, Comparison
    from segcertify.report.table import Table


def attack(
    image: Annotated[Path, typer.Argument(help="An image; becomes RGB in [0, 1].")],
    model: opt.Model[str],
    non_robust: opt.NonRobust[str],
    sigma: opt.Sigma[float] = 0.25,
    n: opt.Draws[int] = 100,
    tau: opt.Tau[float] = 0.75,
    seed: opt.Seed[int | None] = None,
    n0: opt.Candidates = 10,
    alpha: opt.Alpha = 0.001,
    short_side: opt.ShortSide = None,
    full_size: opt.FullSize = False,
    label: opt.Label = None,
    ignore: opt.Ignore = 255,
    radius: opt.Radius[float | None] = None,
    steps: opt.Steps[int] = 100,
    loss: opt.Loss[str] = "cross-entropy",
    restarts: opt.Restarts[int] = 1,
    copies: opt.Copies = 8,
    device: opt.Device = None,
    trust_code: opt.TrustCode = False,
    out: opt.Out[Path | None] = None,
    colours: opt.Colours = "own",
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Attack a non-robust, a robust and the smoothed model, and draw the paper's Figure 1, by default in attacked/NAME.

    With --label the attacks lead away from the ground truth, else from each model's labels. Beyond the certified
    radius nothing is promised.
    """
    from dataclasses import replace

    import numpy as np
    import torch

    from segcertify.attacks.comparison import compare, require_comparable
    from segcertify.attacks.losses import require_loss
    from segcertify.cli.certificates import VOTES, Claimed, stored_once
    from segcertify.cli.inputs import input_id, read
    from segcertify.cli.pages import audit_command, page_beside
    from segcertify.figures.attack import attack_figure
    from segcertify.figures.image import save_figure
    from segcertify.models import card_of, size_note
    from segcertify.sampling.smooth import certify
    from segcertify.stats.correction import PROCEDURES

    printer = Printer(json, quiet)
    require_loss(loss)
    _require_options(image, radius, tau, steps=steps, restarts=restarts, copies=copies)
    device = opt.chosen_device(device)
    robust, other = (opt.ready_model(spec, device, trust_code=trust_code) for spec in (model, non_robust))
    read_in = read(image, robust, label=label, ignore=ignore, short_side=short_side, full_size=full_size)
    printer.note(size_note(robust, read_in.x.shape))
    out = opt.folder(out or Path("attacked") / file_name(image.stem))
    x = torch.from_numpy(read_in.x).to(device)
    require_comparable(robust, other, x)
    file = Claimed(tau, alpha, PROCEDURES["holm"], "l2").file(out)
    certificate = certify(
        robust, x, sigma=sigma, tau=tau, n=n, n0=n0, alpha=alpha, seed=seed, device=device, input_id=input_id(image),
        save_votes=out / VOTES, preprocessing=read_in.preprocessing, progress=printer.progress,
    )  # fmt: skip
    certificate = stored_once(replace(certificate, command=opt.command_line()), file)
    printer.claim(certificate)
    found = compare(
        robust, other, x, certificate, target=read_in.target, radius=radius, steps=steps, loss=loss, restarts=restarts,
        draws=copies, seed=certificate.seed, progress=printer.progress,
    )  # fmt: skip
    card = card_of(robust)
    names = card.classes if card else ()
    table = np.array(card.colours) / 255 if card and colours == "data" else None
    files = [file, out / VOTES]
    with noted(printer, "no picture"):
        figure = attack_figure(read_in.x, found, target=read_in.target, colours=table, names=names)
        save_figure(figure, out / "attacked.png")
        files.insert(0, out / "attacked.png")
    audit = audit_command(
        file, model, image, label=label, ignore=ignore, short_side=short_side, full_size=full_size,
        trust_code=trust_code,
    )  # fmt: skip
    files[1:1] = page_beside(
        printer, robust, read_in, certificate, out / VOTES, device=device, page=out / "attacked.html", audit=audit,
        attacked=found.overlays, colours=colours,
    )  # fmt: skip
    printer.table(_table(found))
    printer.say(found.verdict)
    printer.files(files)
    attacks = {name: _numbers(each) for name, each in found.attacks.items()}
    printer.result(
        certificate=certificate_values(certificate), radius=found.radius, attacks=attacks, verdict=found.verdict,
        files=files,
    )  # fmt: skip


def _require_options(image: Path, radius: float | None, tau: float, **counts: int) -> None:
    """Refuse options that no attack can have, before the models are loaded."""
    from segcertify.data.reading import ARRAY_SUFFIXES, CLOUD_SUFFIXES

    for name, count in counts.items():
        require_integer(f"--{name}", count)
    if radius is not None:
        require_positive("radius", radius)
    elif tau == 0.5:
        raise InputError(f"tau={exact(tau)} certifies no radius to attack within: give --radius, or a larger --tau")
    if image.name.lower().endswith((*ARRAY_SUFFIXES, *CLOUD_SUFFIXES)):
        raise InputError(
            f"an image is attacked, but {image} holds an array or a cloud: use evaluate --attack for clouds"
        )


def _numbers(attacked: Attacked) -> dict[str, int]:
    """What an attack changed, for JSON."""
    smoothed = attacked.smoothed
    counts = {"certified": smoothed.certified, "moved": smoothed.moved, "moved_significantly": smoothed.refuted}
    return {"flipped": attacked.flipped, "components": attacked.clean.size, **counts}


def _table(found: Comparison) -> Table:
    """How many pixels each attack changed, and what the smoothed model says there."""
    from segcertify.plain_words import AGAIN
    from segcertify.report.table import Table

    rows = []
    for name, each in found.attacks.items():
        flipped = f"{each.flipped:,} of {each.clean.size:,} ({percent(each.flipped / each.clean.size)})"
        asked = f"{each.smoothed.moved:,} of {each.smoothed.certified:,}"
        rows.append((name, flipped, asked, f"{each.smoothed.refuted:,}"))
    n, alpha = found.certificate.n, found.certificate.alpha
    where = "" if found.certificate.file_radius is None else " at the network's input"
    return Table(
        f"Attacks within l2 norm {radius_text(found.radius, 4)}{where}",
        ("attacked", "its pixels that changed", "certified pixels of the smoothed model that moved", "significantly"),
        tuple(rows),
        notes=(
            "Changed: the attacked model's label differs from its label without attack (smoothed model: the most "
            f"frequent of {n:,} draws, before and after).",
            f"Moved: at the attacked image the most frequent label among {n:,} fresh draws is not the certified one. "
            "Significantly: so rare that its probability is at most 1/2, at level "
            f"{exact(alpha)} for all pixels of one attack together, and {union_bound(alpha, len(rows))} for the "
            f"{len(rows)} attacks together.",
            *([AGAIN] if found.certificate.claimed.family_wise else []),
        ),
    )
