"""Domain: what an input is (an image, a point cloud, a volume, any other array), and all that follows from it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from segcertify.arrays import Array, IntArray
from segcertify.certificate import Certificate
from segcertify.figures.palette import Colours
from segcertify.noise import Gaussian, Noise
from segcertify.sets.certificate import SetCertificate
from segcertify.votes import Votes

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Domain:
    """A kind of input: `IMAGE`, `CLOUD`, `VOLUME`, or `ARRAY` for all others."""

    name: str
    unit: str
    """What its components are called."""
    components: Callable[[Shape], Shape | None]
    """The shape of the components of an input, from the input's shape; None if no input has that shape."""
    metric: str = "miou"
    """The score of the literature: ``"miou"``, or ``"shape_iou"`` where shapes have categories."""
    bounds: tuple[float, float] | None = None
    """The range of an input's entries, which attacks keep to."""
    noised: tuple[int, ...] | None = None
    """The channels along ``axis`` that Gaussian noise goes on; None is all of them."""
    axis: int = 0
    draw: Callable[..., list[Path]] | None = None
    """What `save_figures` calls."""
    page: Callable[..., None] | None = None
    """What `save_page` calls."""
    sketch: Callable[..., bytes] | None = None
    """What `thumbnail` calls."""

    def noise(self, noise: Noise, shape: Sequence[int] | None = None) -> Noise:
        """``noise``, but Gaussian noise that names no channels goes on those of this domain.

        An input whose ``shape`` has no other channels than these needs none named.
        """
        if self.noised is None or not isinstance(noise, Gaussian) or noise.channels is not None:
            return noise
        if shape is not None and shape[self.axis] == len(self.noised):
            return noise
        return replace(noise, channels=self.noised, axis=self.axis)

    def save_figures(
        self, stem: str | os.PathLike[str], x: Array, certificate: Certificate, *, prediction: IntArray,
        target: IntArray | None = None, colours: Colours | None = None, names: Sequence[str] = (),
    ) -> list[Path]:  # fmt: skip
        """Save the pictures of a certified input x, and return their paths.

        ``STEM.png`` shows the input, its ``target`` (negative where it says nothing), the base model's ``prediction``
        and the certified labels. Beside it an image has ``STEM-labels.png``, the certified labels alone as a PNG with
        a palette. A volume has its middle slices in ``STEM.png``, an array no pictures.
        """
        if self.draw is None or certificate.labels.shape != self.components(x.shape):
            return []
        shown = {"prediction": prediction, "target": target, "names": names}
        return self.draw(Path(stem), x, certificate, colours=colours, **shown)

    def save_page(
        self, path: str | os.PathLike[str], x: Array, certificate: Certificate, *, votes: Votes,
        prediction: IntArray | None = None, target: IntArray | None = None, colours: Colours | None = None,
        names: Sequence[str] = (), sets: SetCertificate | None = None, audit: str = "",
        attacked: Mapping[str, IntArray] | None = None,
    ) -> list[Path]:  # fmt: skip
        """Save the interactive page of a certified input x and the votes it is of; returns its path.

        Arguments as for `save_figures`; also what the page of an image shows, the certificate of ``sets`` and the
        labels of ``attacked`` images; and the command of an ``audit``. Arrays, volumes, and images without colours,
        have no page.
        """
        if self.page is None or certificate.labels.shape != self.components(x.shape):
            return []
        if self is IMAGE and x.shape[0] not in (1, 3):
            return []
        shown: dict[str, Any] = {
            "prediction": prediction, "target": target, "colours": colours, "names": names, "audit": audit,
        }  # fmt: skip
        shown |= {"sets": sets, "attacked": attacked} if self is IMAGE else {}
        self.page(path, x, certificate, votes, **shown)
        return [Path(path)]

    def thumbnail(
        self, x: Array, labels: IntArray, *, colours: Colours, target: IntArray | None = None
    ) -> bytes | None:  # fmt: skip
        """A small JPEG of an input x and its labels; None of an array, and of an image without colours."""
        if self.sketch is None or labels.shape != self.components(x.shape):
            return None
        if self is IMAGE and x.shape[0] not in (1, 3):
            return None
        return self.sketch(x, labels, colours, target=target)

    def save_sets(
        self, path: str | os.PathLike[str], x: Array, certificate: SetCertificate, *, colours: Colours | None = None,
        names: Sequence[str] = (),
    ) -> list[Path]:  # fmt: skip
        """Save the picture of the sets of an image x, and return its path; other inputs have none."""
        if self is not IMAGE or certificate.labels.shape != self.components(x.shape):
            return []
        from segcertify.figures import image, sets  # matplotlib loads when something is drawn

        image.save_figure(sets.sets_figure(x, certificate, colours=colours, names=names), path)
        return [Path(path)]

    def __repr__(self) -> str:
        return f"Domain({self.name})"


