"""The page on which a certified cloud turns: what is claimed of each of its points, in one file."""

import os
from typing import Any

from segcertify.arrays import Array
from segcertify.certificate import Certificate
from segcertify.figures.cloud import Cloud, cloud_of
from segcertify.figures.page import built, encoded
from segcertify.names import visible
from segcertify.noise import described
from segcertify.numerals import NOTHING, exact, percent, radius_text
from segcertify.storage.atomic import write_text
from segcertify.votes import Votes


def save_view(
    path: str | os.PathLike[str],
    points: Array,
    certificate: Certificate,
    *,
    votes: Votes | None = None,
    audit: str = "",
    **shown: Any,
) -> None:
    """Write one HTML file, which needs no other, in which a reader turns the certified cloud and points at its points.

    Arguments as for `cloud_figure`. ``#prediction`` or ``#target`` after the file's address opens those labels.
    """
    cloud = cloud_of(points, certificate, **shown)
    write_text(path, built("cloud", _page_data(cloud, certificate)))


def _page_data(cloud: Cloud, certificate: Certificate) -> dict[str, Any]:
    """What the page draws and says."""
    certified, N, claimed, word = certificate.certified, certificate.N, certificate.claimed, certificate.word
    return {
        "title": visible(certificate.input_id),
        "heading": f"{word.capitalize()} cloud",
        "caption": "Certified labels." if claimed.certifies else f"{claimed.heading[0].upper()}{claimed.heading[1:]}.",
        "word": word,
        "points": encoded(cloud.points, "<f4"),
        "labels": {key: encoded(labels, "<i4") for key, labels in cloud.labels.items()},
        "parts": [{"name": visible(n), "colour": c} for n, c in zip(cloud.names, cloud.colours, strict=True)],
        "facts": {
            word: f"{certified:,} of {N:,} tested points ({percent(certified / N)})",
            "radius": f"{radius_text(certificate.radius)} ({claimed.threat})" if claimed.proven else NOTHING,
            "noise": described(certificate.noise),
            "draws": f"n0 = {certificate.n0:,}, n = {certificate.n:,}, tau = {exact(certificate.tau)}",
            "level": f"alpha = {exact(certificate.alpha)}, {certificate.correction}",
        },
        "claim": certificate.claim_about(f"the {certified:,} {word} points"),
    }
