"""The panels of pictures: photographs and labels on them, under their titles, with names and one legend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from scipy.ndimage import distance_transform_edt

from segcertify.arrays import Array, BoolArray, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.figures.painting import TINT, WRONG, blanked, painted
from segcertify.figures.palette import Colours, palette
from segcertify.figures.texts import Entry, legend_name
from segcertify.numerals import percent, upper


def heading(certificate: Certificate) -> str:
    """What stands above the labels of a certificate."""
    return f"{certificate.claimed.heading}: {percent(certificate.certified / certificate.N)}"


@dataclass(frozen=True, eq=False)
class LabelMaps:
    """Maps of labels (height, width) under their titles, with one table of colours, names and a legend.

    In a map `ABSTAIN` is hatched and `BLANK` is blank. ``wrong`` are pixels to outline in the last map.
    """

    maps: Mapping[str, IntArray]
    given_colours: Colours | None
    names: Sequence[str]
    wrong: BoolArray | None = None
    tested: int = 0
    """How many pixels have a ground truth, where ``wrong`` is known."""
    word: str = "certified"
    """What to call those with a label: of certificates whose labels do not all hold it is "labelled"."""

    @classmethod
    def of(
        cls, certificate: Certificate, *, prediction: IntArray | None, target: IntArray | None,
        colours: Colours | None, names: Sequence[str],
    ) -> Self:  # fmt: skip
        """Those beside a certificate, which is the last: the ground truth, and the base model's labels."""
        labels, maps, wrong, known = certificate.labels, dict[str, IntArray](), None, np.zeros(0, bool)
        if target is not None:
            known = target >= 0
            wrong = known & (labels >= 0) & (labels != target)
            maps["ground truth"] = blanked(target, known)
        if prediction is not None:
            maps["base model, no guarantee"] = prediction
        return cls(maps | {heading(certificate): labels}, colours, names, wrong, int(known.sum()), certificate.word)

    @cached_property
    def colours(self) -> Colours:
        """The table, by default our own."""
        return class_colours([*self.maps.values()], self.given_colours)

    @property
    def numbered(self) -> Self:
        """The same, with the numbers of classes as names where there are none."""
        return self if self.names else replace(self, names=[f"class {number}" for number in range(len(self.colours))])

    def taken(self, index: int, axis: int) -> Self:
        """A slice of maps of voxels, in the same colours."""
        maps = {title: np.moveaxis(labels, axis, 0)[index] for title, labels in self.maps.items()}
        wrong = None if self.wrong is None else np.moveaxis(self.wrong, axis, 0)[index]
        return replace(self, maps=maps, given_colours=self.colours, wrong=wrong)

    def painted(self, grey: Array | None) -> dict[str, Array]:
        """The panels, on a grey photograph."""
        last = [*self.maps][-1]
        return {
            title: painted(grey, labels, self.colours, wrong=self.wrong if title == last else None)
            for title, labels in self.maps.items()
        }

    def name_regions(self, panels: Sequence[Axes]) -> None:
        """Write the names of classes on large regions."""
        for axes, labels in zip(panels, self.maps.values(), strict=True):
            name_regions(axes, labels, self.names)

    def entries(self, light: float | None, *, abstained: str = "abstained: nothing is promised") -> list[Entry]:
        """The legend: colours as they are on a photograph of this mean grey, hatches, blanks and outlines."""
        maps = [*self.maps.values()]
        table = self.colours if light is None else TINT * self.colours + (1 - TINT) * light
        found = swatches(table, self.names, maps)
        if any((labels == ABSTAIN).any() for labels in maps):
            found.append(hatched_entry(abstained))
        if any((labels < ABSTAIN).any() for labels in maps):
            found.append(("ignored", Patch(facecolor="white", edgecolor="grey", linewidth=0.5)))
        if self.wrong is not None:
            said = wrong_words(self.word, self.wrong, self.tested)
            found.append((said, Patch(facecolor="none", edgecolor=WRONG, linewidth=2)))
        return found


