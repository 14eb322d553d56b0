"""`segcertify evaluate`: a model over a data set, certified and perhaps attacked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segcertify.cli.options import (
    ATTACK,
    OUTPUT,
    Alpha,
    BatchSize,
    Candidates,
    Correction,
    Data,
    Device,
    Draws,
    ErrorBudget,
    ErrorCount,
    Every,
    Json,
    Limit,
    Loss,
    Model,
    Noise,
    Out,
    Precision,
    Quiet,
    Radius,
    Restarts,
    Seed,
    Setting,
    ShortSide,
    Sigma,
    Steps,
    Tau,
    chosen_device,
    chosen_scenes,
    claims_of,
    folder,
    noise_on,
    ready_model,
)
from segcertify.cli.printing import Printer, resumable
from segcertify.cli.report import print_report
from segcertify.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segcertify.evaluation import AttackSettings
    from segcertify.evaluation import Setting as Claim
    from segcertify.stats.correction import Procedure


def evaluate(
    model: Model[str],
    data: Data[str],
    sigma: Sigma[float | None] = None,
    n: Draws[int | None] = None,
    tau: Tau[float | None] = None,
    setting: Setting[list[str] | None] = None,
    noise: Noise[str] = "gaussian",
    seed: Seed = 0,
    attack: Annotated[bool, typer.Option("--attack", help="Also attack every scene.")] = False,
    n0: Candidates = 10,
    alpha: Alpha = 0.001,
    correction: Correction[list[str] | None] = None,
    k: ErrorCount = None,
    b: ErrorBudget = None,
    short_side: ShortSide = None,
    every: Every[int] = 1,
    limit: Limit = None,
    loss: Loss[str | None] = None,
    radius: Radius[list[float] | None] = None,
    steps: Steps[int | None] = None,
    restarts: Restarts[int | None] = None,
    smoothed_draws: Annotated[
        int | None,
        typer.Option(
            help="Attack the smoothed model too (slow); its label is the most frequent of this many draws.",
            rich_help_panel=ATTACK,
        ),
    ] = None,
    batch_size: BatchSize = None,
    device: Device = None,
    precision: Precision = "fp32",
    votes: Annotated[
        bool, typer.Option("--votes", help="Keep every scene's votes, for audit.", rich_help_panel=OUTPUT)
    ] = False,
    pictures: Annotated[
        bool,
        typer.Option("--pictures", help="Keep every scene's pictures; of a cloud also a page.", rich_help_panel=OUTPUT),
    ] = False,
    out: Out[Path] = Path("evaluation"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Certify a data set: records as JSON lines, tables and figures. Run again to resume.

    One claim is --sigma 0.25 --n 100 --tau 0.75. For several, repeat --setting sigma=0.25,n=100,tau=0.75.
    """
    from segcertify.evaluation import evaluate
    from segcertify.models import size_note
    from segcertify.stats.correction import procedures

    printer, corrections = Printer(json, quiet), correction or ["holm"]
    chosen = procedures(corrections, k=k, b=b)
    claims = claims_of(setting, sigma=sigma, n=n, tau=tau)
    given = {"loss": loss, "radii": radius, "steps": steps, "restarts": restarts, "smoothed": smoothed_draws}
    attacks = _attack_settings({name: value for name, value in given.items() if value is not None}, attack=attack)
    scenes = chosen_scenes(data, every=every, limit=limit, short_side=short_side)
    device = chosen_device(device)
    if len(scenes):
        for claim in claims:
            printer.note(_idle_note(claim, chosen, alpha=alpha, N=scenes[0].target.size))
    segmenter = ready_model(model, device)
    printer.note(size_note(segmenter, scenes[0].x.shape) if len(scenes) else None)
    with resumable():
        evaluate(
            segmenter,
            scenes,
            out=folder(out),
            settings=claims,
            noise=noise_on(noise, scenes.domain.axis),
            corrections=corrections,
            k=k,
            b=b,
            n0=n0,
            alpha=alpha,
            seed=seed,
            batch_size=batch_size,
            device=device,
            name=model,
            precision=precision,
            attack=attacks,
            save_votes=votes,
            save_pictures=pictures,
            progress=printer.progress,
        )
    print_report(out, printer)


def _attack_settings(chosen: dict[str, Any], *, attack: bool) -> AttackSettings | None:
    """The attack that the options describe, if there is one; those left out keep their defaults."""
    from segcertify.evaluation import AttackSettings

    if not attack and chosen:
        name = {"radii": "radius", "smoothed": "smoothed-draws"}.get(first := next(iter(chosen)), first)
        raise InputError(f"--{name} is for an attack, but there is none: add --attack")
    return AttackSettings(**chosen | {"radii": tuple(chosen.get("radii", ()))}) if attack else None


def _idle_note(claim: Claim, corrections: Sequence[Procedure], *, alpha: float, N: int) -> str | None:
    """A note before the work, if a claim has too few draws to certify anything."""
    from segcertify.stats.planning import require_certifiable

    try:
        for correction in corrections:
            require_certifiable(N, claim.tau, alpha, correction, claim.n)
    except InputError as error:
        return f"all will abstain: {error}"
    return None
