"""Pictures: colours, palettes, panels."""

import numpy as np
import pytest
from PIL import Image

from segcertify import ABSTAIN, Gaussian, InputError, Votes, certify_votes
from segcertify.data.images.reading import read_label
from segcertify.figures.image import certified_figure, save_figure, save_labels
from segcertify.figures.palette import colour, palette


@pytest.mark.parametrize("classes", [1, 3, 10, 19, 59, 150])
def test_colours_differ_and_are_never_white(classes):
    colours = palette(classes)
    assert colours.shape == (classes, 3)
    assert len({tuple(row.round(3)) for row in colours}) == classes
    assert (colours.min(1) < 0.9).all()


def test_abstentions_are_white():
    image = colour(np.array([[0, ABSTAIN], [2, 1]]))
    assert (image[0, 1] == 1).all()
    np.testing.assert_array_equal(image[1, 0], palette(3)[2])


def test_label_png(tmp_path):
    labels = np.array([[0, ABSTAIN, 254], [2, 1, 0]])
    save_labels(labels, tmp_path / "deep" / "a.png")
    with Image.open(tmp_path / "deep" / "a.png") as image:
        assert np.asarray(image).tolist() == [[0, 255, 254], [2, 1, 0]]
        rgb = np.asarray(image.convert("RGB"))
    assert rgb[0, 1].tolist() == [255, 255, 255]
    np.testing.assert_allclose(rgb[1, 0] / 255, palette(3)[2], atol=0.003)
    save_labels(np.array([[255, ABSTAIN, 65534]]), tmp_path / "b.png")
    assert read_label(tmp_path / "b.png").tolist() == [[255, 65535, 65534]]
    with pytest.raises(InputError, match="holds the labels 0 to 65534 and ABSTAIN, but a label is 65535"):
        save_labels(np.array([[65535]]), tmp_path / "c.png")


@pytest.mark.parametrize("with_target", [False, True])
def test_panels(tmp_path, with_target):
    rng = np.random.default_rng(0)
    votes = Votes(rng.integers(0, 3, (20, 30)), rng.integers(80, 101, (20, 30)), n=100, n0=1, noise=Gaussian(0.25))
    certificate = certify_votes(votes, tau=0.75, alpha=0.001, correction="bh" if with_target else "holm")
    target = rng.integers(-1, 3, (20, 30)) if with_target else None
    x = rng.random((3, 20, 30))
    figure = certified_figure(x, votes.candidate, certificate, target=target, names=("sky", "road", "car"))
    titles = [axes.get_title() for axes in figure.axes]
    assert len(titles) == 3 + with_target
    assert f"{certificate.abstained.mean():.1%} abstained" in titles[-1]
    words = " ".join(figure.get_supxlabel().split())
    assert words == certificate.claim_about("the coloured pixels")
    assert "l2 norm at most 0.168622" in words
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["sky", "road", "car"]
    save_figure(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 5000
