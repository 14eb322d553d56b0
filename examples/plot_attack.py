"""An attack that fails: the same change of a photograph, to an ordinary model and to a certified one.

Writes `attack.png`. The change is so small that nobody sees it. It moves labels of a model that was trained without
noise. It moves no label that is certified, nor does an attack that aims at the certified labels themselves.
"""

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import segcertify as sc
from segcertify.attacks import L2, attack_smoothed, pgd, recount
from segcertify.demo import photograph
from segcertify.figures.painting import TINT, painted
from segcertify.figures.palette import palette
from segcertify.numerals import percent

BACKGROUND, CAT, DOG, CHANGED = range(4)
COLOURS = palette(4)
COLOURS[CAT], COLOURS[CHANGED] = COLOURS[BACKGROUND].copy(), (0.9, 0.15, 0.05)
COLOURS[BACKGROUND] = 0.35  # what stays is calm, what changes stands out


def labels_of(model: torch.nn.Module, x: torch.Tensor) -> np.ndarray:
    """The labels that a model gives an image, without noise."""
    with torch.no_grad():
        scores = torch.nn.functional.interpolate(model(x[None]), x.shape[-2:], mode="bilinear")
    return scores[0].argmax(0).numpy()


if __name__ == "__main__":
    x, robust, ordinary = photograph(), sc.models.load("pets"), sc.models.load("pets-non-robust")
    certificate = sc.certify(robust, x, sigma=0.25, tau=0.75, n=100, n0=10, alpha=0.001, seed=0)

    before = labels_of(ordinary, x)
    attacked = pgd(ordinary, x[None], torch.from_numpy(before)[None], L2(certificate.radius), steps=60).x[0]
    after = labels_of(ordinary, attacked)
    aimed = attack_smoothed(robust, x, certificate, steps=10, draws=8, seed=0).x[0]
    moved = max(recount(robust, each, certificate, n=100, seed=1).moved for each in (attacked, aimed))

    grey, flipped = x.mean(0).numpy(), before != after
    panels = {
        "the attacked photograph": attacked.permute(1, 2, 0).numpy(),
        f"ordinary model: {percent(float(flipped.mean()))} of the labels change": painted(
            grey, np.where(flipped, CHANGED, after), COLOURS
        ),
        f"certified: {moved or 'none'} of {certificate.certified:,} labels change": painted(
            grey, certificate.labels, COLOURS
        ),
    }
    figure = Figure(figsize=(12, 3.45), layout="constrained")
    for axes, (title, image) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axes.imshow(image)
        axes.set_title(title, fontsize=12.5)
        axes.axis("off")
    shown = {CAT: "cat", BACKGROUND: "background", CHANGED: "changed by the attack"}
    tints = TINT * COLOURS + (1 - TINT) * grey.mean()
    swatches = [Patch(facecolor=tuple(tints[label]), label=name) for label, name in shown.items()]
    swatches.append(Patch(facecolor="white", edgecolor="black", hatch="///", label="abstained: nothing is promised"))
    figure.legend(handles=swatches, loc="outside lower center", ncols=4, frameon=False, fontsize=12)
    figure.savefig("attack.png", dpi=110)
    print(certificate.claim)
    print(f"The attack changed {flipped.sum():,} of {flipped.size:,} labels of the ordinary model.")
    print(f"Attacks within R moved {moved} of {certificate.certified:,} certified labels, by 100 fresh draws each.")
