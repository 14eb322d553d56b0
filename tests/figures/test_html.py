"""Cards of HTML: what they say, and their thumbnails."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

import segcertify as sc
from segcertify.figures.html import SIDE, as_html, card
from segcertify.figures.palette import palette


def picture(text):
    """The thumbnail in a card, as an array."""
    content = re.search(r'src="data:image/png;base64,([^"]+)"', text)[1]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


def votes(candidate, agree, **more):
    return sc.Votes(np.array(candidate), np.array(agree), n=100, n0=10, noise=sc.Gaussian(0.25), **more)


def test_labels_have_their_colours_and_abstentions_stripes():
    found = sc.certify_votes(votes([[0, 1], [1, 0]], [[100, 100], [50, 100]]), tau=0.75, alpha=0.001)
    text = as_html(found)
    shown = picture(text)
    assert shown[0, 1].tolist() == np.rint(palette(2)[1] * 255).tolist()
    assert len(set(shown[1, 0].tolist())) == 1  # a grey
    assert "Certified: 3 of 4 components (75.0%)" in text
    assert "0.168622 (l2 norm)" in text


def test_a_thumbnail_is_small_and_keeps_proportions():
    shape = (3 * SIDE, SIDE)
    found = sc.certify_votes(votes(np.zeros(shape, int), np.full(shape, 100)), tau=0.75, alpha=0.001)
    assert picture(as_html(found)).shape == (SIDE, SIDE // 3, 3)
    small = as_html(sc.certify_votes(votes([[0, 1]], [[100, 100]]), tau=0.75, alpha=0.001))
    assert f'width="{SIDE}" height="{SIDE // 2}"' in small


def test_agreement_is_a_shade():
    shown = picture(as_html(votes([[0, 0]], [[0, 100]]))).astype(int)
    assert shown[0, 1].sum() > shown[0, 0].sum() + 300


def test_a_guarantee_that_certifies_no_label_says_so():
    found = sc.certify_votes(votes([[0, 1]], [[100, 100]]), tau=0.75, alpha=0.001, correction="by")
    assert "Labelled: 2 of 2" in as_html(found)


class Unproven(sc.Gaussian):
    """A noise of the caller's, whose radius segcertify has not proven."""


def test_a_noise_without_a_proof_has_no_radius_on_any_card():
    counts = np.array([[[100, 100]], [[0, 0]]])
    for noise, shown in ((sc.Gaussian(0.25), True), (Unproven(0.25), False)):
        made = sc.Votes(np.array([[0, 0]]), counts[0], n=100, n0=10, noise=noise, counts=counts)
        cards = [as_html(sc.certify_sets(made, tau=0.75, alpha=0.001)), as_html(sc.RadiusMap.of(made, alpha=0.001))]
        for text in (*cards, as_html(sc.certify_votes(made, tau=0.75, alpha=0.001))):
            assert ("(l2 norm)</td>" in text) == shown
            assert ("No robustness certificate" in text) != shown
        assert ("certified labels" in cards[0]) == shown
        assert (">-</td>" in cards[1]) != shown  # neither the largest radius nor the median


def test_texts_are_escaped():
    text = card("<h>", {"<name>": "<value>"}, "a & b \x1b[31m")
    assert "<h>" not in text
    assert "&lt;name&gt;" in text
    assert "&lt;value&gt;" in text
    assert "a &amp; b \\x1b[31m" in text


def test_what_is_refused():
    with pytest.raises(sc.InputError, match="cannot show Gaussian: expected one of Certificate, RadiusMap"):
        as_html(sc.Gaussian(0.25))
