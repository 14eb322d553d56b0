"""`segcertify audit`: attempts to refute a certificate, an evaluation's certificates, or the sampler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segcertify.certificate import Certificate
from segcertify.cli import engines
from segcertify.cli import options as opt
from segcertify.cli.metric_audits import audited_metric, is_metric, metric_perturbed
from segcertify.cli.printing import Printer
from segcertify.cli.set_audits import audit_of_sets, is_sets
from segcertify.errors import InputError
from segcertify.metrics.certificate import MetricCertificate
from segcertify.noise import EXAMPLES, Noise
from segcertify.numerals import percent
from segcertify.storage.reading import is_folder
from segcertify.votes import seed_text

if TYPE_CHECKING:
    from segcertify.arrays import Array
    from segcertify.audit import Audit, Finding, MetricFinding, SamplerFinding
    from segcertify.audit.certificates import Effort
    from segcertify.data import Input
    from segcertify.report.table import Table
    from segcertify.sampling.segmenter import Segmenter


def audit(
    claim: Annotated[
        Path | None,
        typer.Argument(
            help="A certificate's file, of labels or of a metric, or the folder of an evaluation that kept its votes."
        ),
    ] = None,
    model: opt.Model[str | None] = None,
    input: opt.InputFile = None,
    data: opt.Data[str | None] = None,
    setting: opt.Setting[str | None] = None,
    sampler: Annotated[
        bool,
        typer.Option(
            "--sampler",
            help="Audit the sampler instead, on the device: of the certificate's noise, else of every noise. With "
            "--model and --input also whether the model answers each draw by itself.",
        ),
    ] = False,
    n: opt.Draws[int] = 1000,
    level: Annotated[float, typer.Option(help="The chance that the audit refutes a true certificate.")] = 1e-6,
    seed: opt.Seed[int | None] = None,
    correction: opt.Correction[str | None] = None,
    sets: opt.Sets = False,
    metric: opt.Metric[str | None] = None,
    target_radius: opt.TargetRadius[float | None] = None,
    label: opt.Label = None,
    ignore: opt.Ignore = 255,
    short_side: opt.ShortSide = None,
    full_size: opt.FullSize = False,
    every: opt.Every[int] = 1,
    limit: opt.Limit = None,
    steps: opt.Steps[int] = 20,
    restarts: opt.Restarts[int] = 1,
    copies: opt.Copies = 8,
    batch_size: opt.BatchSize = None,
    device: opt.Device = None,
    engine: engines.Kind = "local",
    workers: engines.Workers = None,
    address: engines.Address = None,
    patience: engines.Patience = 600.0,
    precision: opt.Precision = "fp32",
    trust_code: opt.TrustCode = False,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Try to refute certificates with fresh draws at the strongest perturbations found. Exit code 1 if one is refuted.

    --setting and --correction choose one of an evaluation's claims, by default its first. --steps 0 leaves the attacks
    out, for models without gradients. --sets audits an evaluation's sets instead of its labels, --metric
    the bounds on one of its metrics, by default within the first radius that it states.
    """
    from segcertify.audit import audit_run
    from segcertify.cli.inputs import read
    from segcertify.records import RunFolder
    from segcertify.sampling.seeds import seed_of_run

    printer, chosen = Printer(json, quiet), engines.chosen_engine(engine, workers, address, patience)
    if claim is not None and not sampler and is_sets(claim):
        audit_of_sets(
            printer, claim, model, input, short_side=short_side, full_size=full_size, device=device,
            engine=chosen, seed=seed, precision=precision, trust_code=trust_code, batch_size=batch_size, n=n,
            level=level, copies=copies, steps=steps, restarts=restarts,
        )  # fmt: skip
        return
    run = claim if claim is not None and is_folder(claim) else None
    certificate = _loaded(claim) if claim is not None and run is None else None
    seed = seed_of_run(seed).value
    ready = partial(engines.ready, chosen, device=device, trust_code=trust_code)
    if sampler:
        if not chosen.in_process:
            raise InputError("--sampler audits the draws of this process: leave --engine and --workers out")
        noises = None if certificate is None else [certificate.noise]
        segmenter = None if model is None else ready(model, precision=precision).model
        if segmenter is not None and input is None:
            raise InputError("to compare a model's labels, give an input for it: --input FILE")
        x = None if input is None else read(input, segmenter, short_side=short_side, full_size=full_size).x
        _audit_sampler(noises, segmenter, x, printer=printer, level=level, seed=seed, device=opt.chosen_device(device))
        return
    options: Effort = {
        "n": n, "draws": copies, "steps": steps, "restarts": restarts, "level": level, "batch_size": batch_size,
        "device": device, "progress": printer.progress,
    }  # fmt: skip
    found: Audit | Finding | MetricFinding
    values: dict[str, Any] = {}
    if certificate is not None and model is not None and input is not None:
        made = ready(model, precision=precision)
        about = read(input, made.model, label=label, ignore=ignore, short_side=short_side, full_size=full_size)
        options["device"] = made.device
        with made.smoothing as options["smoothing"]:
            found, table = _audited(made.model, about, certificate, seed=seed, options=options)
        printer.claim(certificate)
        printer.table(table)
        values = {"claim": certificate.claim, "tests": found.tests, "perturbed": table}
    elif run is not None and model is not None and data is not None:
        made = ready(model, precision=RunFolder(run).configuration()["precision"])
        scenes = opt.chosen_scenes(data, every=every, limit=limit)
        scenes = opt.resized_scenes(scenes, made.network, short_side=short_side, full_size=full_size)
        options["device"] = made.device
        with made.smoothing as options["smoothing"]:
            found = audit_run(
                made.network, scenes, run, setting=None if setting is None else opt.claim_of(setting),
                correction=correction, sets=sets, metric=metric, radius=target_radius, seed=seed, **options,
            )  # fmt: skip
        values = {"inputs": len(found.findings), "p_value": found.p_value}
    else:
        raise InputError(
            "give a certificate's file with the --model and the --input it is about, an evaluation's folder with "
            "--model and --data, or --sampler"
        )
    printer.say(found.verdict)
    printer.detail(f"seed {seed_text(seed)}")
    printer.result(verdict=found.verdict, refuted=found.refuted, seed=seed, **values)
    if found.refuted:
        raise typer.Exit(1)


