"""`segcertify evaluate`: a model over a data set, certified and perhaps attacked."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segcertify.cli import engines
from segcertify.cli import options as opt
from segcertify.cli.printing import Printer, resumable
from segcertify.cli.report import print_report
from segcertify.errors import InputError

if TYPE_CHECKING:
    from segcertify.data import DataSet, Scene
    from segcertify.evaluation import AttackSettings, MetricSettings, Setting
    from segcertify.stats.correction import Procedure


def evaluate(
    model: opt.Model[str],
    data: opt.Data[str],
    sigma: opt.Sigma[float | None] = None,
    n: opt.Draws[int | None] = None,
    tau: opt.Tau[float | None] = None,
    setting: opt.Setting[list[str] | None] = None,
    noise: opt.Noise[str] = "gaussian",
    seed: opt.Seed[int | None] = None,
    attack: Annotated[bool, typer.Option("--attack", help="Also attack every scene.")] = False,
    n0: opt.Candidates = 10,
    alpha: opt.Alpha = 0.001,
    correction: opt.Correction[list[str] | None] = None,
    k: opt.ErrorCount = None,
    b: opt.ErrorBudget = None,
    sets: opt.Sets = False,
    looks: opt.Looks = 0,
    until: opt.Until = None,
    cap: opt.Cap = None,
    metric: opt.Metric[list[str] | None] = None,
    target_radius: opt.TargetRadius[list[float] | None] = None,
    share: opt.Share[float | None] = None,
    short_side: opt.ShortSide = None,
    full_size: opt.FullSize = False,
    every: opt.Every[int] = 1,
    limit: opt.Limit = None,
    loss: opt.Loss[str | None] = None,
    radius: opt.Radius[list[float] | None] = None,
    steps: opt.Steps[int | None] = None,
    restarts: opt.Restarts[int | None] = None,
    smoothed_draws: Annotated[
        int | None,
        typer.Option(
            help="Attack the smoothed model too (slow); its label is the most frequent of this many draws.",
            rich_help_panel=opt.ATTACK,
        ),
    ] = None,
    skip_broken: Annotated[
        bool,
        typer.Option(
            "--skip-broken", help="Skip scenes that cannot be read; the report names them.", rich_help_panel=opt.INPUT
        ),
    ] = False,
    batch_size: opt.BatchSize = None,
    device: opt.Device = None,
    engine: engines.Kind = "local",
    workers: engines.Workers = None,
    address: engines.Address = None,
    patience: engines.Patience = 600.0,
    precision: opt.Precision = "fp32",
    compile: opt.Compile = False,
    trust_code: opt.TrustCode = False,
    votes: Annotated[
        bool, typer.Option("--votes", help="Keep every scene's votes, for audit.", rich_help_panel=opt.OUTPUT)
    ] = False,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures", help="Keep every scene's pictures; of a cloud also a page.", rich_help_panel=opt.OUTPUT
        ),
    ] = False,
    colours: opt.Colours = "own",
    out: opt.Out[Path] = Path("evaluation"),
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Certify a data set: records as JSON lines, tables and figures. Run again to resume.

    One claim is --sigma 0.25 --n 100 --tau 0.75. For several, repeat --setting sigma=0.25,n=100,tau=0.75.
    """
    from segcertify.evaluation import evaluate
    from segcertify.models import sigma_note, size_note
    from segcertify.stats.correction import procedures

    printer, corrections, out = Printer(json, quiet), correction or ["holm"], opt.folder(out)
    chosen = procedures(corrections, k=k, b=b)
    claims = opt.claims_of(setting, sigma=sigma, n=n, tau=tau)
    given = {"loss": loss, "radii": radius, "steps": steps, "restarts": restarts, "smoothed": smoothed_draws}
    metrics = _metric_settings(metric, target_radius, share)
    attacks = _attack_settings({name: value for name, value in given.items() if value is not None}, attack=attack)
    opt.chosen_side(short_side, full_size)
    drawing = engines.chosen_engine(engine, workers, address, patience)
    here, device = engines.devices(drawing, device)
    scenes = opt.chosen_scenes(data, every=every, limit=limit)
    segmenter = opt.ready_model(model, here, compile=compile, trust_code=trust_code)
    scenes = opt.resized_scenes(scenes, segmenter, short_side=short_side, full_size=full_size)
    if (first := _first(scenes)) is not None:
        for claim, each in product(claims, chosen):
            printer.note(_idle_note(claim, each, alpha=alpha / max(1, looks), N=first.target.size))
        for claim in claims if sets else ():
            printer.note(_idle_sets_note(claim, alpha=alpha, n0=n0, N=first.target.size))
        printer.note(size_note(segmenter, first.x.shape))
    printer.note(sigma_note(segmenter, *(claim.sigma for claim in claims)))
    before = _finished(out)
    with resumable(lambda: _kept(out)):
        done = evaluate(
            segmenter, scenes, out=out, settings=claims, noise=opt.noise_on(noise, scenes.domain.axis),
            corrections=corrections, k=k, b=b, n0=n0, alpha=alpha, seed=seed, batch_size=batch_size, device=device,
            name=model, precision=precision, attack=attacks, metrics=metrics, sets=sets, looks=looks, until=until,
            cap=cap, save_votes=votes, save_pictures=pictures, colours=colours, skip_broken=skip_broken,
            engine=drawing.of(model, trust_code=trust_code, compile=compile), progress=printer.progress,
        )  # fmt: skip
    print_report(out, printer, already=before == len(done.records))


