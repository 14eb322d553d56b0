"""The demo on a generated shape, with the bundled model `parts`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from segcertify.arrays import IntArray
from segcertify.certificate import Certificate, radius_text
from segcertify.data.sets import shapes
from segcertify.models import load


class Shape:
    """A shape of a category, the model that labels its points, and what is said and drawn of them."""

    def __init__(self, category: str) -> None:
        data = shapes.load(count=1, category=[category], normals=True)
        scene, self.domain = data[0], data.domain
        self.id, self.x, self.target = scene.id, torch.from_numpy(scene.x), scene.target
        self.model = load(f"parts?category={category}&runs=1")  # a third of the usual time
        self.classes, self.colours = data.classes, data.colours / 255
        self.name = category.lower()
        self.title = f"The {self.name}'s points"

    def sentence(self, proved: Certificate) -> str:
        """What was proved, in plain words."""
        each = radius_text(proved.radius / math.sqrt(proved.N), 2)
        return (
            f"Proved with probability at least {100 * (1 - proved.alpha):g}% (over the noise drawn and the "
            f"network's own sampling): however the {proved.N:,} points of this generated {self.name} (of radius 1) are "
            f"moved, by up to {radius_text(proved.radius, 3)} in l2 norm over all of them (such as one point by that "
            f"much, or each by {each}) and with their normals as they are, {proved.certified:,} of them "
            f"({proved.certified / proved.N:.1%}) all keep their label, the model's most frequent one under noise."
        )

    def notes(self, proved: Certificate) -> tuple[str, ...]:
        """How many certified labels are right, and how it was made."""
        right = np.count_nonzero(proved.labels == self.target)
        return (
            f"{right:,} of the {proved.certified:,} certified labels are right: a generated shape's parts are known.",
            f"Made with n0 = {proved.n0}, n = {proved.n}, tau = {proved.tau:g} and one run of the network a draw; "
            "the model `parts` by itself takes the mean of three, which is another and slower model.",
        )

    def draw(self, stem: Path, proved: Certificate, prediction: IntArray) -> list[Path]:
        """The pictures of every certified cloud."""
        return self.domain.save_figures(
            stem, self.x.numpy(), proved, prediction=prediction, target=self.target, colours=self.colours,
            names=self.classes,
        )  # fmt: skip
