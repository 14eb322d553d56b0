"""Radius maps: what they claim, and files that hold them."""

from dataclasses import replace

import numpy as np
import pytest

import segcertify as sc
from segcertify.claims import capped_words
from segcertify.preprocessing import of_image
from segcertify.storage import archive

NOISE = sc.Gaussian(0.25)


def votes(**changes):
    agree = np.random.default_rng(0).integers(30, 101, (12, 16))
    settings = {"n": 100, "n0": 10, "noise": NOISE, "input_shape": (3, 12, 16), "seed": 3, "input_id": "photo"}
    return sc.Votes(np.ones((12, 16), int), agree, **settings | changes)


def test_a_map_is_radius_map_rounded_down():
    for cap in (None, 0.75, 0.9):
        found, exact = sc.RadiusMap.of(votes(), alpha=0.01, cap=cap), sc.radius_map(votes(), alpha=0.01, cap=cap)
        assert (found.radii <= exact).all()
        np.testing.assert_allclose(found.radii, exact, rtol=1e-6)
        assert np.array_equal(found.labels, np.where(exact > 0, 1, sc.ABSTAIN))
        assert found.certified == np.count_nonzero(exact)
    assert found.radius <= NOISE.radius(0.9)


def test_the_claim_says_cap_looks_and_the_files_units():
    found = sc.RadiusMap.of(votes(preprocessing=of_image((24, 32), (12, 16), "box")), alpha=0.01, cap=0.75)
    assert "With probability at least 1 - 0.01 over the noise draws" in found.claim
    assert f"the {found.certified} components of 192 tested ones that have a radius above 0" in found.claim
    assert "each under every perturbation of l2 norm at most its own radius" in found.claim
    assert capped_words(0.75) in found.claim
    assert "In the units of the file the largest is 0.3372" in found.claim
    looked = votes(looks=(50, 100), earlier={50: votes().agree // 2})
    assert "each at alpha / 2" in sc.RadiusMap.of(looked, alpha=0.01, cap=0.75).claim
    nothing = replace(votes(), agree=np.zeros((12, 16), int))
    assert sc.RadiusMap.of(nothing, alpha=0.01, cap=0.75).claim.startswith("Nothing is certified: all 192 tested")


def test_a_file(tmp_path):
    found = sc.RadiusMap.of(votes(), alpha=0.01, cap=0.9)
    found.save(tmp_path / "a")
    again = sc.RadiusMap.load(tmp_path / "a")
    assert np.array_equal(again.radii, found.radii)
    assert np.array_equal(again.labels, found.labels)
    assert (again.claim, again.cap, again.seed, again.date) == (found.claim, 0.9, 3, found.date)
    with pytest.raises(sc.InputError):
        sc.Certificate.load(tmp_path / "a")
    header, arrays = archive.read(tmp_path / "a", kind="radius-map", version=1)
    for wrong, kept in (({"alpha": 7.0}, arrays), ({"noise": {}}, arrays), ({}, {"labels": arrays["labels"]})):
        archive.write(tmp_path / "b", kind="radius-map", version=1, header=header | wrong, arrays=kept)
        with pytest.raises(sc.InputError, match=r"b is not a complete radius map \(.*\): make it again"):
            sc.RadiusMap.load(tmp_path / "b")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radii": np.full((12, 16), 9.0), "labels": np.ones((12, 16), int)}, "the cap 0.9 allows radii up to 0.32"),
        ({"radii": np.full((12, 16), 9.0), "labels": np.ones((12, 16), int), "cap": None}, "n=100 draws prove radii"),
        ({"norm": "l7"}, "l7"),
        ({"cap": 0.4}, "cap must lie in"),
        ({"radii": np.full((12, 16), -1.0)}, "radii must be finite, not negative"),
        ({"radii": np.zeros((12, 16))}, "labels must be ABSTAIN exactly where the radius is 0"),
        ({"alpha": 2.0}, "alpha must lie in"),
    ],
)
def test_what_no_map_can_be(changes, message):
    with pytest.raises(sc.InputError, match=message):
        replace(sc.RadiusMap.of(votes(), alpha=0.01, cap=0.9), **changes)