def _first(scenes: DataSet) -> Scene | None:
    """The first scene that can be read, for notes; evaluate says which cannot."""
    for index in range(len(scenes)):
        with suppress(InputError):
            return scenes[index]
    return None


def _kept(out: Path) -> str:
    """What a stopped run left to go on from, in words."""
    from segcertify.cli.certificates import draws_kept
    from segcertify.numerals import counted
    from segcertify.records import RunFolder

    scenes = len({record.id for record in RunFolder(out).records()}) if (out / "records.jsonl").is_file() else 0
    begun = [draws_kept(each) for each in sorted(out.glob("resume-*.safetensors"))]
    return " and ".join([f"the records of {counted(scenes, 'scene')} are kept in {out}", *begun])


def _finished(out: Path) -> int:
    """How many records a run had before."""
    from segcertify.records import RunFolder

    folder = RunFolder(out)
    return len(folder.records()) if folder.claimed and (out / "records.jsonl").is_file() else 0


def _attack_settings(chosen: dict[str, Any], *, attack: bool) -> AttackSettings | None:
    """The attack that the options describe, if there is one; those left out keep their defaults."""
    from segcertify.evaluation import AttackSettings

    if not attack and chosen:
        name = {"radii": "radius", "smoothed": "smoothed-draws"}.get(first := next(iter(chosen)), first)
        raise InputError(f"--{name} is for an attack, but there is none: add --attack")
    return AttackSettings(**chosen | {"radii": tuple(chosen.get("radii", ()))}) if attack else None


def _metric_settings(names: list[str] | None, radii: list[float] | None, share: float | None) -> MetricSettings | None:
    """The metrics that the options name, if there are any."""
    from segcertify.evaluation import MetricSettings

    if not names:
        if radii or share is not None:
            raise InputError("--target-radius and --share are for a metric: add --metric, such as --metric agreement")
        return None
    return MetricSettings(tuple(names), 0.5 if share is None else share, tuple(radii or ()))


def _idle_note(claim: Setting, correction: Procedure, *, alpha: float, N: int) -> str | None:
    """A note before the work, if a claim has too few draws to certify anything."""
    from segcertify.stats.planning import require_certifiable

    try:
        require_certifiable(N, claim.tau, alpha, correction, claim.n)
    except InputError as error:
        return f"all will abstain: {error}"
    return None


def _idle_sets_note(claim: Setting, *, alpha: float, n0: int, N: int) -> str | None:
    """A note before the work, if a claim has too few draws to exclude a label from any set."""
    from segcertify.numerals import exact
    from segcertify.sets.planning import plan_sets

    planned = plan_sets(N, claim.tau, alpha=alpha, n=claim.n, n0=n0)
    if planned.excludes_up_to is not None:
        return None
    return f"no label will be excluded from a set at n={claim.n}, tau={exact(claim.tau)}: use n >= {planned.n_min}"
