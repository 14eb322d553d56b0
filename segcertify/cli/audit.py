"""The command that audits: a certificate, an evaluation, or the sampler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.certificate import Certificate
from segcertify.cli.options import BatchSize, Device, Limit, Precision, Seed, ShortSide, chosen_device, ready_model
from segcertify.cli.printing import console, escape, print_table
from segcertify.cli.sets import parse_setting
from segcertify.errors import InputError
from segcertify.noise import EXAMPLES, Noise

if TYPE_CHECKING:
    from segcertify.audit import Audit, Finding, SamplerFinding
    from segcertify.audit.certificates import Options
    from segcertify.report.table import Table
    from segcertify.sampling.segmenter import Segmenter


def audit(
    claim: Annotated[
        Path | None, typer.Argument(help="A certificate's file, or the folder of an evaluation that kept its votes.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The spec of the model that was certified.")] = None,
    input: Annotated[Path | None, typer.Option(help="The input that was certified.")] = None,
    short_side: ShortSide = None,
    data: Annotated[str | None, typer.Option(help="The spec of the data set that was evaluated.")] = None,
    setting: Annotated[
        str | None, typer.Option(help="Which sigma,n,tau of an evaluation; its first by default.")
    ] = None,
    correction: Annotated[
        str | None, typer.Option(help="Which correction of an evaluation; its first by default.")
    ] = None,
    limit: Limit = None,
    sampler: Annotated[
        bool,
        typer.Option(
            "--sampler",
            help="Audit the sampler instead, on the device: of the certificate's noise, else all five. With --model "
            "and --input also whether the model gives the same labels twice.",
        ),
    ] = False,
    n: Annotated[int, typer.Option("--n", help="Fresh draws at every perturbed input.")] = 1000,
    steps: Annotated[int, typer.Option(help="Steps of the attacks; 0 for models without gradients.")] = 20,
    draws: Annotated[int, typer.Option(help="Noisy copies a step, in attacks on the smoothed model.")] = 8,
    restarts: Annotated[int, typer.Option(help="Random starts of every attack.")] = 1,
    level: Annotated[float, typer.Option(help="The chance that the audit refutes a true certificate.")] = 1e-6,
    seed: Seed = 0,
    batch_size: BatchSize = None,
    device: Device = None,
    precision: Precision = "fp32",
) -> None:
    """Try to refute certificates: fresh draws at the strongest perturbations found. Exit code 1 if any is refuted."""
    import torch

    from segcertify.audit import audit_certificate, audit_run
    from segcertify.cli.inputs import read
    from segcertify.data import load

    run = claim if claim is not None and claim.is_dir() else None
    certificate = Certificate.load(claim) if claim is not None and run is None else None
    device = chosen_device(device)
    if sampler:
        noises = EXAMPLES if certificate is None else (certificate.noise,)
        asked = None if model is None else ready_model(model, device, precision=precision)
        _audit_sampler(noises, asked, input, level=level, seed=seed, device=device)
        return
    options: Options = {
        "n": n,
        "draws": draws,
        "steps": steps,
        "restarts": restarts,
        "level": level,
        "batch_size": batch_size,
        "device": device,
    }
    found: Finding | Audit
    if certificate is not None and model is not None and input is not None:
        segmenter = ready_model(model, device, precision=precision)
        found = audit_certificate(
            segmenter,
            torch.from_numpy(read(input, segmenter, short_side=short_side).x),
            certificate,
            seed=seed,
            **options,
        )
        console.print(escape(certificate.claim))
        print_table(_perturbed(found))
    elif run is not None and model is not None and data is not None:
        scenes = load(data) if short_side is None else load(data).resized(short_side)
        found = audit_run(
            ready_model(model, device),  # in the precision of the run
            scenes if limit is None else scenes.limit(limit),
            run,
            setting=None if setting is None else parse_setting(setting),
            correction=correction,
            seed=seed,
            **options,
        )
    else:
        raise InputError(
            "give a certificate's file with the --model and the --input it is about, an evaluation's folder with "
            "--model and --data, or --sampler"
        )
    console.print(escape(found.verdict))
    if found.refuted:
        raise typer.Exit(1)


def _audit_sampler(
    noises: Sequence[Noise], model: Segmenter | None, input: Path | None, *, level: float, seed: int, device: str
) -> None:
    import torch

    from segcertify.audit import audit_sampler
    from segcertify.cli.inputs import read

    if model is not None and input is None:
        raise InputError("to ask a model twice, give an input for it: --input FILE")
    x = None if input is None else torch.from_numpy(read(input, model).x)
    if x is not None and len(noises) > 1:
        noises = [noise for noise in noises if _fits(noise, x.shape)]  # images do not turn
    findings = [audit_sampler(None, noise, x=x, model=model, level=level, seed=seed, device=device) for noise in noises]
    for finding in findings:
        print_table(_checks(finding))
    if any(finding.failed for finding in findings):
        raise typer.Exit(1)


def _fits(noise: Noise, shape: tuple[int, ...]) -> bool:
    """Whether a noise can go on inputs of this shape."""
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
        (each.name, f"{int(each.violated.sum()):,}", f"{each.agree[claimed].min() / finding.n:.1%}")
        for each in finding.perturbed
    )
    heads = ("perturbed input", "violations", "least agreement")
    return Table(f"{finding.n:,} fresh draws at each perturbed input", heads, rows)
