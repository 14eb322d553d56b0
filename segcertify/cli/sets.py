"""Commands on data sets: evaluate, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.cli.options import (
    Alpha,
    BatchSize,
    Candidates,
    Data,
    Device,
    Every,
    Limit,
    Model,
    Precision,
    Seed,
    ShortSide,
    chosen_device,
    folder,
    ready_model,
)
from segcertify.cli.printing import console, escape, print_files, print_table, resumable
from segcertify.errors import InputError

if TYPE_CHECKING:
    from segcertify.evaluation import AttackSettings, Setting


def evaluate(
    model: Model,
    data: Data,
    setting: Annotated[
        list[str], typer.Option(help="sigma,n,tau such as 0.25,100,0.75; give it several times for several claims.")
    ],
    noise: Annotated[
        str, typer.Option(help="gaussian, laplace, uniform, or for clouds rotation, rotation:z, rotation:1,1,0.")
    ] = "gaussian",
    correction: Annotated[
        list[str] | None, typer.Option(help="holm (the default), bonferroni, bh or by; may be given several times.")
    ] = None,
    n0: Candidates = 10,
    alpha: Alpha = 0.001,
    seed: Seed = 0,
    every: Every = 1,
    limit: Limit = None,
    short_side: ShortSide = None,
    device: Device = None,
    batch_size: BatchSize = None,
    precision: Precision = "fp32",
    attack: Annotated[
        str | None, typer.Option(help="Also attack every scene, with this loss: cross-entropy, segpgd or cospgd.")
    ] = None,
    attack_radius: Annotated[
        list[float] | None,
        typer.Option(
            help="A radius to attack within; may be given several times. By default those certified, and twice and "
            "four times the largest."
        ),
    ] = None,
    attack_steps: Annotated[int | None, typer.Option(help="Steps of each attack; 100 by default.")] = None,
    attack_restarts: Annotated[int | None, typer.Option(help="Random starts of each attack; 1 by default.")] = None,
    attack_smoothed: Annotated[
        int | None, typer.Option(help="Attack the smoothed model too (slow), and ask it with so many draws.")
    ] = None,
    votes: Annotated[bool, typer.Option("--votes", help="Keep every scene's votes.")] = False,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Keep pictures of every scene; of clouds also a page each.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The run's folder; the same command resumes it.")] = Path("evaluation"),
) -> None:
    """Certify a data set: records as JSON lines, tables and figures. Run again to resume."""
    from segcertify.data import load
    from segcertify.evaluation import evaluate

    claims = [parse_setting(text) for text in setting]
    attacker = _attacker(
        attack, radii=attack_radius, steps=attack_steps, restarts=attack_restarts, smoothed=attack_smoothed
    )
    scenes = load(data).every(every)
    scenes = scenes if limit is None else scenes.limit(limit)
    scenes = scenes if short_side is None else scenes.resized(short_side)
    device = chosen_device(device)
    if len(scenes):
        _note_idle(claims, correction or ["holm"], alpha=alpha, N=scenes[0].target.size)
    segmenter = ready_model(model, device)
    with resumable():
        evaluate(
            segmenter,
            scenes,
            out=folder(out),
            settings=claims,
            noise=noise,
            corrections=correction or ["holm"],
            n0=n0,
            alpha=alpha,
            seed=seed,
            batch_size=batch_size,
            device=device,
            name=model,
            precision=precision,
            attack=attacker,
            save_votes=votes,
            save_pictures=pictures,
        )
    report(out)


def _note_idle(claims: list[Setting], corrections: list[str], *, alpha: float, N: int) -> None:
    """Say it before the work, where a setting has too few draws to certify anything."""
    from segcertify.stats.correction import procedure
    from segcertify.stats.planning import require_certifiable

    for correction in map(procedure, corrections):
        for claim in claims:
            try:
                require_certifiable(N, claim.tau, alpha, correction, claim.n)
            except InputError as error:
                console.print(f"[yellow]note:[/] all will abstain: {escape(str(error))}", soft_wrap=True)


def report(run: Annotated[Path, typer.Argument(help="The folder of an evaluation.")]) -> None:
    """Tables (Markdown, LaTeX, CSV) and figures of an evaluation, finished or not."""
    from segcertify.report.files import write_report
    from segcertify.report.run import Run

    finished = Run.load(run)
    files = write_report(finished, run / "report")
    print_table(finished.table())
    if (attacked := finished.attacked_table()) is not None:
        print_table(attacked)
    print_files(files)


def _attacker(
    loss: str | None, *, radii: list[float] | None, steps: int | None, restarts: int | None, smoothed: int | None
) -> AttackSettings | None:
    """The attacker that the options describe; None where there is none."""
    from segcertify.evaluation import AttackSettings

    if loss is None:
        given = {"--attack-radius": radii, "--attack-steps": steps}
        given |= {"--attack-restarts": restarts, "--attack-smoothed": smoothed}
        alone = [name for name, value in given.items() if value is not None]
        if alone:
            raise InputError(f"{alone[0]} is for an attack, but there is none: add --attack cross-entropy")
        return None
    default = AttackSettings()
    return AttackSettings(
        loss,
        tuple(radii or ()),
        steps=default.steps if steps is None else steps,
        restarts=default.restarts if restarts is None else restarts,
        smoothed=default.smoothed if smoothed is None else smoothed,
    )


def parse_setting(text: str) -> Setting:
    """sigma,n,tau."""
    from segcertify.evaluation import Setting

    try:
        sigma, n, tau = text.split(",")
        return Setting(float(sigma), int(n), float(tau))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--setting takes sigma,n,tau such as 0.25,100,0.75, but got {text!r}") from None
