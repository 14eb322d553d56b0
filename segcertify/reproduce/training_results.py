"""Results: what the ways to train gave, as JSON, and the table, figure and page that follow from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from segcertify.certificate import radius_text
from segcertify.errors import InputError
from segcertify.figures.image import save_figure
from segcertify.report.figures import COLOURS
from segcertify.report.table import Table

FILE, PAGE, FIGURE = "results.json", "README.md", "training.png"
NUMBERS = ("accuracy", "miou_pooled", "miou_per_image", "miou_worst_case", "abstained", "abstained_all")
HEADS = (
    "scale", "training", "smoothing", "R", "accuracy", "mIoU pooled", "mIoU per image", "mIoU worst case",
    "abstained (valid)", "abstained (all)", "s",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """One model at one scale under one claim; without smoothing ``sigma``, ``n``, ``tau`` and ``radius`` are None.

    ``trained_sigma`` is the noise of the training, 0 for none; ``abstained`` is
    a share of the valid pixels, ``abstained_all`` of all; ``seconds`` are a scene's.
    """

    objective: str
    trained_sigma: float
    scale: str
    sigma: float | None
    n: int | None
    tau: float | None
    radius: float | None
    accuracy: float
    miou_pooled: float
    miou_per_image: float
    miou_worst_case: float
    abstained: float
    abstained_all: float
    seconds: float

    @property
    def training(self) -> str:
        """How the model was trained, in words."""
        return f"{self.objective} {self.trained_sigma:g}" if self.trained_sigma else self.objective

    @property
    def smoothing(self) -> str:
        """The claim in words."""
        return "none" if self.sigma is None else f"sigma={self.sigma:g}, n={self.n}, tau={self.tau:g}"

    @property
    def cells(self) -> tuple[str, ...]:
        """This row of the table."""
        radius = "" if self.radius is None else radius_text(self.radius, 3)
        numbers = {name: f"{getattr(self, name):.4f}" for name in NUMBERS}
        if self.sigma is None:
            numbers["miou_worst_case"] = ""
        return self.scale, self.training, self.smoothing, radius, *numbers.values(), f"{self.seconds:.2f}"


@dataclass(frozen=True)
class Fold:
    """The scenes that were trained or evaluated on."""

    name: str
    scenes: int


@dataclass(frozen=True)
class Results:
    """All results of a comparison and what they come from, in plain values."""

    version: str
    device: str
    model: str
    init: str
    training: Fold
    validation: Fold
    recipe: Mapping[str, Any]
    n0: int
    alpha: float
    correction: str
    quick: bool
    rows: tuple[Result, ...]

    def save(self, folder: Path) -> list[Path]:
        """Write the JSON, the table in three forms, the page and its figure; the files written."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        path.write_text(json.dumps(asdict(self), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        return [path, *self.table().save(folder, "training"), *render(folder)]

    def table(self) -> Table:
        """A row for each model, scale and claim."""
        title = f"Ways to train {self.model}, evaluated on {self.validation.name}"
        return Table(title, HEADS, tuple(row.cells for row in self.rows), self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""
        scenes = self.validation.scenes
        together = max(0.0, 1 - scenes * self.alpha)
        notes = (
            f"Trained on {self.training.scenes} scenes of {self.training.name}, evaluated on {scenes} others; "
            f"n0 = {self.n0}, alpha = {self.alpha:g} for each scene, {self.correction}: a row's certificates hold for "
            f"all scenes together with probability at least {together:g}. Each row is a claim of its own.",
            "The models share one recipe, one start and one order of scenes: only the objective and its noise differ. "
            "Each was trained once, so small differences may be chance.",
            "Noise is added at the image's resolution, before the network's input is rescaled.",
            "An abstention counts as wrong. Only the worst-case mIoU is a lower bound under attack.",
        )
        return (*notes, "This is a quick run: it shows that the command works, and no more.") if self.quick else notes

    def page(self) -> str:
        """The page of the documents."""
        made = f"segcertify {self.version}, {self.device}"
        recipe = {"model": self.model, "start": self.init or "fresh weights", **self.recipe}
        return "\n".join(
            [
                f"# Training for certificates on {self.training.name.partition('/')[0]}",
                "",
                f"Written by `segcertify reproduce training` ({made}) from [{FILE}]({FILE}). Do not edit.",
                "",
                f"![Certified accuracy and abstention by objective and sigma]({FIGURE})",
                "",
                "Valid pixels: certified and right (solid), abstained (hatched); the rest is certified but wrong.",
                "",
                self.table().markdown(),
                "## Recipe",
                "",
                "| setting | value |",
                "| --- | --- |",
                *(f"| {name} | {_text(value)} |" for name, value in recipe.items()),
                "",
            ]
        )

    def figure(self) -> Figure:
        """Certified accuracy and abstention under the first claim by objective and sigma, a panel for each scale."""
        first = next(row for row in self.rows if row.sigma is not None)
        claimed = [row for row in self.rows if (row.n, row.tau) == (first.n, first.tau)]
        scales = list(dict.fromkeys(row.scale for row in claimed))
        figure = Figure(figsize=(4.2 * len(scales), 3.8), layout="constrained")
        colours = dict(zip(dict.fromkeys(row.objective for row in claimed), COLOURS, strict=False))
        for axes, scale in zip(figure.subplots(1, len(scales), sharey=True, squeeze=False)[0], scales, strict=True):
            _draw(axes, [row for row in claimed if row.scale == scale], colours)
            axes.set_title(f"scale {scale}", fontsize=10)
        figure.axes[0].set_ylabel("share of the valid pixels")
        handles = [Patch(color=colour, label=f"{objective}: right") for objective, colour in colours.items()]
        handles.append(Patch(facecolor="white", edgecolor="#555555", hatch="////", label="abstained"))
        figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
        figure.suptitle(f"Certified at n = {first.n}, tau = {first.tau:g}", fontsize=11)
        return figure


def read_results(folder: Path) -> Results:
    """The results in a folder."""
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"no {FILE} in {folder}: run segcertify reproduce training --out {folder} first")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        folds = {name: Fold(**values[name]) for name in ("training", "validation")}
        return Results(**values | folds | {"rows": tuple(Result(**row) for row in values["rows"])})
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} holds no results of reproduce training ({error}): make it again") from None


def render(folder: Path) -> list[Path]:
    """Write the page and the figure of the results in a folder; the files written."""
    results = read_results(folder)
    (folder / PAGE).write_text(results.page(), encoding="utf-8")
    save_figure(results.figure(), folder / FIGURE)
    return [folder / PAGE, folder / FIGURE]


def _draw(axes: Axes, rows: Sequence[Result], colours: Mapping[str, str]) -> None:
    """A group of bars for each sigma, a bar for each objective."""
    sigmas = list(dict.fromkeys(row.sigma for row in rows))
    width = 0.8 / len(colours)
    for row in rows:
        offset = list(colours).index(row.objective) - (len(colours) - 1) / 2
        at, colour = sigmas.index(row.sigma) + offset * width, colours[row.objective]
        axes.bar(at, row.accuracy, 0.9 * width, color=colour)
        axes.bar(
            at, row.abstained, 0.9 * width, bottom=row.accuracy, color="white", edgecolor=colour, hatch="////", lw=0.5
        )
    axes.set_xticks(range(len(sigmas)), [f"{sigma:g}" for sigma in sigmas])
    axes.set_xlabel("sigma")
    axes.set_ylim(0, 1)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
