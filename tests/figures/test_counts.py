"""Pictures of counts: votes, values of a metric, radii."""

import numpy as np

import segcertify as sc
from segcertify.figures.counts import metric_figure, radii_histogram, votes_figure


def votes(shape, **more):
    rng = np.random.default_rng(0)
    return sc.Votes(
        rng.integers(0, 2, shape), rng.choice([60, 100], shape), n=100, n0=1, noise=sc.Gaussian(0.25), **more
    )


def test_votes_of_pixels():
    mask = np.ones((6, 8), bool)
    mask[0] = False
    found = votes((6, 8), mask=mask)
    labels, agreement, counts, _ = votes_figure(found, names=("a", "b")).axes
    assert (labels.images[0].get_array()[0] == 1).all()  # white: not tested
    share = agreement.images[0].get_array()
    np.testing.assert_array_equal(share[1:], found.agree[1:] / 100)
    assert share[0].mask.all() or np.isnan(share[0]).all()
    assert sum(bar.get_height() for bar in counts.patches) == 40
    assert "claim nothing by themselves" in votes_figure(found).get_suptitle()


def test_votes_of_others_are_counted():
    (axes,) = votes_figure(votes((30,))).axes
    assert sum(bar.get_height() for bar in axes.patches) == 30


def test_a_metric_and_its_bounds():
    values = np.random.default_rng(0).random(200)
    options = {"radius": 0.05, "share": 0.5, "alpha": 0.001, "noise": sc.Gaussian(0.25)}
    found = sc.MetricCertificate(metric="miou", values=values, two_sided=True, **options)
    (axes,) = metric_figure(found).axes
    assert [line.get_xdata()[0] for line in axes.lines] == [found.bound, found.upper]
    assert axes.get_title().startswith("at least 0.")
    assert ", at most 0." in axes.get_title()
    few = sc.MetricCertificate(metric="miou", values=values[:3], **options)
    assert metric_figure(few).axes[0].get_title() == "no bound"


def test_radii_of_components_that_are_no_pixels():
    found = sc.RadiusMap.of(votes((30,)), alpha=0.001)
    (axes,) = radii_histogram(found).axes
    radius, share = axes.lines[0].get_data()
    assert share[radius > 0].max() == found.certified / found.N
