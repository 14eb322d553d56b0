"""Journal: a run's losses as CSV (and TensorBoard), and a picture of them."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segcertify.errors import InputError
from segcertify.figures.image import save_figure
from segcertify.storage.archive import require_writable

LOG = "log.csv"

TIMES = ("seconds", "images per second")
"""What differs from run to run; everything else is the same again, but for one row more where a run was stopped."""


class Journal:
    """Rows of numbers by step in ``log.csv``; rows after ``start`` are of a run that was lost, and are dropped."""

    def __init__(self, folder: Path, *, start: int, tensorboard: bool = False) -> None:
        self.path = require_writable(folder / LOG)
        self.rows = [row for row in read_log(self.path) if row["step"] <= start] if self.path.exists() else []
        self._board = require_tensorboard()(folder / "tensorboard", purge_step=start + 1) if tensorboard else None
        self._write()

    def add(self, row: Mapping[str, float]) -> None:
        """Add a row; ``step`` is the number of steps done."""
        self.rows.append(dict(row))
        if self._board is not None:
            for name, value in row.items():
                self._board.add_scalar(name.replace(" ", "_"), value, int(row["step"]))
        if set(row) <= set(self._names):
            with self.path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, self._names).writerow(row)
        else:
            self._write()

    def _write(self) -> None:
        """The whole file, with a column for every name seen."""
        self._names = list(dict.fromkeys(name for row in self.rows for name in row))
        whole = self.path.with_name(f".{self.path.name}.tmp")
        with whole.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self._names)
            writer.writeheader()
            writer.writerows(self.rows)
        os.replace(whole, self.path)

    def close(self) -> None:
        """Draw the picture, and end TensorBoard's file."""
        if self._board is not None:
            self._board.close()
        if self.rows:
            save_figure(loss_figure(self.rows, title=self.path.parent.name), self.path.with_name("loss.png"))


def read_log(path: Path) -> list[dict[str, float]]:
    """The rows of a ``log.csv``; empty cells are left out, and so is a last line that a kill cut short."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            text = file.read()
        lines = io.StringIO(text[: text.rfind("\n") + 1])
        rows = [{name: float(cell) for name, cell in row.items() if cell} for row in csv.DictReader(lines)]
        if not all("step" in row for row in rows):
            raise ValueError("a row without a step")
    except (ValueError, TypeError, csv.Error) as error:
        raise InputError(f"{path} is not a training log ({error}): move it away, or choose another folder") from None
    return rows


def loss_figure(rows: list[dict[str, float]], *, title: str) -> Any:
    """Losses against steps, and below them what was measured on other scenes."""
    from matplotlib.figure import Figure

    shown = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in ("step", "lr", *TIMES)]
    measured = [name for name in shown if name.startswith("validation")]
    losses = [name for name in shown if name not in measured]
    figure = Figure(figsize=(7, 5 if measured else 3), layout="constrained")
    panels = figure.subplots(2 if measured else 1, 1, sharex=True, squeeze=False)[:, 0]
    for panel, names, label in zip(panels, (losses, measured), ("loss", "on other scenes"), strict=False):
        for name in names:
            points = [(row["step"], row[name]) for row in rows if math.isfinite(row.get(name, math.nan))]
            panel.plot(
                *zip(*points, strict=True),
                label=name.removeprefix("validation "),
                marker="." if len(points) < 30 else "",
            )
        panel.set_ylabel(label)
        panel.grid(alpha=0.3)
        if panel.lines:
            panel.legend(frameon=False)
    panels[-1].set_xlabel("steps")
    panels[0].set_title(title)
    return figure


def require_tensorboard() -> Any:
    """TensorBoard's writer: to be asked for before long work."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            "TensorBoard is not installed: pip install tensorboard, or leave it out (log.csv is always written)"
        ) from None
    return SummaryWriter
