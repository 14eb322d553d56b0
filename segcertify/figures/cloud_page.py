"""The page on which a certified cloud turns, with the panel of a radius to choose and what is claimed."""

import os
from collections.abc import Sequence
from functools import partial

from segcertify.arrays import Array, IntArray
from segcertify.certificate import Certificate
from segcertify.figures.cloud import cloud_of, part_colours
from segcertify.figures.page import built, encoded
from segcertify.figures.page_panel import panel
from segcertify.figures.palette import Colours
from segcertify.storage.atomic import write_text
from segcertify.votes import Votes


def save_view(
    path: str | os.PathLike[str], points: Array, certificate: Certificate, votes: Votes, *,
    prediction: IntArray | None = None, target: IntArray | None = None, colours: Colours | None = None,
    names: Sequence[str] = (), audit: str = "",
) -> None:  # fmt: skip
    """Write one HTML file, which needs no other, in which a reader turns the certified cloud and points at its points.

    Arguments as for `cloud_figure`; also the ``votes`` that ``certificate`` is of, and the command of an ``audit``.
    The radii are those of `segcertify.radius_map`, as on the page of an image. ``#prediction`` or ``#target`` after
    the file's address opens those labels.
    """
    cloud = cloud_of(points, certificate, prediction=prediction, target=target, colours=colours, names=names)
    beside = panel(
        certificate, votes, what="cloud", unit="points", coloured=partial(part_colours, colours=colours), names=names,
        prediction=prediction, target=target, audit=audit,
    )  # fmt: skip
    write_text(path, built("cloud", {**beside, "points": encoded(cloud.points, "<f4")}))
