"""Texts in figures: names are drawn as they are, and long ones are shortened. No mathematics, no TeX."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.text import Text

from segcertify.names import plotted, shortened, visible

Entry = tuple[str, Artist]
"""A name in a legend, and what stands before it."""

LONGEST = 60
"""Characters of a name in a legend."""


def legend_name(name: str) -> str:
    """A name as a legend has it."""
    return shortened(visible(name), LONGEST)


def named_legend(figure: Figure, entries: Sequence[Entry], *, loc: str, columns: int, **style: Any) -> None:
    """A legend of names as they are: underscores at the beginning and dollars mean nothing."""
    handles = [handle for _, handle in entries]
    for handle in handles:
        handle.set_label(" ")  # a label that begins with an underscore would be left out
    shown: dict[str, Any] = {"loc": loc, "ncols": columns, "frameon": False, **style}
    legend = figure.legend(handles=handles, **shown)
    for text, (name, _) in zip(legend.get_texts(), entries, strict=True):
        text.set(text=legend_name(name), parse_math=False)


def wrapped(text: str, width: int, *, lines: int = 12) -> str:
    """A text in lines of at most ``width`` characters; of more than so many lines, the end is shortened."""
    return "\n".join(plotted(line) for line in wrap(shortened(visible(text), width * lines), width))


def draw_without_tex(figure: Figure, target: Any, form: str) -> None:
    """Write a figure. Whatever a `matplotlibrc` says, no text goes to TeX, which can read and write files."""
    for text in figure.findobj(Text):
        text.set_usetex(False)
    with rc_context({"text.usetex": False}):
        figure.savefig(target, dpi=150, format=form)
