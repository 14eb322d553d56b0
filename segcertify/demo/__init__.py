"""A certificate for a real photograph, on any machine, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch

from segcertify.arrays import BoolArray, IntArray
from segcertify.certificate import ABSTAIN, Certificate, radius_text
from segcertify.data.images import read_image
from segcertify.demo.picture import steps_figure
from segcertify.models import card_of, load
from segcertify.noise import Gaussian
from segcertify.pictures import save_figure
from segcertify.report.table import Table
from segcertify.sampler import certify
from segcertify.segmenter import predict
from segcertify.streams import DrawStream

SIZE = (160, 241)
"""Height and width of the photograph that is certified: `pets` was trained with short sides of about 160 pixels."""


@dataclass(frozen=True)
class Demo:
    """The certificate, the model's labels without noise, the names of the classes, and the files written."""

    certificate: Certificate
    prediction: IntArray
    classes: tuple[str, ...]
    picture: Path
    file: Path

    @property
    def sentence(self) -> str:
        """What was proved, in plain words."""
        proved, (height, width) = self.certificate, self.prediction.shape
        share = proved.certified / proved.N
        return (
            f"Proved with probability at least {100 * (1 - proved.alpha):g}% (over the noise drawn): whatever change "
            f"of up to {radius_text(proved.radius, 3)} in l2 norm is made to this photograph at {height} x {width} "
            f"pixels (with colours from 0 to 1; such as {int(255 * proved.radius)} of 255 steps in one colour of one "
            f"pixel, or less in many), {proved.certified:,} of its {proved.N:,} pixels ({share:.1%}) all keep their "
            "label, the model's most frequent one under noise."
        )

    @property
    def table(self) -> Table:
        """How many pixels have which label, certified and by the model alone."""
        certified, alone = self.certificate.labels, self.prediction
        names = {c: name for c, name in enumerate(self.classes) if c in certified or c in alone}
        names[ABSTAIN] = "abstained"
        return Table(
            "The photograph's pixels",
            ("label", "certified", "model without noise, no guarantee"),
            tuple((name, _count(certified == c), _count(alone == c)) for c, name in names.items()),
            notes=("A certified label is sure to stay, not to be right. Where it abstained, nothing is promised.",),
        )


def photograph() -> torch.Tensor:
    """The bundled photograph, Chelsea the cat (CC0): (3, 160, 241) in [0, 1]."""
    with as_file(files("segcertify.demo") / "chelsea.jpg") as file:
        return torch.from_numpy(read_image(file, resize=SIZE))


def run(out: Path, *, sigma: float = 0.25, seed: int = 0, progress: bool | None = None) -> Demo:
    """Certify the bundled photograph with the bundled model `pets` at n0 = 10, n = 100, tau = 0.75."""
    x, model, noise = photograph(), load("pets"), Gaussian(sigma)
    card = card_of(model)
    assert card is not None  # what ships has one
    certificate = certify(model, x, noise=noise, tau=0.75, n=100, n0=10, alpha=0.001, seed=seed, progress=progress)
    noisy = noise.draw(x, [DrawStream(seed, "", "agree", 0)])[0]  # the first of the n draws
    prediction, labels = predict(model, torch.stack([x, noisy])).numpy()
    demo = Demo(certificate, prediction, card.classes, out / "certified.png", out / "certificate.safetensors")
    certificate.save(demo.file)
    figure = steps_figure(
        x.numpy(), noisy.numpy(), labels, certificate, colours=np.array(card.colours) / 255, names=card.classes
    )
    save_figure(figure, demo.picture)
    return demo


def _count(where: BoolArray) -> str:
    return f"{np.count_nonzero(where):,} ({where.mean():.1%})"
