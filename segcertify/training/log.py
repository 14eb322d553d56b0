"""Training log: a run's losses as CSV (and TensorBoard), and a figure of them."""

import csv
import io
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segcertify.errors import InputError
from segcertify.figures.image import save_figure
from segcertify.figures.texts import wrapped
from segcertify.storage.atomic import require_writable, write_text
from segcertify.storage.reading import is_there, read_text

LOG, PICTURE = "log.csv", "loss.png"

TIMES = ("seconds", "images per second")
"""The columns that differ between equal runs. A stopped run also has one row more, where it was stopped."""


class TrainingLog:
    """Rows of numbers by step in ``log.csv``. Rows after ``start`` are of steps that were lost, and are dropped."""

    def __init__(self, folder: Path, *, start: int, tensorboard: bool = False) -> None:
        self.path = require_writable(folder / LOG)
        self.rows = [row for row in read_log(self.path) if row["step"] <= start] if is_there(self.path) else []
        self._board = require_tensorboard()(folder / "tensorboard", purge_step=start + 1) if tensorboard else None
        self._write()

    def add(self, row: Mapping[str, float]) -> None:
        """Add a row; ``step`` is the number of steps done."""
        self.rows.append(dict(row))
        self._write()
        if self._board is not None:
            for name, value in row.items():
                self._board.add_scalar(name.replace(" ", "_"), value, int(row["step"]))

    def _write(self) -> None:
        """Write the whole file, with a column for every name seen."""
        text = io.StringIO()
        writer = csv.DictWriter(text, _names(self.rows))
        writer.writeheader()
        writer.writerows(self.rows)
        write_text(self.path, text.getvalue())

    def close(self) -> None:
        """Draw the figure, and end TensorBoard's file."""
        if self._board is not None:
            self._board.close()
        _draw(self.path, self.rows)


def draw_losses(folder: Path) -> None:
    """Draw the losses of a finished run, if that failed before."""
    if is_there(folder / LOG) and not is_there(folder / PICTURE):
        _draw(folder / LOG, read_log(folder / LOG))


def _draw(log: Path, rows: list[dict[str, float]]) -> None:
    if rows:
        try:
            save_figure(loss_figure(rows, title=log.parent.name), log.with_name(PICTURE))
        except Exception as error:  # the model is not lost for a picture
            warnings.warn(f"no picture of the losses ({type(error).__name__}: {error})", stacklevel=3)


def read_log(path: Path) -> list[dict[str, float]]:
    """The rows of a ``log.csv`` without their empty cells; a last line that was cut short is left out."""
    cure = "move it away, or choose another folder"
    try:
        text = read_text(path, cure=cure)
        lines = io.StringIO(text[: text.rfind("\n") + 1])
        rows = [{name: float(cell) for name, cell in row.items() if cell} for row in csv.DictReader(lines)]
        if not all("step" in row for row in rows):
            raise ValueError("a row without a step")
    except (ValueError, TypeError, csv.Error) as error:
        raise InputError(f"{path} is not a training log ({error}): {cure}") from None
    return rows


def _names(rows: list[dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def loss_figure(rows: list[dict[str, float]], *, title: str) -> Any:
    """Losses against steps, and below them the scores in validation."""
    from matplotlib.figure import Figure

    shown = [name for name in _names(rows) if name not in ("step", "lr", *TIMES)]
    scores = [name for name in shown if name.startswith("validation")]
    losses = [name for name in shown if name not in scores]
    figure = Figure(figsize=(7, 5 if scores else 3), layout="constrained")
    panels = figure.subplots(2 if scores else 1, 1, sharex=True, squeeze=False)[:, 0]
    for panel, names, label in zip(panels, (losses, scores), ("loss", "on other scenes"), strict=False):
        for name in names:
            points = [(row["step"], row[name]) for row in rows if math.isfinite(row.get(name, math.nan))]
            marker = "." if len(points) < 30 else ""
            panel.plot(*zip(*points, strict=True), label=name.removeprefix("validation "), marker=marker)
        panel.set_ylabel(label)
        panel.grid(alpha=0.3)
        if panel.lines:
            panel.legend(frameon=False)
    panels[-1].set_xlabel("steps")
    panels[0].set_title(wrapped(title, 80, lines=2))
    return figure


def require_tensorboard() -> Any:
    """TensorBoard's writer. Raises `InputError` if it is not installed: call it before long work."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            "TensorBoard is not installed: pip install tensorboard, or leave it out (log.csv is always written)"
        ) from None
    return SummaryWriter
