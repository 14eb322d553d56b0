"""What the demo certifies: a photograph of a cat with the model `pets`, or a generated shape with `parts`."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import torch

from segcertify.arrays import IntArray
from segcertify.certificate import Certificate
from segcertify.data import Input, read_input
from segcertify.data.domain import IMAGE
from segcertify.data.sets import shapes
from segcertify.figures.image import save_figure, steps_figure
from segcertify.models import card_of, load
from segcertify.numerals import exact
from segcertify.sampling.segmenter import predict
from segcertify.sampling.streams import DrawStream
from segcertify.votes import Votes


def photograph() -> torch.Tensor:
    """The bundled photograph, Chelsea the cat (CC0): (3, 160, 241) in [0, 1], about the size that `pets` knows."""
    return torch.from_numpy(_chelsea().x)


def _chelsea() -> Input:
    with as_file(files("segcertify.demo") / "chelsea.jpg") as file:
        return read_input(file, short_side=160)


class Cat:
    """The photograph, the model that labels its pixels, and what is said and drawn of them."""

    id, title, domain, target = "", "The photograph's pixels", IMAGE, None

    def __init__(self) -> None:
        read_in = _chelsea()
        self.x, self.preprocessing, self.model = torch.from_numpy(read_in.x), read_in.preprocessing, load("pets")
        card = card_of(self.model)
        assert card is not None  # what ships has one
        self.classes = card.classes

    def notes(self, proved: Certificate) -> tuple[str, ...]:
        """Nothing more is said."""
        return ()

    def draw(self, stem: Path, proved: Certificate, votes: Votes, prediction: IntArray) -> list[Path]:
        """From the photograph over the first of the n noisy copies to the certified labels; and the page."""
        noisy = proved.noise.draw(self.x, [DrawStream(proved.seed or 0, self.id, "agree", 0)])
        labels = predict(self.model, noisy)[0].numpy()
        figure = steps_figure(self.x.numpy(), noisy[0].numpy(), labels, proved, names=self.classes)
        save_figure(figure, picture := Path(f"{stem}.png"))
        shown: dict[str, Any] = {"prediction": prediction, "names": self.classes}
        return [picture, *self.domain.save_page(f"{stem}.html", self.x.numpy(), proved, votes=votes, **shown)]


class Shape:
    """A shape of a category, the model that labels its points, and what is said and drawn of them."""

    preprocessing = None

    def __init__(self, category: str) -> None:
        self.data = shapes.load(count=1, category=[category], normals=True)
        scene, self.domain, self.classes = self.data[0], self.data.domain, self.data.classes
        self.id, self.x, self.target = scene.id, torch.from_numpy(scene.x), scene.target
        self.model = load(f"parts?category={category}&runs=1")  # a third of the usual time
        self.name = category.lower()
        self.title = f"The {self.name}'s points"

    def notes(self, proved: Certificate) -> tuple[str, ...]:
        """How many certified labels are right, and how it was made."""
        right = np.count_nonzero(proved.labels == self.target)
        return (
            f"{right:,} of the {proved.certified:,} certified labels are right: a generated shape's parts are known.",
            f"Made with n0 = {proved.n0}, n = {proved.n}, tau = {exact(proved.tau)} and one run of the network a draw; "
            "it draws points of its own. The model `parts` by itself takes the mean of three, which is another and "
            "slower model.",
        )

    def draw(self, stem: Path, proved: Certificate, votes: Votes, prediction: IntArray) -> list[Path]:
        """The pictures of every certified cloud, and the page on which it turns."""
        shown: dict[str, Any] = {
            "prediction": prediction, "target": self.target, "names": self.classes, "colours": self.data.colours / 255,
        }  # fmt: skip
        x = self.x.numpy()
        pictures = self.domain.save_figures(stem, x, proved, **shown)
        return [*pictures, *self.domain.save_page(f"{stem}.html", x, proved, votes=votes, **shown)]
