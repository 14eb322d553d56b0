"""The toy experiments on disk: each as a figure (PNG, PDF) and a table (CSV), all together as JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_STYLES: dict[str, tuple[str, str]] = {  # colours of Okabe and Ito, told apart with any colour vision
    "SegCertifyHolm": ("#0072B2", "-"),
    "SegCertifyBon": ("#56B4E9", "--"),
    "IndivClass": ("#E69F00", "-."),
    "JointClass": ("#D55E00", ":"),
    "b = 0": ("#000000", "-"),
    "b = 1": ("#D55E00", "--"),
    "b = 0.1 % of N": ("#0072B2", "-."),
    "b = 1 % of N": ("#009E73", ":"),
}
_X_LABELS = {"gamma": r"error rate $\gamma$", "N": "number of components $N$"}
_Y_LABEL = "certified rate"


@dataclass(frozen=True)
class Panel:
    """Curves that are drawn in the same axes; ``name`` marks their columns in the table."""

    name: str
    title: str
    curves: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Experiment:
    """Certified rates against x (gamma or N): one figure, one panel per way to look at it."""

    name: str
    title: str
    x_name: str
    x: Sequence[float]
    panels: tuple[Panel, ...]

    def curves(self, panel: str) -> Mapping[str, Sequence[float]]:
        """The curves of one panel."""
        return next(one.curves for one in self.panels if one.name == panel)

    def columns(self) -> dict[str, Sequence[float]]:
        """x and every curve, by the names of the table's columns."""
        curves = {f"{p.name}: {name}": curve for p in self.panels for name, curve in p.curves.items()}
        return {self.x_name: self.x, **curves}


def write(out: Path, experiments: Sequence[Experiment], *, record: Mapping[str, Any]) -> tuple[Path, ...]:
    """Write every figure and table, and ``toy.json`` with the record and all numbers."""
    files: list[Path] = []
    for experiment in experiments:
        paths = {suffix: out / f"{experiment.name}.{suffix}" for suffix in ("png", "pdf", "csv")}
        figure = draw(experiment)
        figure.savefig(paths["png"], dpi=150)
        figure.savefig(paths["pdf"], metadata={"CreationDate": None})
        _write_table(paths["csv"], experiment.columns())
        files += paths.values()
    summary = out / "toy.json"
    tables = {experiment.name: experiment.columns() for experiment in experiments}
    summary.write_text(json.dumps({**record, "tables": tables}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page = out / "toy.md"
    page.write_text(_page(experiments, record), encoding="utf-8")
    return (*files, summary, page)


def _page(experiments: Sequence[Experiment], record: Mapping[str, Any]) -> str:
    """All figures with their headline numbers and the notes, as Markdown."""
    made = f"segcertify {record['version']}, seed {record['seed']}, {record['seconds']:g} s"
    lines = ["# Toy experiments", "", f"Written by `segcertify reproduce toy` ({made}). Do not edit.", ""]
    for experiment in experiments:
        lines += [f"## {experiment.name}", "", f"![{experiment.name}]({experiment.name}.png)", ""]
        lines += ["| at | certified rate |", "| --- | --- |"]
        lines += [f"| {label} | {value:.4f} |" for label, value in record["headline"][experiment.name].items()]
        lines.append("")
    return "\n".join([*lines, "## Notes", "", *(f"- {note}" for note in record["notes"])]) + "\n"


def draw(experiment: Experiment) -> Figure:
    """The figure of one experiment: its panels side by side, on the same scale."""
    figure = Figure(figsize=(5.2 * len(experiment.panels), 4.2), layout="constrained")
    axes = figure.subplots(1, len(experiment.panels), sharey=True, squeeze=False)[0]
    for ax, panel in zip(axes, experiment.panels, strict=True):
        _draw_panel(ax, experiment, panel)
    axes[0].set_ylabel(_Y_LABEL)
    axes[0].set_ylim(*_limits(experiment))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(experiment.title, fontsize=12)
    return figure


def _draw_panel(ax: Axes, experiment: Experiment, panel: Panel) -> None:
    names = [name for name in _STYLES if name in panel.curves]  # the solid line first: where curves meet, all show
    for name in names:
        colour, line = _STYLES[name]
        ax.plot(experiment.x, panel.curves[name], color=colour, linestyle=line, linewidth=2.0, label=name)
    if experiment.x_name == "N":
        ax.set_xscale("log")
    ax.set_xlim(experiment.x[0], experiment.x[-1])
    ax.set_xlabel(_X_LABELS[experiment.x_name])
    ax.set_title(panel.title, fontsize=10)
    ax.grid(color="#dddddd", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelleft=True)


def _limits(experiment: Experiment) -> tuple[float, float]:
    """All of [0, 1] over gamma; from a little below the lowest curve over N, so that small gaps show."""
    if experiment.x_name == "gamma":
        return -0.04, 1.04
    lowest = min(min(curve) for panel in experiment.panels for curve in panel.curves.values())
    margin = 0.05 * max(1 - lowest, 0.01)
    return lowest - margin, 1 + margin


def _write_table(path: Path, columns: Mapping[str, Sequence[float]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
