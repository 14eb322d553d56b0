"""Pictures of a run's scenes: a thumbnail of each for the run's page and, if asked for, pictures and a page of each."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from segcertify.arrays import IntArray
from segcertify.certificate import Certificate
from segcertify.data import DataSet, Scene
from segcertify.figures.palette import Colours, ColoursOf, palette
from segcertify.records import RunFolder, Setting
from segcertify.sets.certificate import SetCertificate
from segcertify.storage.atomic import write_bytes, write_text
from segcertify.votes import Votes


@dataclass(frozen=True, eq=False)
class ScenePictures:
    """Where the pictures of an evaluation go, and whether they are more than thumbnails (``whole``).

    They are written before a scene's records, so that a finished scene has them. One that fails is a warning: the
    scene's records are not lost for it.
    """

    folder: RunFolder
    data: DataSet
    whole: bool
    colours: ColoursOf = "own"

    @cached_property
    def _colours(self) -> Colours:
        if self.colours == "own" and not self.data.categories:  # parts have our own colours, each category the first
            return palette(len(self.data.classes))
        return self.data.colours / 255

    def legend(self) -> None:
        """What the colours of the thumbnails stand for."""
        bytes_of = [bytes(row).hex() for row in np.rint(255 * self._colours).astype(np.uint8)]
        write_text(self.folder.colours, json.dumps({"colours": [f"#{each}" for each in bytes_of]}) + "\n")

    def of_base(self, scene: Scene, prediction: IntArray) -> None:
        """The thumbnail of the base model's labels."""
        self._thumbnail(scene, prediction, None)

    def of_certificate(
        self, scene: Scene, setting: Setting, certificate: Certificate, votes: Votes, *, prediction: IntArray
    ) -> None:
        """The thumbnail of a certificate; also its pictures and its page."""
        self._thumbnail(scene, certificate.labels, setting, certificate.correction)
        if not self.whole:
            return
        stem, domain = self.folder.pictures(scene.id, setting, certificate.correction), self.data.domain
        with _warned(scene):
            domain.save_figures(
                stem, scene.x, certificate, prediction=prediction, target=scene.labels, colours=self._colours,
                names=self.data.classes,
            )  # fmt: skip
        with _warned(scene):
            domain.save_page(
                f"{stem}.html", scene.x, certificate, votes=votes, prediction=prediction, target=scene.labels,
                colours=self._colours, names=self.data.classes,
            )  # fmt: skip

    def of_sets(self, scene: Scene, setting: Setting, certificate: SetCertificate) -> None:
        """The picture of a certificate of sets."""
        if self.whole:
            with _warned(scene):
                path = f"{self.folder.pictures(scene.id, setting, 'sets')}.png"
                self.data.domain.save_sets(path, scene.x, certificate, colours=self._colours, names=self.data.classes)

    def _thumbnail(self, scene: Scene, labels: IntArray, setting: Setting | None, correction: str = "") -> None:
        with _warned(scene):
            content = self.data.domain.thumbnail(scene.x, labels, target=scene.labels, colours=self._colours)
            if content is not None:
                write_bytes(self.folder.thumbnail(scene.id, setting, correction), content)


@contextmanager
def _warned(scene: Scene) -> Iterator[None]:
    """A picture that fails is a warning."""
    try:
        yield
    except Exception as error:
        warnings.warn(f"no pictures of {scene.id!r} ({type(error).__name__}: {error})", stacklevel=3)
