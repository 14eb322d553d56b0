"""Audits of certificates on models with a known boundary: true ones pass, planted wrong ones are caught.

A true certificate is refuted with probability ``level`` (1e-6) at most; seeds are fixed besides.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom

import segcertify as sc
from segcertify.audit import Audit, audit_certificate, audit_many
from segcertify.audit.certificates import Finding, Perturbed
from segcertify.sampling.streams import DrawStream

pytestmark = pytest.mark.statistical

N = 12
THRESHOLDS = torch.linspace(-0.3, 0.3, N).double()
X = torch.zeros(N).double()
QUICK = {"n": 400, "steps": 10, "seed": 0}


def half_spaces(batch):
    """Logits of vectors: label 1 where entry i exceeds its threshold; the boundary is |threshold| away."""
    score = 40.0 * (batch - THRESHOLDS.to(batch))
    return torch.stack([torch.zeros_like(score), score], 1)


def above_zero(batch):
    """Points of a cloud by the sign of their second coordinate."""
    return torch.stack([torch.zeros_like(batch[..., 1]), 20 * batch[..., 1]], 1)


def circle(points=24):
    angles = torch.linspace(-math.pi, math.pi, points + 1)[:-1].double()
    return torch.stack([angles.cos(), angles.sin(), torch.zeros(points)], 1)


def overstated(certificate, factor=3.0):
    """The same labels at a radius so many times as large; tau must go up too, or the radius is refused at once."""
    noise, wanted = certificate.noise, factor * certificate.radius
    taus = np.linspace(certificate.tau, 1, 10_000, endpoint=False)
    proved = noise.radius(taus, certificate.norm, certificate.input_shape)
    tau = float(taus[np.argmax(proved >= wanted)])
    return replace(certificate, tau=tau, radius=wanted)


CASES = {
    "gaussian": (half_spaces, X, sc.Gaussian(0.25), None),
    "gaussian, linf": (half_spaces, X, sc.Gaussian(0.25), "linf"),
    "gaussian, channels": (half_spaces, X, sc.Gaussian(0.25, channels=tuple(range(10))), None),
    "laplace": (half_spaces, X, sc.Laplace(0.2), None),
    "uniform": (half_spaces, X, sc.Uniform(0.5), None),
    "axis rotation": (above_zero, circle(), sc.AxisRotation(0.3, "z"), None),
    "rotation": (above_zero, circle(), sc.Rotation(0.3), None),
}
every = pytest.mark.parametrize("case", CASES)


def certified(case, **settings):
    model, x, noise, norm = CASES[case]
    return sc.certify(model, x, noise=noise, norm=norm, tau=0.65, n=500, seed=0, **settings)


@every
def test_true_certificates_pass(case):
    model, x, _, _ = CASES[case]
    certificate = certified(case)
    assert certificate.certified >= 4
    finding = audit_certificate(model, x, certificate, **QUICK)
    assert not finding.refuted, finding.verdict
    assert not finding.violated.any()
    assert finding.tests == certificate.certified * len(finding.perturbed) == certificate.certified * 8
    assert "No violation" in finding.verdict


@every
def test_a_planted_radius_three_times_too_large_is_caught(case):
    """Ten times for l-inf, whose radius is far from tight on half-spaces along one entry: thrice is still true."""
    model, x, _, _ = CASES[case]
    wrong = overstated(certified(case), 10 if case == "gaussian, linf" else 3)
    finding = audit_certificate(model, x, wrong, n=2000, steps=10, seed=0)
    assert finding.refuted, finding.verdict
    assert not finding.perturbed[0].violated.any()  # at x itself the labels are right
    assert "refuted" in finding.verdict


def test_levels_in_a_verdict_are_not_rounded_down():
    certificate = replace(certified("gaussian"), alpha=0.0012345674)
    seen = Perturbed("x itself", X, np.zeros_like(certificate.labels), certificate.labels != sc.ABSTAIN)
    finding = Finding(certificate, (seen,), 100, 0.0000012345674)
    assert "at most 1.2345674e-06; a claim may be false with probability 0.0012345674." in finding.verdict
    assert "(Bin(1, 0.00123581): alpha plus" in Audit((finding,)).verdict  # the rate is 0.0012358019...


@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16])
def test_a_double_array_and_a_network_of_another_precision(weights):
    torch.manual_seed(0)
    network = torch.nn.Conv2d(3, 3, 3, padding=1).eval().to(weights)
    x = np.random.default_rng(0).random((3, 8, 8))
    certificate = sc.certify(network, x, sigma=0.02, tau=0.6, n=100, seed=0)
    assert certificate.certified > 20
    finding = audit_certificate(network, x, certificate, n=100, steps=3, seed=0)
    assert len(finding.perturbed) == 8
    assert not finding.refuted, finding.verdict


@pytest.mark.cuda
def test_an_array_and_a_network_on_cuda():
    torch.manual_seed(0)
    network = torch.nn.Conv2d(3, 3, 3, padding=1).eval().cuda()
    x = np.random.default_rng(0).random((3, 8, 8), np.float32)
    certificate = sc.certify(network, x, sigma=0.02, tau=0.6, n=100, seed=0)
    finding = audit_certificate(network, x, certificate, n=100, steps=3, seed=0)
    assert not finding.refuted, finding.verdict
    assert {each.x.device.type for each in finding.perturbed} == {"cpu"}


@pytest.mark.parametrize("case", ["gaussian", "gaussian, linf", "gaussian, channels", "laplace"])
def test_places_are_within_the_radius(case):
    model, x, _, _ = CASES[case]
    certificate = certified(case)
    order = {"l2": 2, "linf": math.inf, "l1": 1}[certificate.norm]
    sizes = [float((each.x - x).norm(order)) for each in audit_certificate(model, x, certificate, **QUICK).perturbed]
    assert sizes[0] == 0
    assert max(sizes) <= certificate.radius
    assert sizes[-1] > 0.99 * certificate.radius  # random directions end on the sphere


def test_labels_planted_from_shared_noise_are_caught():
    """The released sampler's defect: one noise for a whole batch certifies what is no majority at all.

    Our sampler refuses it, so the votes are counted as that code counts them: 110 draws, one noisy input.
    """

    def model(batch):
        return half_spaces(batch / 5)  # probabilities near 1/2, far from tau

    noise, pairs = sc.Gaussian(5.0), []
    for i in range(6):
        shown = model(noise.draw(X, [DrawStream(0, str(i), "candidate", 9)])).argmax(1)[0].numpy()
        votes = sc.Votes(shown, np.full(N, 100), n=100, n0=10, noise=noise, seed=0, input_id=str(i))
        pairs.append((X, sc.certify_votes(votes, tau=0.75, alpha=0.001)))
    assert sum(certificate.certified for _, certificate in pairs) > 20
    audit = audit_many(model, pairs, n=3000, steps=0, seed=0)
    assert audit.refuted >= 4
    assert audit.p_value < 1e-9
    assert f"{audit.refuted} of 6 inputs have a violation" in audit.verdict


def test_many_true_certificates_pass_and_many_wrong_ones_do_not():
    """Bin(5, 0.001 + 1e-6): no refuted one is expected, and five of five have probability 1e-15."""
    pairs = [(X, certified("gaussian", input_id=str(i))) for i in range(5)]
    audit = audit_many(half_spaces, pairs, **QUICK)
    assert (audit.refuted, audit.p_value) == (0, 1.0)
    assert audit.rate == pytest.approx(0.001 + 1e-6)
    wrong = audit_many(half_spaces, [(x, overstated(certificate)) for x, certificate in pairs], **QUICK)
    assert wrong.refuted == 5
    assert wrong.p_value == pytest.approx(0.001001**5, rel=1e-6)


def test_the_level_is_shared_by_all_components_and_all_inputs():
    """Each test is exact at an equal share of the level: certified components times perturbed inputs.

    A false certificate of 100 labels with probabilities from 0.25 to 0.5 has counts that a share for the components
    alone, or for the inputs alone, would reject.
    """
    below = 0.25 * torch.special.ndtri(torch.linspace(0.25, 0.5, 100).double())
    votes = sc.Votes(np.ones(100, int), np.full(100, 500), n=500, n0=1, noise=sc.Gaussian(0.25))
    wrong, x = sc.certify_votes(votes, tau=0.65, alpha=0.001), torch.zeros(100).double()
    settings = {"n": 200, "steps": 0, "directions": 9, "level": 0.05, "seed": 0}
    finding = audit_certificate(lambda batch: (batch > -below).long(), x, wrong, **settings)
    p = binom.cdf(np.stack([each.agree for each in finding.perturbed]), 200, 0.5)
    assert p.shape == (10, 100)
    np.testing.assert_array_equal(np.stack([each.violated for each in finding.perturbed]), p <= 0.05 / 1000)
    for share in (100, 10):
        assert ((p <= 0.05 / share) & (p > 0.05 / 1000)).any()  # where another rule would differ


def test_draws_are_fresh():
    """The audit's input ids are longer than the certificate's, whatever the seed, and no attack's."""
    seen = []

    class Watched(sc.Gaussian):
        def draw(self, x, streams):
            seen.extend(stream._key for stream in streams)
            return super().draw(x, streams)

    certificate = sc.certify(half_spaces, X, noise=Watched(0.25), tau=0.65, n=200, seed=3, input_id="audit, x itself, ")
    before = set(seen)
    seen.clear()
    audit_certificate(half_spaces, X, certificate, n=100, steps=2, seed=3, batch_size=100)
    probes = {DrawStream(0, "probe", "probe", 1 + j)._key for j in range(4)}  # of a fixed input, counted nowhere
    assert before - probes
    assert not before & set(seen) - probes