def wrong_words(word: str, wrong: BoolArray, tested: int) -> str:
    """How many of the components with a ground truth are certified (or labelled: ``word``) but wrong, rounded up."""
    count = int(wrong.sum())
    return f"{word} but wrong: {count:,} ({upper(100 * count / max(tested, 1), 1)}%)"


def hatched_entry(words: str) -> Entry:
    """What hatches stand for, in a legend."""
    return words, Patch(facecolor="white", edgecolor="black", hatch="/////", linewidth=0.5)


def as_rgb(x: Array) -> Array:
    """An image (3, height, width) as matplotlib shows it: (height, width, 3) in [0, 1]."""
    return np.clip(x.transpose(1, 2, 0), 0, 1)


def class_colours(maps: Sequence[IntArray], colours: Colours | None) -> Colours:
    """``colours``, or by default a palette for all classes of some label maps."""
    return palette(max(int(labels.max(initial=0)) for labels in maps) + 1) if colours is None else colours


def panel_figure(
    panels: Mapping[str, Array], shape: Sequence[int], *, rows: int, width: float = 12, fontsize: float = 11
) -> Figure:
    """Images of ``shape`` (height, width), or enlarged, under their titles, in ``rows`` rows."""
    (high, wide), columns = shape, len(panels) // rows
    figure = Figure(figsize=(width, rows * (width / columns * high / wide + 1.8 * fontsize / 72) + 0.1))
    figure.set_layout_engine("constrained", h_pad=0.05, w_pad=0.05)
    FigureCanvasAgg(figure)
    for axes, (title, image) in zip(figure.subplots(rows, columns, squeeze=False).flat, panels.items(), strict=True):
        show(axes, image, shape)
        axes.set_title(title, fontsize=fontsize)
    return figure


def show(axes: Axes, image: Array, shape: Sequence[int]) -> None:
    """An image of ``shape`` (height, width), or enlarged, without ticks; coordinates are pixels of ``shape``."""
    axes.imshow(image, extent=(-0.5, shape[1] - 0.5, shape[0] - 0.5, -0.5))
    axes.set(xticks=[], yticks=[])


def name_regions(axes: Axes, labels: IntArray, names: Sequence[str], *, fontsize: float = 9) -> None:
    """Write the name of each class on its largest region in a panel, where it fits."""
    step = max(1, max(labels.shape) // 200)
    few, grid, figure = labels[::step, ::step], axes.get_gridspec(), axes.get_figure(root=True)
    assert grid is not None
    assert figure is not None
    points = 0.95 * 72 * figure.get_figwidth() / grid.ncols / few.shape[1]  # of a pixel's width
    for label in np.unique(few[few >= 0]):
        if label >= len(names):
            continue
        inside = np.pad(few == label, 1)
        depth = distance_transform_edt(inside)[1:-1, 1:-1]
        row, column = np.unravel_index(int(depth.argmax()), depth.shape)
        left, right = (inside[row + 1, : column + 1][::-1], inside[row + 1, column + 2 :])
        free = 2 * min(int(np.argmin(np.append(side, False))) for side in (left, right)) * points
        name = legend_name(names[label])
        if free > 0.62 * fontsize * len(name) and 2 * depth.max() * points > 1.6 * fontsize:
            text = axes.text(
                column * step, row * step, name, color="white", fontsize=fontsize, ha="center", va="center"
            )
            text.set(parse_math=False, path_effects=[withStroke(linewidth=2, foreground="#000000a0")])


def swatches(table: Colours, names: Sequence[str], maps: Sequence[IntArray]) -> list[Entry]:
    """A patch for each class that some label maps hold and that has a name."""
    present = np.unique(np.concatenate([np.unique(labels) for labels in maps]))
    return [(names[c], Patch(facecolor=tuple(table[c]))) for c in present if 0 <= c < len(names)]
