"""Texts in figures: names are drawn as they are, and long ones are shortened. No mathematics, no TeX."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.text import Text

from segcertify.names import plotted, shortened, visible

Entry = tuple[str, Artist]
"""A name in a legend, and what stands before it."""

GAP = 0.08
"""Inches between a figure's texts, panels and edges."""

LONGEST = 60
"""Characters of a name in a legend."""


def legend_name(name: str) -> str:
    """A name as a legend has it."""
    return shortened(visible(name), LONGEST)


def named_legend(figure: Figure, entries: Sequence[Entry], *, loc: str, columns: int, **style: Any) -> Legend:
    """A legend of names as they are: underscores at the beginning and dollars mean nothing."""
    handles = [handle for _, handle in entries]
    for handle in handles:
        handle.set_label(" ")  # a label that begins with an underscore would be left out
    shown: dict[str, Any] = {"loc": loc, "ncols": columns, "frameon": False, **style}
    legend = figure.legend(handles=handles, **shown)
    for text, (name, _) in zip(legend.get_texts(), entries, strict=True):
        text.set(text=legend_name(name), parse_math=False)
    return legend


def wrapped(text: str, width: int, *, lines: int = 12) -> str:
    """A text in lines of at most ``width`` characters; of more than so many lines, the end is shortened."""
    return "\n".join(plotted(line) for line in wrap(shortened(visible(text), width * lines), width))


def tell(figure: Figure, entries: Sequence[Entry], *, said: str, exact: str, fontsize: float = 11) -> None:
    """What is proved stands above a figure, the legend below, and the exact claim in small print under it.

    Without words for everybody (``said``) the exact claim stands above. The figure grows by what all that takes.
    """
    said, exact = (said, exact) if said else (exact, "")
    width, small = figure.get_figwidth(), 0.7 * fontsize
    above, below = (wrapped(text, int(130 * width / size)) for text, size in ((said, fontsize), (exact, small)))
    title = figure.suptitle(above, fontsize=fontsize, va="top")
    small_print = figure.supxlabel(below, fontsize=small, va="bottom", color="#555555")
    legend = None
    if entries:
        columns = _columns([len(legend_name(name)) for name, _ in entries], 112 * width / fontsize)
        legend = named_legend(figure, entries, loc="lower center", columns=columns, fontsize=fontsize)
    top, bottom, between = (_inches(figure, each) for each in (title, small_print if below else None, legend))
    panels = figure.get_figheight()
    figure.set_figheight(whole := panels + top + bottom + between)
    title.set_y(1 - GAP / whole)
    small_print.set_y(GAP / whole)
    if legend is not None:
        legend.set_bbox_to_anchor((0.5, bottom / whole))
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, (bottom + between) / whole, 1, panels / whole))


def _inches(figure: Figure, text: Text | Legend | None) -> float:
    """The height of a text, with a gap, which the layout of panels is to leave out; 0 for none."""
    if text is None:
        return 0.0
    text.set_in_layout(False)
    box = text.get_tightbbox()
    return GAP + (0.0 if box is None else box.height / figure.dpi)


def _columns(lengths: Sequence[int], room: float) -> int:
    """How many columns of entries fit beside each other; they are filled one after the other."""

    def taken(columns: int) -> int:
        return sum(8 + int(column.max()) for column in np.array_split(lengths, columns))

    return max((count for count in range(1, len(lengths) + 1) if taken(count) <= room), default=1)


def draw_without_tex(figure: Figure, target: Any, form: str) -> None:
    """Write a figure. Whatever a `matplotlibrc` says, no text goes to TeX, which can read and write files."""
    for text in figure.findobj(Text):
        text.set_usetex(False)
    with rc_context({"text.usetex": False}):
        figure.savefig(target, dpi=150, format=form)
