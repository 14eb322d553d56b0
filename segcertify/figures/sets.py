"""Pictures of certificates of sets: certified labels, two colours in stripes for two labels, and a map of sizes."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from segcertify.arrays import Array, BoolArray
from segcertify.certificate import ABSTAIN
from segcertify.figures.image import add_upper_legend, as_rgb, class_colours, panel_figure, swatches
from segcertify.figures.palette import Colours, colour
from segcertify.figures.texts import Entry, wrapped
from segcertify.metrics.sets import small_sets
from segcertify.noise import is_proven
from segcertify.numerals import percent
from segcertify.sets.certificate import SetCertificate
from segcertify.sets.class_trees import sets_in_words

PAIRS = 4
"""How many sets of two labels the legend names."""

STRIPE = 4
"""The width of a stripe, in pixels."""


def sets_image(certificate: SetCertificate, colours: Colours) -> Colours:
    """An RGB image (height, width, 3): certified labels plain, two labels in stripes of both colours, others white.

    One label by exclusion alone, which is less than a certified one, is in stripes of its colour and white.
    """
    sizes, abstained = certificate.sizes, certificate.abstained
    first = certificate.sets.argmax(0)
    last = len(certificate.sets) - 1 - certificate.sets[::-1].argmax(0)
    rows, columns = np.indices(sizes.shape)
    odd = ((rows + columns) // STRIPE) % 2 == 1
    shown = np.where(abstained & (sizes == 2), np.where(odd, last, first), certificate.labels)
    shown = np.where(certificate.only & ~odd, first, shown)
    return colour(shown, colours)


def sizes_image(certificate: SetCertificate) -> Colours:
    """Grey (height, width, 3): white is one label, black four or more (or no claim at all)."""
    sizes = np.minimum(certificate.sizes, 4) if certificate.excludes else np.full(certificate.labels.shape, 4)
    return np.repeat((1 - (sizes - 1) / 3)[..., None], 3, axis=2)


def sets_figure(
    x: Array | None, certificate: SetCertificate, *, colours: Colours | None = None, names: Sequence[str] = ()
) -> Figure:
    """An image (3, height, width) if given, its sets, and their sizes, above the claim."""
    present = _present(certificate)
    table = class_colours([np.flatnonzero(present)], colours)
    N, word = certificate.labels.size, "certified" if is_proven(certificate.noise) else "labelled"
    few = percent(float(np.count_nonzero(certificate.sizes <= 2)) / N)
    panels = ({} if x is None else {"input": as_rgb(x)}) | {
        f"{percent(certificate.certified / N)} {word} (plain), two labels striped": sets_image(certificate, table),
        f"labels in a set: white 1, black 4 or more; {few} up to 2": sizes_image(certificate),
    }
    height, width = certificate.labels.shape
    figure = panel_figure(panels, rows=1, height=12 / len(panels) * height / width + 1.7, fontsize=10)
    add_upper_legend(figure, swatches(table, names, [np.flatnonzero(present)]) + _pairs(certificate, table, names))
    stripes = "Stripes of a colour and white: this label or no majority."
    figure.supxlabel(wrapped(f"{certificate.claim} {stripes}", 150), fontsize=9)
    return figure


def _pairs(certificate: SetCertificate, table: Colours, names: Sequence[str]) -> list[Entry]:
    """A striped patch for each of the most frequent sets of two labels: its name, such as flat, and its share."""
    found = small_sets(certificate.sets[:, certificate.abstained] & certificate.excludes)
    pairs = {labels: count for labels, count in found.items() if max(labels) < len(names) and len(labels) == 2}
    frequent = sorted(pairs, key=lambda labels: (-pairs[labels], labels))[:PAIRS]
    return [
        (
            sets_in_words({labels: pairs[labels]}, certificate.labels.size, names),
            Patch(facecolor=tuple(table[labels[0]]), edgecolor=tuple(table[labels[1]]), hatch="//////", linewidth=0),
        )
        for labels in frequent
    ]


def _present(certificate: SetCertificate) -> BoolArray:
    """The classes that the picture shows in colour: of sets of one or two labels."""
    small = certificate.sizes <= 2
    shown = np.array([bool((inside & small).any()) for inside in certificate.sets])
    shown[np.unique(certificate.labels[certificate.labels != ABSTAIN])] = True
    shown[0] |= not shown.any()
    return shown
