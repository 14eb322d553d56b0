"""The page of a certified image: overlays on the photograph, and the panel of a radius and of what is claimed."""

import io
import os
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from PIL import Image

from segcertify.arrays import Array, IntArray
from segcertify.certificate import Certificate
from segcertify.errors import InputError
from segcertify.figures.page import built, encoded
from segcertify.figures.page_panel import panel
from segcertify.figures.palette import Colours
from segcertify.figures.panels import as_rgb, class_colours
from segcertify.sets.certificate import SetCertificate
from segcertify.storage.atomic import write_text
from segcertify.votes import Votes

PNG_PIXELS = 2**17
"""Up to so many pixels a photograph is kept without loss; a larger one as a JPEG."""


def save_page(
    path: str | os.PathLike[str], x: Array, certificate: Certificate, votes: Votes, *,
    prediction: IntArray | None = None, target: IntArray | None = None, sets: SetCertificate | None = None,
    attacked: Mapping[str, IntArray] | None = None, colours: Colours | None = None, names: Sequence[str] = (),
    audit: str = "",
) -> None:  # fmt: skip
    """Write one HTML file, which needs no other, to look at a certified image.

    ``x`` is the image (3, height, width) in [0, 1] that the noise went on; ``votes`` are those that ``certificate`` is
    of. The radii are those of `segcertify.radius_map` at the certificate's alpha: a claim of its own, for all radii
    at once. Also ``prediction``, the base model's labels without noise; ``target``, the ground truth, negative where
    it is ignored; a certificate of ``sets``; labels of ``attacked`` images, by what is said of them; ``names`` and
    ``colours`` of the classes; and the command of an ``audit``.
    """
    shape = certificate.labels.shape
    if x.ndim != 3 or x.shape[0] not in (1, 3) or x.shape[1:] != shape:
        raise InputError(f"the image of labels {shape} must have the shape (3, *{shape}), but has {x.shape}")
    beside = panel(
        certificate, votes, what="image", unit="pixels", coloured=partial(_coloured, colours), names=names,
        prediction=prediction, target=target, attacked=attacked, sets=sets, audit=audit,
    )  # fmt: skip
    write_text(path, built("image", {**beside, "size": list(shape), "photo": _photograph(x)}))


def _coloured(colours: Colours | None, numbers: IntArray) -> Colours:
    """The colours of some classes."""
    table = class_colours([numbers], colours)
    if len(table) <= numbers.max():
        raise InputError(f"colours must be of at least {numbers.max() + 1} classes, but are of {len(table)}")
    return table[numbers]


def _photograph(x: Array) -> dict[str, str]:
    """The image as a small file: without loss if it is small, else as a JPEG."""
    image = Image.fromarray(np.rint(255 * as_rgb(np.broadcast_to(x, (3, *x.shape[1:])))).astype(np.uint8))
    kind, options = ("PNG", {"optimize": True}) if image.width * image.height <= PNG_PIXELS else ("JPEG", {})
    image.save(content := io.BytesIO(), format=kind, **({"quality": 88} if kind == "JPEG" else options))
    return {"type": f"image/{kind.lower()}", "bytes": encoded(np.frombuffer(content.getvalue(), np.uint8), "u1")}
