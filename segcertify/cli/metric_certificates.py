"""Metric certificates in commands: `certify --metric` makes them, `show` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segcertify.cli import options as opt
from segcertify.cli.certificates import draws_kept
from segcertify.cli.printing import Printer, radius_facts, resumable, seed_fact
from segcertify.metrics.certificate import MetricCertificate
from segcertify.metrics.names import parse
from segcertify.names import file_name
from segcertify.noise.names import described
from segcertify.numerals import NOTHING, exact, exact_percent, lower_value, union_bound, upper_value

if TYPE_CHECKING:
    from segcertify.data import Input
    from segcertify.sampling.smooth import Smooth

DRAWS = "metric-draws.safetensors"
"""The values of all draws, from which the same command gives the same certificates again."""


def print_metrics(
    printer: Printer, smooth: Smooth, found: Input, names: Sequence[str], *, out: Path, input_id: str, n: int,
    alpha: float, tau: float, radius: float | None, share: float | None, norm: str | None,
) -> None:  # fmt: skip
    """Certify metrics of one input from the same draws, write them to a folder, and print them."""
    import torch

    from segcertify.models import card_of
    from segcertify.sampling.inputs import working_device
    from segcertify.sampling.metrics import certify_metrics
    from segcertify.sampling.segmenter import base_labels
    from segcertify.storage.lock import locked

    card = card_of(smooth.model)
    wanted = [parse(name, () if card is None else card.classes) for name in dict.fromkeys(names)]
    x = torch.from_numpy(found.x)
    shown = base_labels(smooth.model, x.to(working_device(smooth.device, smooth.model)))
    metrics = [name.made(target=found.target, shown=shown) for name in wanted]
    within = smooth.noise.radius(tau, norm, tuple(x.shape)) if radius is None else radius
    with locked(out), resumable(lambda: draws_kept(out / DRAWS)):
        made = certify_metrics(
            smooth, x, metrics, radius=within, share=0.5 if share is None else share, n=n, alpha=alpha, norm=norm,
            input_id=input_id, checkpoint=out / DRAWS, preprocessing=found.preprocessing, progress=printer.progress,
        )  # fmt: skip
        certificates = [replace(each, command=opt.command_line()) for each in made]
        files = [_file(out, name.text, each) for name, each in zip(wanted, certificates, strict=True)]
        for certificate, file in zip(certificates, files, strict=True):
            certificate.save(file)
    for certificate in certificates:
        printer.claim(certificate)
        printer.facts(metric_facts(certificate))
    if len(certificates) > 1:
        total = union_bound(alpha, len(certificates))
        printer.say(f"Each of these {len(certificates)} claims holds at its own alpha, all together at {total}.")
    printer.files([*files, out / DRAWS])
    printer.result(metrics=[metric_values(each) for each in certificates], files=[*files, out / DRAWS])


def _file(out: Path, metric: str, certificate: MetricCertificate) -> Path:
    """Where a certificate goes: the first claim's file has the metric's name, those of others say theirs too."""
    first = out / f"metric-{file_name(metric.replace(':', '-').replace(' ', '_'))}.safetensors"
    names = ("radius", "share", "alpha", "norm", "seed")
    if not first.exists() or _values(MetricCertificate.load(first), names) == _values(certificate, names):
        return first
    claim = f"R{exact(certificate.radius)}-share{exact(certificate.share)}-alpha{exact(certificate.alpha)}"
    return first.with_name(f"{first.stem}-{claim}-{certificate.norm}.safetensors")


def _values(certificate: MetricCertificate, names: Sequence[str]) -> list[Any]:
    return [getattr(certificate, name) for name in names]


def metric_facts(certificate: MetricCertificate) -> dict[str, str]:
    """What a metric certificate proves, and from which draws, for `Printer.facts`."""
    bound = NOTHING if certificate.bound is None else f"at least {lower_value(certificate.bound)}"
    upper = "" if certificate.upper is None else f", at most {upper_value(certificate.upper)}"
    values = certificate.values
    return {
        certificate.metric: f"{bound}{upper}",
        "in the n runs themselves": f"from {lower_value(float(values.min()))} to {upper_value(float(values.max()))}",
        "share of noisy runs": exact_percent(certificate.share),
        **radius_facts(certificate),
        "noise": described(certificate.noise),
        "n, alpha": f"{certificate.n:,}, {exact(certificate.alpha)}",
        "seed": seed_fact(certificate),
    }


def metric_values(certificate: MetricCertificate) -> dict[str, Any]:
    """A metric certificate without the values of its draws, for JSON."""
    names = (
        "metric", "sentence", "claim", "bound", "upper", "two_sided", "share", "radius", "input_radius", "norm",
        "alpha", "n",
        "seed", "seed_given", "input_id", "input_shape", "input_digest", "model", "preprocessing", "units", "version",
        "date", "command",
    )  # fmt: skip
    return {name: getattr(certificate, name) for name in names} | {"noise": described(certificate.noise)}