def _loaded(file: Path) -> Certificate | MetricCertificate:
    return MetricCertificate.load(file) if is_metric(file) else Certificate.load(file)


def _audited(
    model: Segmenter, about: Input, certificate: Certificate | MetricCertificate, *, seed: int, options: Effort
) -> tuple[Finding | MetricFinding, Table]:
    """What an audit of one certificate found, and a table of the perturbed inputs."""
    import torch

    from segcertify.audit import audit_certificate

    if isinstance(certificate, MetricCertificate):
        measured = audited_metric(model, about, certificate, seed=seed, options=options)
        return measured, metric_perturbed(measured)
    found = audit_certificate(
        model, torch.from_numpy(about.x), certificate, preprocessing=about.preprocessing, seed=seed, **options
    )
    return found, _perturbed(found)


def _audit_sampler(
    noises: Sequence[Noise] | None, model: Segmenter | None, x: Array | None, *, printer: Printer, level: float,
    seed: int, device: str,
) -> None:  # fmt: skip
    """Audit the draws of some noises, by default of all that fit the input."""
    import torch

    from segcertify.audit import audit_sampler

    if noises is None:
        noises = [noise for noise in EXAMPLES if x is None or _fits(noise, x.shape)]
    tensor = None if x is None else torch.from_numpy(x)
    findings = [
        audit_sampler(None, noise, x=tensor, model=model, level=level, seed=seed, device=device) for noise in noises
    ]
    tables = {str(finding.noise): _checks(finding) for finding in findings}
    for table in tables.values():
        printer.table(table)
    failed = any(finding.failed for finding in findings)
    printer.detail(f"seed {seed_text(seed)}")
    printer.result(failed=failed, noises=tables, seed=seed)
    if failed:
        raise typer.Exit(1)


def _fits(noise: Noise, shape: tuple[int, ...]) -> bool:
    """Whether a noise can go on inputs of this shape: images are not rotated."""
    try:
        noise.check(shape)
    except InputError:
        return False
    return True


def _checks(finding: SamplerFinding) -> Table:
    """A sampler's checks."""
    from segcertify.report.table import Table

    rows = tuple(
        (check.name, "passed" if check.passed else "FAILED", f"{check.p_value:.2g}", check.detail)
        for check in finding.checks
    )
    return Table(f"Draws of {finding.noise}", ("check", "", "p-value", "found"), rows, (finding.verdict,))


def _perturbed(finding: Finding) -> Table:
    """The perturbed inputs, and what fresh draws gave there."""
    from segcertify.report.table import Table

    claimed = ~finding.certificate.abstained
    rows = tuple(
        (each.name, f"{int(each.violated.sum()):,}", percent(each.agree[claimed].min() / finding.n))
        for each in finding.perturbed
    )
    heads = ("perturbed input", "violations", "least agreement")
    return Table(f"{finding.n:,} fresh draws at each perturbed input", heads, rows)