def test_no_draw_serves_two_inputs_or_an_attack(monkeypatch):
    """The draws that test an input are its own: neither another input nor an attack uses them."""
    tested, searched = [], []

    class Addressed(DrawStream):
        into = tested

        def __init__(self, *address):
            super().__init__(*address)
            if address[2] != "probe":
                self.into.append(address)

    class Searched(Addressed):
        into = searched

    certificate = certified("gaussian")
    monkeypatch.setattr("segcertify.sampling.draws.DrawStream", Addressed)
    for module in ("attacks.gradient_ascent", "attacks.loss_and_gradient", "audit.certificates"):
        monkeypatch.setattr(f"segcertify.{module}.DrawStream", Searched)
    finding = audit_certificate(half_spaces, X, certificate, n=100, steps=2, batch_size=1, seed=0)
    assert len(tested) == len(set(tested)) == 100 * len(finding.perturbed)
    assert searched
    assert not set(tested) & set(searched)


def test_k_errors_are_allowed_to_a_k_fwer_certificate():
    certificate = certified("gaussian", correction="k-fwer", k=3)
    wrong = certificate.labels.copy()
    claimed = np.flatnonzero(wrong >= 0)
    for count in (2, 3):
        wrong[claimed[:count]] = 1 - certificate.labels[claimed[:count]]
        finding = audit_certificate(half_spaces, X, replace(certificate, labels=wrong.copy()), steps=0, n=400, seed=0)
        assert int(finding.violated.sum()) == count
        assert finding.refuted == (count >= 3)


