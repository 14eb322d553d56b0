"""Pictures: colours, palettes, panels."""

import math

import numpy as np
import pytest
from PIL import Image

from segcertify import ABSTAIN, Gaussian, InputError, Votes, certify_votes
from segcertify.data.images.reading import read_label
from segcertify.figures.image import certified_figure, save_figure, save_labels
from segcertify.figures.palette import palette


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
    assert titles[-1] == f"{certificate.claimed.heading}: {1 - certificate.abstained.mean():.1%}"
    exact, above = (" ".join(text.split()) for text in (figure.get_supxlabel(), figure.get_suptitle()))
    claim = certificate.claim_about("the coloured pixels")
    assert (above, exact) == ((claim, "") if with_target else (certificate.sentence, claim))  # bh has no plain words
    assert "l2 norm at most 0.168622" in claim
    entries = ["sky", "road", "car", "abstained: nothing is promised"]
    if with_target:
        wrong = ((certificate.labels != target) & (certificate.labels >= 0) & (target >= 0)).sum()
        share = math.ceil(1000 * wrong / (target >= 0).sum()) / 10  # no share of wrong labels is rounded down
        entries += ["ignored", f"labelled but wrong: {wrong} ({share}%)"]  # bh certifies nothing
    assert [text.get_text() for text in figure.legends[0].get_texts()] == entries
    save_figure(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 5000
