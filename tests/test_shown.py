"""What votes and certificates have for notebooks: a figure and a card, without loading their layers before."""

import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import segcertify as sc
from segcertify.shown import Shown

EVIL = '<img src=x onerror="alert(1)"><script>alert(2)</script>'


def results(shape=(6, 8), **about):
    """One result of each kind."""
    rng = np.random.default_rng(0)
    candidate, agree = rng.integers(0, 3, shape), rng.choice([55, 90, 100], shape)
    counts = np.stack([np.where(candidate == c, agree, (candidate == (c + 1) % 3) * (100 - agree)) for c in range(3)])
    votes = sc.Votes(
        candidate, agree, n=100, n0=10, noise=sc.Gaussian(0.25), counts=counts, classes=3, **about
    )  # fmt: skip
    metric = sc.MetricCertificate(
        metric="area of <b>", values=rng.random(100), radius=0.1, share=0.5, alpha=0.001, noise=votes.noise,
        two_sided=True, **about,
    )  # fmt: skip
    return [
        votes, sc.certify_votes(votes, tau=0.75, alpha=0.001), sc.RadiusMap.of(votes, alpha=0.001),
        sc.certify_sets(votes, tau=0.75, alpha=0.001), metric,
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [(6, 8), (30,), (3, 4, 5), (2, 3, 4, 5), ()])
@pytest.mark.parametrize("index", range(5))
def test_every_result_of_every_shape_has_a_figure_and_a_card(index, shape):
    found = results(shape)[index]
    assert isinstance(found, Shown)
    assert found.plot()._repr_png_().startswith(b"\x89PNG")
    text = found._repr_html_()
    assert text == sc.as_html(found)
    assert ("<img" in text) == (len(shape) == 2 and index != 4)
    assert not re.search("<script|<style|onerror|javascript:|http", text)


def test_markup_in_names_is_text():
    about = {"input_id": EVIL, "input_shape": (3, 6, 8)}
    for found in results(**about):
        text = found._repr_html_()
        assert "<script" not in text
        assert "<img src=x" not in text
        assert "<b>" not in text
    assert "&lt;img src=x onerror=" in text
    assert "area of &lt;b&gt;" in text
    replace(found, metric="$\\frac{").plot()._repr_png_()  # no formula


def test_a_card_says_the_exact_claim():
    for found in results()[1:]:
        assert sc.as_html(found).count("With probability at least 1 - 0.001") == 1
        assert found.claim.split("under every")[0][:60] in sc.as_html(found)
    assert "Votes claim nothing by themselves" in sc.as_html(results()[0])


def test_cards_are_small_and_need_no_matplotlib_nor_torch():
    code = """
import sys
import numpy as np, segcertify as sc
rng = np.random.default_rng(0)
votes = sc.Votes(rng.integers(0, 19, (1024, 2048)), rng.integers(0, 101, (1024, 2048)), n=100, n0=10,
                 noise=sc.Gaussian(0.25))
assert not hasattr(sc.Votes, "figure") and "segcertify.figures" not in sys.modules
certificate = sc.certify_votes(votes, tau=0.75, alpha=0.001)
print(max(len(each._repr_html_()) for each in (votes, certificate)) < 120_000,
      [name for name in ("torch", "matplotlib", "pandas") if name in sys.modules])
"""
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == "True []"
