"""A generated shape, and the bundled model `parts`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from segcertify.arrays import IntArray
from segcertify.certificate import Certificate, radius_text
from segcertify.data import shapes
from segcertify.figures.cloud import cloud_figure, save_view
from segcertify.figures.image import save_figure
from segcertify.models import load
from segcertify.noise import Gaussian

SEED = 2021
"""Of the shapes: `parts` was trained on those of seed 0."""


class Shape:
    """A shape of a category, what labels its points, and how this is told and drawn."""

    def __init__(self, category: str) -> None:
        self.data = shapes.load(count=1, seed=SEED, category=[category], normals=True)
        scene = self.data[0]
        self.id, self.x, self.target = scene.id, torch.from_numpy(scene.x), scene.target
        self.model = load(f"parts?category={category}&runs=1")  # a third of the usual time
        self.classes, self.colours = self.data.classes, self.data.colours / 255
        self.name = category.lower()
        self.title = f"The {self.name}'s points"

    def noise(self, sigma: float) -> Gaussian:
        """On x, y and z, not on the normals."""
        return Gaussian(sigma, channels=self.data.noised, axis=self.data.noise_axis)

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

    def draw(self, out: Path, proved: Certificate, prediction: IntArray) -> tuple[Path, ...]:
        """Two views with ground truth, prediction and certified labels, and a page on which the shape turns."""
        points, picture, page = self.x.numpy(), out / "certified.png", out / "certified.html"
        target, colours, names = self.target, self.colours, self.classes
        save_figure(cloud_figure(points, prediction, proved, target=target, colours=colours, names=names), picture)
        save_view(page, points, proved, prediction=prediction, target=target, colours=colours, names=names)
        return picture, page
