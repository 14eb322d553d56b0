"""Metric certificates in `segcertify audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from segcertify.errors import InputError
from segcertify.metrics.certificate import KIND, MetricCertificate
from segcertify.metrics.names import parse
from segcertify.numerals import percent
from segcertify.storage import archive

if TYPE_CHECKING:
    from segcertify.audit import MetricFinding
    from segcertify.audit.certificates import Effort
    from segcertify.data import Input
    from segcertify.report.table import Table
    from segcertify.sampling.segmenter import Segmenter


def is_metric(file: Path) -> bool:
    """Whether a file says that it holds a metric certificate."""
    return archive.read_content(file).format == f"segcertify.{KIND}"


def audited_metric(
    model: Segmenter, found: Input, certificate: MetricCertificate, *, seed: int, options: Effort
) -> MetricFinding:
    """Audit a metric certificate of one input: its metric is made again, by its name, from the input's ground truth."""
    import torch

    from segcertify.audit import audit_metric
    from segcertify.models import card_of
    from segcertify.sampling.inputs import working_device
    from segcertify.sampling.segmenter import base_labels

    card, x = card_of(model), torch.from_numpy(found.x)
    try:
        name = parse(certificate.metric.replace("mIoU", "miou"), () if card is None else card.classes)
    except InputError as error:
        raise InputError(
            f"the command cannot make the metric {certificate.metric!r} again ({error}): audit it in Python, with "
            "segcertify.audit.audit_metric"
        ) from None
    shown = base_labels(model, x.to(working_device(options["device"], model)))
    return audit_metric(
        model, x, certificate, name.made(target=found.target, shown=shown), target=found.target,
        preprocessing=found.preprocessing, seed=seed, **options,
    )  # fmt: skip


def metric_perturbed(finding: MetricFinding) -> Table:
    """The perturbed inputs, and how many fresh noisy runs kept the bound there."""
    from segcertify.report.table import Table

    rows = tuple(
        (each.name, "yes" if each.violated else "no", percent(each.kept / finding.n)) for each in finding.perturbed
    )
    heads = ("perturbed input", "violated", "runs that kept the bound")
    return Table(f"{finding.n:,} fresh noisy runs at each perturbed input", heads, rows)
