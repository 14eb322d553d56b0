"""Panels: maps of labels under their titles, names on large regions, one legend."""

import numpy as np

from segcertify import ABSTAIN, Gaussian, Votes, certify_votes
from segcertify.figures.painting import BLANK, WRONG
from segcertify.figures.panels import LabelMaps, heading, name_regions, panel_figure
from segcertify.figures.texts import tell

NAMES = ("sky", "a very long name of a road", "$car$")


def certificate():
    agree = np.where(np.arange(30) < 20, 100, 50) * np.ones((20, 1), int)
    votes = Votes(np.ones((20, 30), int), agree, n=100, n0=1, noise=Gaussian(0.25))
    return certify_votes(votes, tau=0.75, alpha=0.001)


def test_maps_beside_a_certificate():
    cert, target = certificate(), np.zeros((20, 30), int)
    target[:10], target[:, 0] = 1, -1
    shown = LabelMaps.of(cert, prediction=np.zeros((20, 30), int), target=target, colours=None, names=NAMES)
    assert [*shown.maps] == ["ground truth", "base model, no guarantee", "certified: 66.7%"]
    assert (shown.maps["ground truth"][:, 0] == BLANK).all()
    assert shown.wrong.sum() == 10 * 19
    pictures = shown.painted(np.full((20, 30), 0.5))
    outlined = [(each == WRONG).all(-1).any() for each in pictures.values()]
    assert outlined == [False, False, True]
    said = [name for name, _ in shown.entries(0.5)]
    assert said == [
        *NAMES[:2], "abstained: nothing is promised", "ignored", "certified but wrong: 190 (32.8%)",
    ]  # fmt: skip
    assert len(LabelMaps({"": np.zeros((2, 2), int)}, None, NAMES).entries(None)) == 1


def test_a_heading_gives_a_share_of_the_tested():
    assert heading(certificate()) == "certified: 66.7%"


def test_names_stand_on_regions_where_they_fit():
    labels = np.zeros((60, 90), int)
    labels[:, 60:], labels[:4, :8] = 1, 2
    figure = panel_figure({"labels": labels / 2}, labels.shape, rows=1, width=4)
    name_regions(figure.axes[0], labels, NAMES)
    (text,) = figure.axes[0].texts
    column, row = text.get_position()
    assert text.get_text() == "sky"
    assert labels[int(row), int(column)] == 0
    assert not text.get_parse_math()
    wide = panel_figure({"labels": labels / 2}, labels.shape, rows=1, width=12)
    name_regions(wide.axes[0], labels, NAMES)
    assert [each.get_text() for each in wide.axes[0].texts] == ["sky", NAMES[1]]
    name_regions(panel_figure({"": labels}, labels.shape, rows=1).axes[0], np.full((3, 3), ABSTAIN), NAMES)


def test_nothing_overlaps():
    entries = LabelMaps({"": np.arange(12).reshape(3, 4)}, None, [f"class number {i}" for i in range(12)]).entries(None)
    for said, exact in (("What is proved. " * 30, "Exactly this. " * 60), ("", "No plain words. " * 20)):
        for chosen in (entries, entries[:2], []):
            figure = panel_figure({"a": np.zeros((30, 40, 3)), "b": np.zeros((30, 40, 3))}, (30, 40), rows=1)
            tell(figure, chosen, said=said, exact=exact)
            figure.draw_without_rendering()
            renderer = figure.canvas.get_renderer()
            boxes = [each.get_tightbbox(renderer) for each in (figure._suptitle, *figure.legends, *figure.axes)]
            boxes += [figure._supxlabel.get_tightbbox(renderer)] * bool(said)
            assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
            assert all(box.x0 >= 0 and box.y0 >= 0 for box in boxes)
            assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
