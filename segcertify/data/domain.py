"""Domain: what an input is (an image, a point cloud, a volume, any other array), and all that follows from it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from segcertify.arrays import Array, IntArray
from segcertify.certificate import Certificate
from segcertify.figures.palette import Colours
from segcertify.noise import Gaussian, Noise
from segcertify.sets.certificate import SetCertificate

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
        a palette, and a cloud ``STEM.html``, a page on which it turns. A volume has its middle slices in ``STEM.png``,
        an array no pictures.
        """
        if self.draw is None or certificate.labels.shape != self.components(x.shape):
            return []
        shown = {"prediction": prediction, "target": target, "names": names}
        return self.draw(Path(stem), x, certificate, colours=colours, **shown)

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

    picture, page = Path(f"{stem}.png"), Path(f"{stem}.html")
    image.save_figure(cloud.cloud_figure(x, certificate=certificate, **shown), picture)
    cloud.save_view(page, x, certificate, **shown)
    return [picture, page]


def _draw_volume(stem: Path, x: Array, certificate: Certificate, **shown: Any) -> list[Path]:
    from segcertify.figures import image, volume

    picture = Path(f"{stem}.png")
    image.save_figure(volume.slices_figure(x, certificate=certificate, **shown), picture)
    return [picture]


IMAGE = Domain(
    "image", "pixels", lambda shape: shape[1:] if len(shape) == 3 else None, bounds=(0.0, 1.0), draw=_draw_image
)
"""Colours (3, height, width) in [0, 1]."""
CLOUD = Domain(
    "cloud", "points", lambda shape: shape[:1] if len(shape) == 2 else None, metric="shape_iou", noised=(0, 1, 2),
    axis=1, draw=_draw_cloud,
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
