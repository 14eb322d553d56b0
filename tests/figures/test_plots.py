"""`plot`: which figure a result gets, from its kind, its shape and what lies beside it."""

import numpy as np
import pytest
import torch

import segcertify as sc
from segcertify.figures.painting import SIDE
from segcertify.figures.palette import palette

NAMES = ("sky", "road", "car")


def certificate(shape, **options):
    rng = np.random.default_rng(0)
    votes = sc.Votes(rng.integers(0, 3, shape), rng.choice([60, 100], shape), n=100, n0=1, noise=sc.Gaussian(0.25))
    return sc.certify_votes(votes, tau=0.75, alpha=0.001, **options)


def titles(figure):
    return [axes.get_title() for axes in figure.axes]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def alone_in(figure):
    """The colours (6, 8, 3) of labels that stand alone, which are enlarged."""
    return figure.axes[0].images[0].get_array()[:: SIDE // 8, :: SIDE // 8]


def test_an_image_with_what_lies_beside_it():
    cert, labels = certificate((6, 8)), np.zeros((6, 8), np.int64)
    alone = f"certified: {1 - cert.abstained.mean():.1%}"
    assert titles(cert.plot()) == [alone]
    assert titles(cert.plot(np.zeros((3, 6, 8)))) == ["input", alone]
    assert titles(cert.plot(target=labels)) == ["ground truth", alone]
    with_base = cert.plot(torch.zeros(3, 6, 8, requires_grad=True), prediction=torch.zeros(6, 8), names=NAMES)
    assert titles(with_base) == ["input", "base model, no guarantee", alone]
    assert legend(with_base) == [*NAMES, "abstained: nothing is promised"]
    assert legend(cert.plot(names=["sky"]))[:3] == ["class 0", "class 1", "class 2"]  # names of other classes
    assert (alone_in(cert.plot())[cert.labels == 2] == palette(3)[2]).all()
    grey = cert.plot(np.full((6, 8), 0.5)).axes[0].images[0].get_array()
    assert grey.shape == (6, 8, 3)


def test_colours_are_taken():
    table = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    shown = alone_in(certificate((6, 8)).plot(colours=table))
    assert (shown[certificate((6, 8)).labels == 1] == [0, 1, 0]).all()


def test_clouds_volumes_and_others():
    points = np.random.default_rng(1).normal(size=(30, 3))
    assert titles(certificate((30,)).plot(points))[0].startswith("certified")
    cert = certificate((4, 5, 6))
    assert [title for title in titles(cert.plot()) if title] == [
        f"certified: {1 - cert.abstained.mean():.1%}"
    ]  # fmt: skip
    assert titles(cert.plot(np.zeros((1, 4, 5, 6))))[0] == "input"
    bars = certificate((30,)).plot(names=NAMES).axes[0]
    assert {label.get_text() for label in bars.get_yticklabels()} == {*NAMES, "abstained"}
    assert sum(bar.get_width() for bar in bars.patches) == 30


def test_sets_and_radii_with_and_without_the_input():
    counts = np.zeros((3, 6, 8), int)
    counts[0], counts[1] = 60, 40
    votes = sc.Votes(np.zeros((6, 8), int), counts[0], n=100, n0=1, noise=sc.Gaussian(0.25), counts=counts, classes=3)
    sets, radii = sc.certify_sets(votes, tau=0.75, alpha=0.001), sc.RadiusMap.of(votes, alpha=0.001)
    for found in (sets, radii):
        assert "input" not in titles(found.plot())
        assert titles(found.plot(np.zeros((3, 6, 8))))[0] == "input"
        assert titles(found.plot())[0] == titles(found.plot(np.zeros((3, 6, 8))))[1]


def test_what_is_refused():
    with pytest.raises(
        sc.InputError, match=r"x must be the image \(3, 6, 8\) that this is about, but has .*\(3, 5, 8\)"
    ):
        certificate((6, 8)).plot(np.zeros((3, 5, 8)))
    with pytest.raises(sc.InputError, match="cannot plot Gaussian: expected one of Certificate, RadiusMap"):
        sc.plot(sc.Gaussian(0.25))
