"""A certificate for a real photograph or a generated shape, on any machine, in seconds."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from segcertify.arrays import BoolArray, IntArray
from segcertify.certificate import ABSTAIN, Certificate
from segcertify.certification import certify_votes
from segcertify.demo.subjects import Cat, Shape, photograph
from segcertify.noise import Gaussian
from segcertify.numerals import NOTHING, percent
from segcertify.report.table import Table
from segcertify.sampling.segmenter import base_labels
from segcertify.sampling.smooth import Smooth

__all__ = ["Cat", "Demo", "Shape", "photograph", "run"]


@dataclass(frozen=True)
class Demo:
    """What was certified, the certificate, the model's labels without noise, and the files written."""

    subject: Cat | Shape
    certificate: Certificate
    prediction: IntArray
    files: tuple[Path, ...]

    @property
    def sentence(self) -> str:
        """What was proved, in plain words."""
        return self.certificate.sentence

    @property
    def table(self) -> Table:
        """How many pixels or points have which label, certified and by the model alone."""
        certified, alone = self.certificate.labels, self.prediction
        names = {c: name for c, name in enumerate(self.subject.classes) if c in certified or c in alone}
        names[ABSTAIN] = "abstained"
        rows = [(name, _count(certified == c), _count(alone == c)) for c, name in names.items()]
        if (target := self.subject.target) is not None:
            wrong, wrong_alone = ((each != target) & (each != ABSTAIN) for each in (certified, alone))
            rows += [
                ("certified but wrong", _count(wrong), NOTHING),
                ("wrong without noise", NOTHING, _count(wrong_alone)),
            ]
        sure = "A certified label is sure to stay, not to be right. Where it abstained, nothing is promised."
        return Table(
            self.subject.title,
            ("label", "certified", "model without noise, no guarantee"),
            tuple(rows),
            notes=(sure, *self.subject.notes(self.certificate)),
        )


def run(
    out: Path, *, category: str | None = None, sigma: float = 0.25, seed: int = 0, command: str = "",
    progress: bool | None = None,
) -> Demo:  # fmt: skip
    """Certify the bundled photograph, or a generated shape of a category, at n0 = 10, n = 100, tau = 0.75.

    The seed is named, so that everyone sees the same.
    """
    subject = Cat() if category is None else Shape(category)
    model, x = subject.model, subject.x
    noise = subject.domain.noise(Gaussian(sigma), x.shape)
    smooth = Smooth(model, noise, seed=seed)
    votes = smooth.votes(
        x, n=100, n0=10, input_id=subject.id, preprocessing=subject.preprocessing, progress=progress
    )  # fmt: skip
    certificate = replace(certify_votes(votes, tau=0.75, alpha=0.001), command=command)
    certificate.save(file := out / "certificate.safetensors")
    prediction = base_labels(model, x)
    return Demo(
        subject, certificate, prediction, (*subject.draw(out / "certified", certificate, votes, prediction), file)
    )


def _count(where: BoolArray) -> str:
    return f"{np.count_nonzero(where):,} ({percent(float(where.mean()))})"
