"""Pictures of radius maps."""

import numpy as np

import segcertify as sc
from segcertify.figures.radii import radii_figure


def test_a_figure_states_the_claim_and_the_scale(tmp_path):
    agree = np.tile(np.arange(85, 101), (12, 1))
    votes = sc.Votes(np.ones((12, 16), int), agree, n=100, n0=10, noise=sc.Gaussian(0.25), input_shape=(3, 12, 16))
    found = sc.RadiusMap.of(votes, alpha=0.01, cap=0.75)
    figure = radii_figure(np.full((3, 12, 16), 0.5), found, names=("road", "$car$"))
    figure.savefig(tmp_path / "radii.png")
    text = figure.get_supxlabel().replace("\n", " ")
    assert "at most its own radius" in text
    assert "No radius exceeds that of the cap 0.75" in text
    shown = figure.axes[2].get_images()[-1]
    assert np.array_equal(np.asarray(shown.get_array()), found.radii)
    assert shown.get_clim() == (0, found.radius)
    nothing = ["nothing is certified here"] * bool((found.labels < 0).any())
    assert [each.get_text() for each in figure.legends[0].get_texts()] == ["$car$", *nothing]