def _draw_image(stem: Path, x: Array, certificate: Certificate, colours: Colours | None, **shown: Any) -> list[Path]:
    from segcertify.figures import image  # matplotlib loads when something is drawn

    labels, picture = Path(f"{stem}-labels.png"), Path(f"{stem}.png")
    size = (certificate.preprocessing or {}).get("before")  # of the file: labels lie on its pixels
    image.save_labels(certificate.labels, labels, colours=colours, size=size)
    image.save_figure(image.certified_figure(x, certificate=certificate, colours=colours, **shown), picture)
    return [labels, picture]


def _draw_cloud(stem: Path, x: Array, certificate: Certificate, **shown: Any) -> list[Path]:
    from segcertify.figures import cloud, image

    picture = Path(f"{stem}.png")
    image.save_figure(cloud.cloud_figure(x, certificate=certificate, **shown), picture)
    return [picture]


def _image_page(path: Path, x: Array, certificate: Certificate, votes: Votes, **shown: Any) -> None:
    from segcertify.figures.image_page import save_page

    save_page(path, x, certificate, votes, **shown)


def _cloud_page(path: Path, x: Array, certificate: Certificate, votes: Votes, **shown: Any) -> None:
    from segcertify.figures.cloud_page import save_view

    save_view(path, x, certificate, votes, **shown)


def _image_sketch(x: Array, labels: IntArray, colours: Colours, **shown: Any) -> bytes:
    from segcertify.figures.thumbnail import image_thumbnail

    return image_thumbnail(np.broadcast_to(x, (3, *labels.shape)), labels, colours, **shown)


def _cloud_sketch(x: Array, labels: IntArray, colours: Colours, **shown: Any) -> bytes:
    from segcertify.figures.thumbnail import cloud_thumbnail

    return cloud_thumbnail(x, labels, colours, **shown)


def _draw_volume(stem: Path, x: Array, certificate: Certificate, **shown: Any) -> list[Path]:
    from segcertify.figures import image, volume

    picture = Path(f"{stem}.png")
    image.save_figure(volume.slices_figure(x, certificate=certificate, **shown), picture)
    return [picture]


IMAGE = Domain(
    "image", "pixels", lambda shape: shape[1:] if len(shape) == 3 else None, bounds=(0.0, 1.0), draw=_draw_image,
    page=_image_page, sketch=_image_sketch,
)  # fmt: skip
"""Colours (3, height, width) in [0, 1]."""
CLOUD = Domain(
    "cloud", "points", lambda shape: shape[:1] if len(shape) == 2 else None, metric="shape_iou", noised=(0, 1, 2),
    axis=1, draw=_draw_cloud, page=_cloud_page, sketch=_cloud_sketch,
)  # fmt: skip
"""A line for each point (points, columns): x, y, z, then what else is known of it, such as its normal."""
VOLUME = Domain(
    "volume", "voxels", lambda shape: shape[1:] if len(shape) == 4 else None, draw=_draw_volume
)  # fmt: skip
"""Voxels (channels, depth, height, width), or in whatever order of axes the model takes."""
ARRAY = Domain("array", "components", lambda _: None)
"""Floats of which nothing is known."""


def domain_of(shape: Shape) -> Domain:
    """The domain of an input of which only the shape is known."""
    return next((domain for domain in (IMAGE, CLOUD, VOLUME) if domain.components(shape) is not None), ARRAY)
