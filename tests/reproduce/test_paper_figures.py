"""Figures 3 and 4: the paper's points, as its authors' script has them, beside ours."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from segcertify.data import load
from segcertify.reproduce.comparison import reproduce
from segcertify.reproduce.paper_figures import series_of, sweep_figure, sweep_notes
from segcertify.reproduce.paper_tables import SWEPT, paper_table
from segcertify.stats.binomial import p_values

GRID = [0.5, 0.6, 0.7, 0.8, 0.9, 0.92, 0.925]


def test_figure_3_has_the_papers_grid_and_points():
    series = {each.sigma: each for each in series_of(paper_table("tau-sweep"))}
    assert {sigma: each.taus for sigma, each in series.items()} == {
        0.25: GRID, 0.33: GRID, 0.5: [0.91 if tau == 0.92 else tau for tau in GRID],
    }  # fmt: skip
    assert {each.n for each in series.values()} == {300}
    assert series[0.25].accuracy == [0.861274, 0.853144, 0.844728, 0.832232, 0.833351, 0.832145, 0.0]
    for each in series.values():
        table = {(row.setting.sigma, row.setting.n, row.setting.tau): row for row in paper_table("table1-extended").rows
                 if row.setting and row.head == "0.25"}  # fmt: skip
        printed = table[each.sigma, 300, 0.9].numbers("cityscapes")["acc"]  # the extended table has this point
        assert each.accuracy[each.taus.index(0.9)] == pytest.approx(printed, abs=0.0051)


def test_the_notes_of_figure_3_are_computed():
    text = " ".join(sweep_notes(paper_table("tau-sweep")))
    assert "by up to 0.0011 (sigma = 0.25, tau = 0.8)" in text
    N, p = 1024 * 2048, p_values(300, 0.925)[300]
    assert 0.0001 / N < p <= 0.001 / N  # alpha = 0.001 could certify at tau = 0.925, alpha = 0.0001 could not
    assert p_values(300, 0.92)[300] <= 0.0001 / N  # and at 0.92 both could
    assert f"0.925^300 = {p:.3g}" in text
    for number in ("6.96e-11", "N = 2,097,152", "4.77e-10", "4.77e-11", "fits alpha = 0.0001"):
        assert number in text


def test_the_stated_alpha_explains_the_fall_of_figure_4():
    assert not any("fall" in note or "raises" in note for note in sweep_notes(paper_table("tau-sweep-clouds")))


def halves():
    return lambda batch: (batch[..., 0] > 0).long()


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    """Figure 4 of a quick model on one small shape."""
    out, table, scenes = (
        tmp_path_factory.mktemp("out"),
        paper_table("tau-sweep-clouds"),
        load("shapes:?count=1&points=16"),
    )
    models = dict.fromkeys(table.models, halves)
    reproduce(table, lambda normals: scenes, models=models, out=out)
    return sweep_figure(table, out, table.models)


def test_figure_4_tells_both_n_apart_and_draws_the_papers_points(figure, tmp_path):
    axes = figure.axes[0]
    lines = {
        text.get_text(): line
        for text, line in zip(figure.legends[0].get_texts(), figure.legends[0].get_lines(), strict=True)
    }
    assert len(lines) == 8
    looks = {(to_hex(line.get_color()), line.get_marker()) for name, line in lines.items() if "ours" in name}
    assert len(looks) == 4
    assert all((line.get_markerfacecolor() == "none") == ("paper" in name) for name, line in lines.items())
    drawn = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    for each, line in zip(series_of(paper_table("tau-sweep-clouds")), drawn, strict=True):
        np.testing.assert_allclose(line.get_xdata(), each.radii)
        np.testing.assert_allclose(line.get_ydata(), each.accuracy)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("l2 radius R", "certified accuracy")
    figure.savefig(tmp_path / "figure.png")


def test_labels_do_not_overlap(figure):
    """The tau above the axes, the legend, the title and the names of the axes have room of their own."""
    figure.draw_without_rendering()
    axes = figure.axes[0]
    texts = [label for each in axes.child_axes for label in each.get_xticklabels()]
    texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label, *figure.legends[0].get_texts(), figure._suptitle]
    boxes = [text.get_window_extent().padded(-1.0) for text in texts]
    for i, box in enumerate(boxes):
        assert not [texts[j].get_text() for j in range(i) if box.overlaps(boxes[j])], texts[i].get_text()


def test_every_swept_table_is_tested():
    assert tuple(SWEPT) == ("tau-sweep", "tau-sweep-clouds")
