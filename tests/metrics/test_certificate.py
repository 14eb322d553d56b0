"""Metric certificates: their words, files, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import segcertify as sc
from segcertify.storage import archive

VALUES = np.random.default_rng(0).permutation(np.linspace(0.8, 0.9, 200))


def certificate(**changes):
    settings = {"metric": "accuracy", "values": VALUES, "radius": 0.1, "share": 0.5, "alpha": 0.001}
    return sc.MetricCertificate(**settings | {"noise": sc.Gaussian(0.25), "seed": 7} | changes)


def test_the_claim_says_what_holds_and_of_what():
    words = certificate().claim
    assert "With probability at least 1 - 0.001 over the noise draws" in words
    assert (
        "under every perturbation of l2 norm at most 0.1, at least 50% of the noisy runs have accuracy >= 0.8" in words
    )
    assert 'the randomised predictor "one noisy run"' in words
    assert "not about the voted map" in words
    assert "input, model and metric were fixed before the seed was chosen" in words
    assert "assumes" not in certificate(seed_given=False).claim
    both = certificate(metric="volume", two_sided=True)
    assert f"volume between {np.floor(both.bound * 1e4) / 1e4:.4f} and" in both.claim
    assert "Nothing is claimed of accuracy" in certificate(values=VALUES[:10]).claim
    assert "channels [0] of axis 0" in certificate(noise=sc.Gaussian(0.25, channels=(0,))).claim


def test_bounds_are_rounded_outward_in_words():
    found = certificate(values=np.full(200, 0.81239), two_sided=True)
    assert "between 0.8123 and 0.8124" in found.claim
    assert (
        "area between 12,345 and 12,345."
        in certificate(metric="area", values=np.full(200, 12345.0), two_sided=True).claim
    )


def test_the_bound_does_not_depend_on_the_order_and_is_monotone():
    found = certificate()
    assert found.n == 200
    assert certificate(values=np.sort(VALUES)).bound == found.bound
    assert found.upper is None
    for harder in ({"radius": 0.2}, {"share": 0.7}, {"alpha": 1e-4}, {"two_sided": True}):
        assert certificate(**harder).bound < found.bound
    assert certificate(noise=sc.Gaussian(0.25), norm="linf", radius=0.05, input_shape=(4,)).bound == found.bound


def test_files(tmp_path):
    made = certificate(two_sided=True, model={"weights": "ab"}, input_shape=(3, 4), input_digest="cd", input_id="x")
    made.save(tmp_path / "metric.safetensors")
    again = sc.MetricCertificate.load(tmp_path / "metric.safetensors")
    for name in made.__dataclass_fields__:
        assert np.array_equal(getattr(again, name), getattr(made, name)), name
    assert (again.bound, again.upper, again.claim) == (made.bound, made.upper, made.claim)
    content = bytearray((tmp_path / "metric.safetensors").read_bytes())
    content[-3] ^= 1  # of the last value
    (tmp_path / "changed.safetensors").write_bytes(content)
    with pytest.raises(sc.InputError, match="does not agree with its integrity digest"):
        sc.MetricCertificate.load(tmp_path / "changed.safetensors")
    header, arrays = archive.read(tmp_path / "metric.safetensors", kind="metric-certificate", version=1)
    for wrong in ({"share": 2}, {"two_sided": 1}, {"radius": -1}, {"metric_name": "x"}, {"noise": {"type": "Cauchy"}}):
        archive.write(tmp_path / "w", kind="metric-certificate", version=1, header=header | wrong, arrays=arrays)
        with pytest.raises(sc.InputError, match="not a complete metric certificate"):
            sc.MetricCertificate.load(tmp_path / "w")
    with pytest.raises(sc.InputError, match=r"holds 'segcertify\.metric-certificate'"):
        sc.Certificate.load(tmp_path / "metric.safetensors")


def test_values_are_read_only_and_finite():
    found = certificate()
    with pytest.raises(ValueError, match="read-only"):
        found.values[0] = 1
    with pytest.raises(AttributeError):
        found.radius = 0.0
    for values in ([], [[1.0]], [np.nan], [np.inf]):
        with pytest.raises(sc.InputError, match="a row of finite numbers"):
            certificate(values=values)
    with pytest.raises(sc.InputError, match="knows no proof"):
        certificate(noise=type("Own", (sc.Gaussian,), {})(0.25))
    assert replace(found, radius=0.05).bound > found.bound  # nothing of the old one stays
    assert "accuracy: at least 0.8" in repr(found)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.5, np.nan])
def test_alpha_is_a_probability(alpha):
    with pytest.raises(sc.InputError, match="alpha must"):
        certificate(alpha=alpha)
