"""The demo on a photograph of a cat, with the bundled model `pets`."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch

from segcertify.arrays import IntArray
from segcertify.certificate import Certificate, radius_text
from segcertify.data import read_input
from segcertify.data.domain import IMAGE
from segcertify.figures.image import save_figure, steps_figure
from segcertify.models import card_of, load
from segcertify.sampling.segmenter import predict
from segcertify.sampling.streams import DrawStream

SHORT_SIDE = 160
"""`pets` was trained on images with short sides of about so many pixels."""


def photograph() -> torch.Tensor:
    """The bundled photograph, Chelsea the cat (CC0): (3, 160, 241) in [0, 1]."""
    with as_file(files("segcertify.demo") / "chelsea.jpg") as file:
        return torch.from_numpy(read_input(file, short_side=SHORT_SIDE).x)


class Cat:
    """The photograph, the model that labels its pixels, and what is said and drawn of them."""

    id, title, domain = "", "The photograph's pixels", IMAGE

    def __init__(self) -> None:
        self.x, self.model = photograph(), load("pets")
        card = card_of(self.model)
        assert card is not None  # what ships has one
        self.classes, self.colours = card.classes, np.array(card.colours) / 255

    def sentence(self, proved: Certificate) -> str:
        """What was proved, in plain words."""
        (height, width), share = proved.labels.shape, proved.certified / proved.N
        steps = int(255 * min(1.0, proved.radius))
        return (
            f"Proved with probability at least {100 * (1 - proved.alpha):g}% (over the noise drawn): whatever change "
            f"of up to {radius_text(proved.radius, 3)} in l2 norm is made to this photograph at {height} x {width} "
            f"pixels (with colours from 0 to 1; such as {steps} of 255 steps in one colour of one "
            f"pixel, or less in many), {proved.certified:,} of its {proved.N:,} pixels ({share:.1%}) all keep their "
            "label, the model's most frequent one under noise."
        )

    def notes(self, proved: Certificate) -> tuple[str, ...]:
        """Nothing more is said."""
        return ()

    def draw(self, stem: Path, proved: Certificate, prediction: IntArray) -> list[Path]:
        """From the photograph over the first of the n noisy copies to the certified labels."""
        noisy = proved.noise.draw(self.x, [DrawStream(proved.seed or 0, self.id, "agree", 0)])
        labels, colours = predict(self.model, noisy)[0].numpy(), self.colours
        figure = steps_figure(self.x.numpy(), noisy[0].numpy(), labels, proved, colours=colours, names=self.classes)
        save_figure(figure, picture := Path(f"{stem}.png"))
        return [picture]
