"""A measurement in plain values, as `--json` prints it and `results/speed` keeps it, and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import torch

from segcertify.bench.cost import PLANNED, STAGES, Cost
from segcertify.bench.machine import machine, versions
from segcertify.bench.released import Released
from segcertify.numerals import NOTHING, percent
from segcertify.report.table import Table

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Peak:
    """The TFLOP/s of large matrix products in the network's type, measured in the same run."""

    type: str
    tflops: float


def values(
    cost: Cost, peak: Peak, released: Released | None, *, device: torch.device, settings: Values
) -> dict[str, Any]:  # fmt: skip
    """All that was measured, with the machine, the versions, the date and the settings."""
    counted = cost.flops_per_draw > 0
    return {
        "machine": machine(device),
        "versions": versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": {**settings, "n": cost.n, "n0": cost.n0, "batch_size": cost.batch_size},
        "components": cost.components,
        "certified": cost.certified,
        "total_seconds": cost.total,
        "totals_seconds": [*cost.totals],
        "first_seconds": cost.first,
        "images_per_second": 1 / cost.total,
        "stages_seconds": cost.stages,
        "instrumented_seconds": cost.instrumented,
        "network_seconds": cost.network,
        "networks_seconds": [*cost.networks],
        "ratio_to_network": cost.ratio,
        "tflop": cost.flops_per_draw * (cost.n0 + cost.n) / 1e12 if counted else None,
        "tflops": cost.tflops if counted else None,
        "network_tflops": cost.tflops_of_network if counted else None,
        "peak_tflops": peak.tflops,
        "peak_type": peak.type,
        "cuda_gib": cost.cuda_gib,
        "resident_gib": cost.resident_gib,
        "estimated_seconds": {str(n): cost.seconds_at(n) for n in PLANNED},
        "baseline": None if released is None else _baseline(cost, released),
    }


def _baseline(cost: Cost, released: Released) -> dict[str, Any]:
    """The released pipeline in plain values, and how many times longer than ours it takes."""
    return {
        "stages_seconds": released.stages,
        "total_seconds": released.total,
        "ratio": released.total / cost.total,
        "vectorised_tests_seconds": released.vectorised,
        "vectorised_total_seconds": released.total_vectorised,
        "vectorised_ratio": released.total_vectorised / cost.total,
        "extrapolated": released.extrapolated,
        "draws_made": released.draws_made,
        "pixels_tested": released.pixels_tested,
        "processes": released.processes,
        "batch_size": released.batch_size,
        "resized_by": released.resized_by,
        "holm_by": released.holm_by,
        "stored_gib": released.stored_gib,
        "certified": None if released.labels is None else int((released.labels >= 0).sum()),
    }


def facts(found: Values) -> dict[str, str]:
    """What a measurement says in a few lines."""
    network, total = found["network_seconds"], found["total_seconds"]
    lines = {
        "one certificate": f"{duration(total)} (median of {len(found['totals_seconds'])}), "
        f"{found['images_per_second']:.3g} a second",
        "the first one": f"{duration(found['first_seconds'])} (probes the model, warms up)",
        "bare network, the same passes": f"{duration(network)}",
        "ratio to the bare network": f"{found['ratio_to_network']:.2f}",
    }
    if found["tflop"] is not None:
        peak = f"{found['peak_tflops']:.3g} in {found['peak_type']} matrix products here"
        lines["TFLOP/s"] = f"{found['tflops']:.3g}, the bare network {found['network_tflops']:.3g}, peak {peak}"
    memory = f"{found['resident_gib']:.1f} GiB of the process"
    lines["most memory"] = memory if found["cuda_gib"] is None else f"{found['cuda_gib']:.1f} GiB on the GPU, {memory}"
    estimates = (f"{duration(seconds)} for n = {int(n):,}" for n, seconds in found["estimated_seconds"].items())
    lines["estimate"] = ", ".join(estimates)
    if (baseline := found["baseline"]) is not None:
        told = ", extrapolated" if baseline["extrapolated"] else ""
        lines["released pipeline"] = f"{duration(baseline['total_seconds'])}{told}: {baseline['ratio']:.3g} times ours"
        lines["the same with vectorised tests"] = (
            f"{duration(baseline['vectorised_total_seconds'])}: {baseline['vectorised_ratio']:.3g} times ours"
        )
    return lines


def stage_table(found: Values) -> Table:
    """The stages of a certificate, with their shares."""
    whole = found["instrumented_seconds"]
    rows = tuple(
        (name, duration(seconds), percent(max(0.0, seconds / whole)), STAGES.get(name, NOTHING))
        for name, seconds in found["stages_seconds"].items()
        if seconds
    )
    alone = duration(found["total_seconds"])
    note = f"From one more run, with a stopwatch: it took {duration(whole)}, and without the stopwatch {alone}."
    return Table("Stages", ("stage", "time", "share", "what it is"), rows, (note,))


def baseline_table(found: Values) -> Table:
    """The stages of the released pipeline."""
    baseline = found["baseline"]
    total = baseline["total_seconds"]
    rows = tuple(
        (name, duration(seconds), percent(seconds / total)) for name, seconds in baseline["stages_seconds"].items()
    )
    draws, pixels = found["settings"]["n"] + found["settings"]["n0"], found["components"]
    made, tests = baseline["draws_made"], baseline["pixels_tested"]
    sampled = f"{made} of {draws} draws were made, and their time extrapolated to all. " if made < draws else ""
    tested = (
        f"{sampled}The tests were timed on {tests:,} pixels and extrapolated to all {pixels:,}."
        if tests < pixels
        else f"{sampled}All {pixels:,} pixels were tested, one by one."
    )
    notes = (
        f"{tested} {baseline['processes']} processes. Counting and tests with vectorised SciPy, and Holm: "
        f"{duration(baseline['vectorised_tests_seconds'])}.",
        f"Noise for each draw, in batches of {baseline['batch_size']}; resized by {baseline['resized_by']}; Holm by "
        f"{baseline['holm_by']}; the labels of all draws took {baseline['stored_gib']:.2g} GiB.",
    )
    return Table("The released pipeline, re-created", ("stage", "time", "share"), rows, notes)


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(0.0123), duration(0.612), duration(49.2), duration(1500), duration(36_000)
    ('12.3 ms', '612 ms', '49.2 s', '25 minutes', '10 hours')
    """
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 600:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} minutes" if seconds < 36_000 else f"{seconds / 3600:.3g} hours"
