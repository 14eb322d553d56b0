"""Pictures of certificates of sets: certified labels, two colours in stripes for two labels, and a map of sizes."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from segcertify.arrays import Array, BoolArray
from segcertify.certificate import ABSTAIN
from segcertify.figures.painting import BLANK, SIDE, TINT, painted
from segcertify.figures.palette import Colours
from segcertify.figures.panels import as_rgb, class_colours, hatched_entry, name_regions, panel_figure, swatches
from segcertify.figures.texts import Entry, tell
from segcertify.metrics.sets import small_sets
from segcertify.noise import is_proven
from segcertify.numerals import percent
from segcertify.sets.certificate import SetCertificate
from segcertify.sets.class_trees import sets_in_words

PAIRS = 4
"""How many sets of two labels the legend names."""

STRIPE = 4
"""The width of a stripe, in pixels of an image whose longer side has `SIDE` of them, at least."""


def sets_image(certificate: SetCertificate, colours: Colours, grey: Array | None = None) -> Colours:
    """An RGB image of sets on a grey photograph: certified labels plain, two labels in stripes of both colours.

    One label by exclusion alone, which is less than a certified one, is in stripes of its colour and white. Larger sets
    are hatched.
    """
    times = max(1, SIDE // max(certificate.labels.shape))
    sizes, abstained, labels, only, first, last = (
        each.repeat(times, 0).repeat(times, 1)
        for each in (
            certificate.sizes, certificate.abstained, certificate.labels, certificate.only,
            certificate.sets.argmax(0), len(certificate.sets) - 1 - certificate.sets[::-1].argmax(0),
        )
    )  # fmt: skip
    rows, columns = np.indices(sizes.shape, np.int32)
    odd = ((rows + columns) // max(STRIPE, STRIPE * max(sizes.shape) // SIDE)) % 2 == 1
    shown = np.where(abstained & (sizes == 2), np.where(odd, last, first), labels)
    shown = np.where(only, np.where(odd, BLANK, first), shown)
    return painted(None if grey is None else grey.repeat(times, 0).repeat(times, 1), shown, colours)


def sizes_image(certificate: SetCertificate) -> Colours:
    """Grey (height, width, 3): white is one label, black four or more (or no claim at all)."""
    sizes = np.minimum(certificate.sizes, 4) if certificate.excludes else np.full(certificate.labels.shape, 4)
    return np.repeat((1 - (sizes - 1) / 3)[..., None], 3, axis=2)


def sets_figure(
    x: Array | None, certificate: SetCertificate, *, colours: Colours | None = None, names: Sequence[str] = ()
) -> Figure:
    """An image (3, height, width) if given, its sets, and their sizes, above the claim."""
    present, shape = _present(certificate), certificate.labels.shape
    table = class_colours([np.flatnonzero(present)], colours)
    N, word = certificate.labels.size, "certified" if is_proven(certificate.noise) else "labelled"
    few = percent(float(np.count_nonzero(certificate.sizes <= 2)) / N)
    grey, light = (None, 0.0) if x is None else (x.mean(0), (1 - TINT) * float(x.mean()))
    panels = ({} if x is None else {"input": as_rgb(x)}) | {
        f"{percent(certificate.certified / N)} {word} (plain), two labels striped": sets_image(
            certificate, table, grey
        ),
        f"labels in a set: white 1, black 4 or more; {few} up to 2": sizes_image(certificate),
    }
    figure = panel_figure(panels, shape, rows=1, fontsize=10)
    name_regions(figure.axes[-2], certificate.labels, names)
    tints = table if x is None else TINT * table + light
    entries = swatches(tints, names, [np.flatnonzero(present)]) + _pairs(certificate, tints, names)
    if (certificate.abstained & (certificate.sizes > 2)).any():
        entries.append(hatched_entry("more labels"))
    stripes = "Stripes of a colour and white: this label or no majority."
    tell(figure, entries, said=certificate.sentence, exact=f"{certificate.claim} {stripes}")
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
