"""The toy experiments on disk: each as a figure (PNG, PDF) and a table (CSV), all together as JSON."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from segcertify.numerals import measured

_STYLES: dict[str, tuple[str, Any]] = {  # colours of Okabe and Ito, distinct with any colour vision
    "SegCertifyHolm": ("#0072B2", "-"),
    "SegCertifyBon": ("#56B4E9", "--"),
    "IndivClass": ("#E69F00", "-."),
    "JointClass": ("#D55E00", ":"),
    "b = 0": ("#000000", "-"),
    "b = 1": ("#D55E00", "--"),
    "b = 2": ("#E69F00", (0, (5, 1, 1, 1))),
    "b = 4": ("#CC79A7", (0, (3, 1))),
    "b = N/1000": ("#0072B2", "-."),
    "b = N/100": ("#009E73", ":"),
}
_X_LABELS = {"gamma": r"error rate $\gamma$", "N": "number of components $N$"}


class Panel(NamedTuple):
    """Curves that are drawn in the same axes; ``name`` marks their columns in the table."""

    name: str
    title: str
    curves: Mapping[str, Sequence[float]]


class Experiment(NamedTuple):
    """Certified rates against x (gamma or N): one figure, a panel for each version of the curves."""

    name: str
    title: str
    x_name: str
    x: Sequence[float]
    panels: tuple[Panel, ...]

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
        with paths["csv"].open("w", newline="", encoding="utf-8") as file:
            table, columns = csv.writer(file), experiment.columns()
            table.writerow(columns)
            table.writerows(zip(*columns.values(), strict=True))
        files += paths.values()
    tables = {experiment.name: experiment.columns() for experiment in experiments}
    summary = json.dumps({**record, "tables": tables}, indent=1, ensure_ascii=False) + "\n"
    for name, text in {"toy.json": summary, "toy.md": _page(experiments, record)}.items():
        (out / name).write_text(text, encoding="utf-8")
        files.append(out / name)
    return tuple(files)


def _page(experiments: Sequence[Experiment], record: Mapping[str, Any]) -> str:
    """All figures with their headline numbers and the notes, as Markdown."""
    made = f"segcertify {record['version']}, seed {record['seed']}, {record['seconds']:g} s"
    lines = ["# Toy experiments", "", f"Written by `segcertify reproduce toy` ({made}). Do not edit.", ""]
    for experiment in experiments:
        lines += [f"## {experiment.name}", "", f"![{experiment.name}]({experiment.name}.png)", ""]
        lines += ["| at | certified rate |", "| --- | --- |"]
        lines += [f"| {label} | {measured(value)} |" for label, value in record["headline"][experiment.name].items()]
        lines.append("")
    return "\n".join([*lines, "## Notes", "", *(f"- {note}" for note in record["notes"])]) + "\n"


def draw(experiment: Experiment) -> Figure:
    """The figure of one experiment: its panels side by side, on the same scale."""
    figure = Figure(figsize=(5.2 * len(experiment.panels), 4.2), layout="constrained")
    axes = figure.subplots(1, len(experiment.panels), sharey=True, squeeze=False)[0]
    for ax, panel in zip(axes, experiment.panels, strict=True):
        for name in (name for name in _STYLES if name in panel.curves):  # solid first: where curves meet, all show
            colour, line = _STYLES[name]
            ax.plot(experiment.x, panel.curves[name], color=colour, linestyle=line, linewidth=2.0, label=name)
        if experiment.x_name == "N":
            ax.set_xscale("log")
        ax.set(xlim=(experiment.x[0], experiment.x[-1]), xlabel=_X_LABELS[experiment.x_name])
        ax.set_title(panel.title, fontsize=10)
        ax.grid(color="#dddddd", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelleft=True)
    axes[0].set_ylabel("certified rate")
    axes[0].set_ylim(*_limits(experiment))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(experiment.title, fontsize=12)
    return figure


def _limits(experiment: Experiment) -> tuple[float, float]:
    """All of [0, 1] over gamma; from a little below the lowest curve over N, so that small gaps show."""
    if experiment.x_name == "gamma":
        return -0.04, 1.04
    lowest = min(min(curve) for panel in experiment.panels for curve in panel.curves.values())
    margin = 0.05 * max(1 - lowest, 0.01)
    return lowest - margin, 1 + margin
