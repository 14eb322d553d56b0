"""Pictures of sets: what is certified, what is striped, what is white."""

import numpy as np

import segcertify as sc
from segcertify.figures.painting import DARK
from segcertify.figures.palette import palette
from segcertify.figures.sets import sets_figure, sets_image, sizes_image

NOISE = sc.Gaussian(0.25)


def quadrants(side=16):
    """Certified 0, {0, 1}, only 1 by exclusion, {0, 1, 2}."""
    labels, sets = np.full((side, side), -1, np.int32), np.zeros((3, side, side), bool)
    half = side // 2
    labels[:half, :half] = 0
    sets[0, :half] = sets[1, :half, half:] = sets[1, half:] = True
    sets[:, half:, half:] = True
    radius = NOISE.radius(0.75)
    return sc.SetCertificate(sets, labels, radius, "l2", 0.75, 0.01, "holm", 100, 0, NOISE, side**2, classes=3)


def test_colours_tell_certified_two_labels_and_exclusion_apart():
    image, table = sets_image(quadrants(), palette(3)), palette(3)

    half = len(image) // 2

    def seen(part):
        return {tuple(pixel) for pixel in part.reshape(-1, 3).tolist()}

    zero, one, white = tuple(table[0]), tuple(table[1]), (1.0, 1.0, 1.0)
    assert seen(image[:half, :half]) == {zero}
    assert seen(image[:half, half:]) == {zero, one}
    assert seen(image[half:, :half]) == {one, white}
    assert seen(image[half:, half:]) == {white, (DARK, DARK, DARK)}


def test_sizes_are_grey():
    sizes = sizes_image(quadrants())[..., 0]
    assert sizes[0, 0] == sizes[15, 0] == 1
    assert 0 < sizes[15, 15] < sizes[0, 15] < 1


def test_a_figure_states_the_claim(tmp_path):
    x = np.random.default_rng(0).random((3, 16, 16))
    figure = sets_figure(x, quadrants(), names=("road", "pavement", "car"))
    figure.savefig(tmp_path / "sets.png")
    text = figure.get_supxlabel().replace("\n", " ")
    assert "is in its set" in text
    assert "this label or no majority" in text


def test_names_are_drawn_as_they_are():
    figure = sets_figure(np.zeros((3, 16, 16)), quadrants(), names=("_hidden", "$x$", "car"))
    legend = figure.legends[0].get_texts()
    assert [text.get_text() for text in legend] == ["_hidden", "$x$", "_hidden or $x$ 25.0%", "more labels"]
    assert not any(text.get_parse_math() for text in legend)


def test_a_set_of_two_labels_has_its_groups_name():
    figure = sets_figure(np.zeros((3, 16, 16)), quadrants(), names=("cat", "dog", "background"))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["cat", "dog", "animal 25.0%", "more labels"]


def test_a_legend_of_long_names_fits_into_the_figure():
    labels = np.repeat(np.arange(8, dtype=np.int32), 32).reshape(16, 16)
    sets = np.arange(8)[:, None, None] == labels
    radius = NOISE.radius(0.75)
    certificate = sc.SetCertificate(sets, labels, radius, "l2", 0.75, 0.01, "holm", 100, 0, NOISE, 256, classes=8)
    figure = sets_figure(
        np.zeros((3, 16, 16)), certificate, names=[f"a barrier beside the motorway {c}" for c in range(8)]
    )
    figure.draw_without_rendering()
    assert figure.legends[0].get_window_extent().width <= figure.bbox.width
