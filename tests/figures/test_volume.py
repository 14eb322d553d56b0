"""Pictures of volumes: the middle slices of three axes, their labels and their proportions."""

from dataclasses import replace

import numpy as np
import pytest

from segcertify import ABSTAIN, Gaussian, InputError, Votes, certify_votes
from segcertify.figures.painting import DARK, SIDE, TINT
from segcertify.figures.palette import palette
from segcertify.figures.volume import as_grey, slices_figure
from segcertify.preprocessing import of_volume


@pytest.fixture
def certificate():
    rng = np.random.default_rng(0)
    candidate, agree = rng.integers(0, 3, (4, 6, 8)), rng.choice([60, 100], (4, 6, 8))
    votes = Votes(candidate, agree, n=100, n0=1, noise=Gaussian(0.25), preprocessing=of_volume([1.0, 2.0, 4.0]))
    return certify_votes(votes, tau=0.75, alpha=0.001)


def test_each_axis_shows_its_middle_slice(certificate):
    x, labels = np.random.default_rng(1).random((2, 4, 6, 8)), certificate.labels
    figure = slices_figure(x, np.maximum(labels, 0), certificate, target=labels, names=("air", "bone", "fat"))
    assert [axes.get_title() for axes in figure.axes[:4]] == [
        "input", "ground truth", "base model, no guarantee",
        f"certified: {1 - certificate.abstained.mean():.1%}",
    ]  # fmt: skip
    rows = [axes.get_ylabel() for axes in figure.axes[::4]]
    assert rows == ["axis 1, slice 2 of 4", "axis 2, slice 3 of 6", "axis 3, slice 4 of 8"]
    for row, (slices, aspect) in enumerate([(labels[2], 0.5), (labels[:, 3], 0.25), (labels[:, :, 4], 0.5)]):
        axes = figure.axes[4 * row + 3]
        shown = axes.images[0].get_array()
        times = SIDE // max(slices.shape)
        assert shown.shape[:2] == (times * slices.shape[0], times * slices.shape[1])
        large = slices.repeat(times, 0).repeat(times, 1)
        assert set(np.unique((shown < TINT * DARK + 1 - TINT).all(-1)[large == ABSTAIN])) == {False, True}
        assert axes.get_aspect() == aspect
        grey = figure.axes[4 * row].images[0].get_array().repeat(times, 0).repeat(times, 1)[large == 1]
        np.testing.assert_allclose(shown[large == 1], TINT * palette(3)[1] + (1 - TINT) * grey)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "air", "bone", "fat", "abstained: nothing is promised", "ignored", "certified but wrong: 0 (0.0%)",
    ]  # fmt: skip
    assert "".join(figure.get_supxlabel().split()) == "".join(
        certificate.claim_about("the coloured voxels").split()
    )  # fmt: skip


def test_classes_without_names_have_numbers(certificate):
    figure = slices_figure(np.zeros((1, 4, 6, 8)), np.zeros((4, 6, 8), int), replace(certificate, preprocessing=None))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "class 0", "class 1", "class 2", "abstained: nothing is promised",
    ]  # fmt: skip
    assert {axes.get_aspect() for axes in figure.axes} == {1.0}


def test_grey_ignores_a_few_bright_voxels():
    x = np.zeros((1, 10, 10, 10))
    x[0, 5:] = 0.5
    x[0, 0, 0, 0] = 3000.0  # metal
    grey = as_grey(x, x.shape[1:])
    assert grey.min() == 0
    assert (grey[5:] == 1).all()
    assert (as_grey(np.full((2, 3, 3, 3), 7.0), (3, 3, 3)) == 0).all()


def test_another_shape_is_refused(certificate):
    with pytest.raises(InputError, match=r"has voxels \(4, 6, 8\) here, but x is \(4, 6, 8\)"):
        slices_figure(np.zeros((4, 6, 8)), certificate.labels, certificate)