def test_nothing_certified_and_radius_zero():
    nothing = sc.certify_votes(
        sc.Votes(np.ones(N, int), np.full(N, 30), n=100, n0=10, noise=sc.Gaussian(0.25)), tau=0.75, alpha=0.001
    )
    finding = audit_certificate(half_spaces, X, nothing, seed=0)
    assert not finding.refuted
    assert "nothing to refute" in finding.verdict
    still = sc.certify(half_spaces, X, sigma=0.25, tau=0.5, n=500, seed=0)
    assert [each.name for each in audit_certificate(half_spaces, X, still, **QUICK).perturbed] == ["x itself"]


def test_bad_input():
    certificate = certified("gaussian")
    with pytest.raises(sc.InputError, match=r"n=10 draws can refute nothing at level=1e-06 .* use n >= \d+"):
        audit_certificate(half_spaces, X, certificate, n=10, seed=0)
    with pytest.raises(sc.InputError, match="which allows violations on any one input"):
        audit_certificate(half_spaces, X, certified("gaussian", correction="bh"), seed=0)
    with pytest.raises(sc.InputError, match=r"components \(12,\), but the model has \(11,\)"):
        audit_certificate(lambda batch: half_spaces(batch)[:, :, :11], X, certificate, seed=0)
    with pytest.raises(sc.InputError, match="give every input an input_id of its own"):
        audit_many(half_spaces, [(X, certificate), (X, certificate)], seed=0)
    with pytest.raises(sc.InputError, match="draws must be an integer not less than 1"):
        audit_certificate(half_spaces, X, certificate, draws=0, steps=0, seed=0)
    with pytest.raises(sc.InputError, match=r"needs logits, .* For an audit without attacks use steps=0"):
        audit_certificate(lambda batch: half_spaces(batch).argmax(1), X, certificate, seed=0)
    with pytest.raises(sc.InputError, match="at least one finding"):
        Audit(())


def test_rates_above_one_explain_anything():
    certificate = certified("gaussian", alpha=0.9)
    finding = audit_certificate(half_spaces, X, certificate, level=0.5, **QUICK)
    assert Audit((finding,)).p_value == 1
