"""The guarantees, measured: models whose probabilities and radii are known exactly.

Each test draws through the real sampler or from exact laws, counts runs with a
false certificate, and asks whether their rate exceeds alpha. Each question has a
false-alarm rate of 1e-6 (`conftest.FALSE_ALARM`), and seeds are fixed. Where a
public implementation is known to be wrong, its defect is planted and must be caught.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import special

import segcertify as sc
from segcertify.draws import Draws
from segcertify.noise.rotation import heat_kernel_angle, rotation_matrix
from segcertify.stats.binomial import lower_bounds, p_values
from segcertify.stats.correction import procedure
from segcertify.streams import DrawStream

pytestmark = pytest.mark.statistical

TAU, ALPHA, JUST_BELOW = 0.75, 0.1, 1e-6
N = 12


def below(thresholds):
    """A segmenter of vectors: label 1 where entry i exceeds -threshold_i, a half-space each."""
    return lambda batch: (batch > -thresholds).long()


def shared_below(thresholds):
    """The same from the first entry alone: all components depend on one number, perfectly dependent."""
    return lambda batch: (batch[:, :1] > -thresholds).long()


def difference_below(thresholds):
    """Label 1 where the difference of neighbours, over sqrt(2), exceeds -threshold_i: half-spaces across entries."""
    return lambda batch: ((batch - batch.roll(1, -1)) / math.sqrt(2) > -thresholds).long()


def angle_below(thresholds):
    """Labels of points on a circle by their angle about z: 1 above -threshold_i."""
    return lambda batch: (torch.atan2(batch[..., 1], batch[..., 0]) > -thresholds).long()


def margins(noise, p):
    """How far the boundary must be for a label of probability p: the exact radius, for half-spaces."""
    if isinstance(noise, sc.Gaussian):
        return noise.sigma * special.ndtri(p)
    if isinstance(noise, sc.Laplace):
        return -noise.b * np.log(2 * (1 - p))
    if isinstance(noise, sc.Uniform):
        return 2 * noise.lam * (p - 0.5)
    return noise.sigma * special.ndtri(p)


VECTOR, CIRCLE = torch.zeros(N, dtype=torch.float64), torch.tensor([[1.0, 0.0, 0.0]]).double().repeat(N, 1)
CASES = {
    "gaussian, independent": (sc.Gaussian(0.25), VECTOR, below),
    "gaussian, dependent": (sc.Gaussian(0.25), VECTOR, shared_below),
    "gaussian, across entries": (sc.Gaussian(0.25), VECTOR, difference_below),
    "gaussian, channels": (sc.Gaussian(0.25, channels=tuple(range(N))), VECTOR, below),
    "laplace, independent": (sc.Laplace(0.5), VECTOR, below),
    "laplace, dependent": (sc.Laplace(0.5), VECTOR, shared_below),
    "uniform, independent": (sc.Uniform(1.0), VECTOR, below),
    "uniform, dependent": (sc.Uniform(1.0), VECTOR, shared_below),
    "axis rotation": (sc.AxisRotation(0.25, "z"), CIRCLE, angle_below),
}
every = pytest.mark.parametrize("case", CASES)


@every
def test_half_spaces_get_no_false_certificate(case, rate_exceeds):
    """Two thirds of the boundaries lie just inside the radius of tau: certifying one is an error.

    400 runs; corrections holm and bonferroni on the same votes. The last third must be certified often.
    """
    noise, x, segmenter = CASES[case]
    p = np.where(np.arange(N) % 3 < 2, TAU - JUST_BELOW, 0.995)
    truth = margins(noise, p)
    model = segmenter(torch.from_numpy(truth))
    false = {"holm": 0, "bonferroni": 0}
    right = 0
    for seed in range(400):
        votes = sc.sample(model, x, noise=noise, n=50, n0=5, seed=seed)
        for name in false:
            certificate = sc.certify_votes(votes, tau=TAU, alpha=ALPHA, correction=name)
            wrong = (certificate.labels == 1) & (truth < certificate.radius)
            wrong |= certificate.labels == 0  # the label less likely at x itself
            false[name] += bool(wrong.any())
            right += int((certificate.labels[2::3] == 1).sum())
    assert not any(rate_exceeds(count, 400, ALPHA) for count in false.values()), false
    assert right > 0.8 * 2 * 400 * N / 3


@every
def test_the_radius_is_tight_for_half_spaces(case):
    """Moved by just less than the certified radius a label keeps p > 1/2; just beyond the true radius it does not."""
    noise, x, segmenter = CASES[case]
    p = np.full(N, 0.9)
    truth, radius = margins(noise, p), float(noise.radius(0.9))
    assert radius <= truth[0] <= radius * (1 + 3e-7)
    model = segmenter(torch.from_numpy(truth))
    for shift, stays in [(radius * 0.9, True), (truth[0] * 1.1, False)]:
        if isinstance(noise, sc.AxisRotation):
            moved = x @ torch.from_numpy(rotation_matrix(np.array([0.0, 0.0, 1.0]), -shift)).T
        else:
            moved = x.clone()
            moved[0] -= shift  # an l1 and l2 perturbation of that size
            if segmenter is difference_below:
                moved[0], moved[-1] = -shift / math.sqrt(2), shift / math.sqrt(2)
        streams = [DrawStream(1, "", "agree", j) for j in range(4000)]
        rate = model(noise.draw(moved, streams))[:, 0].double().mean()
        assert (rate > 0.5) == stays, rate  # 0.1 of the radius is more than 5 standard errors of 0.008


@pytest.mark.parametrize("case", ["gaussian, independent", "gaussian, dependent", "laplace, independent"])
def test_radius_maps_hold_for_all_components_at_once(case, rate_exceeds):
    """Every R_i against the true radius: 400 runs, p from 0.6 to 0.999."""
    noise, x, segmenter = CASES[case]
    truth = margins(noise, np.linspace(0.6, 0.999, N))
    model = segmenter(torch.from_numpy(truth))
    false = certified = 0
    for seed in range(400):
        votes = sc.sample(model, x, noise=noise, n=60, n0=5, seed=seed)
        radii = sc.radius_map(votes, alpha=ALPHA)
        false += bool(((radii > truth) | ((votes.candidate == 0) & (radii > 0))).any())
        certified += int((radii > 0).sum())
    assert not rate_exceeds(false, 400, ALPHA), false
    assert certified > 400 * N / 3


def binomial_votes(rng, p, n=100, noise=None):
    p = np.asarray(p)
    return sc.Votes(np.zeros(p.shape, int), rng.binomial(n, p), n=n, n0=1, noise=noise or sc.Gaussian(1.0))


def test_holm_levels_on_confidence_intervals_would_be_wrong(rate_exceeds):
    """Localized smoothing's `argmax_holm`: rank r gets level alpha / r. Ours (alpha / N) holds, that one is caught."""
    rng = np.random.default_rng(0)
    p = np.linspace(0.55, 0.98, 200)
    levels = 0.05 / np.arange(200, 0, -1)  # the least consistent component gets alpha / N, the most consistent alpha
    false = {"ours": 0, "holm-like": 0}
    for _ in range(1000):
        agree = rng.binomial(2000, p)
        ours = lower_bounds(2000, 0.05 / 200)[agree]
        order = np.argsort(agree, kind="stable")
        bounds = special.betaincinv(agree[order], 2000 - agree[order] + 1, levels)
        false["ours"] += bool((ours > p).any())
        false["holm-like"] += bool((bounds > p[order]).any())
    assert not rate_exceeds(false["ours"], 1000, 0.05), false
    assert rate_exceeds(false["holm-like"], 1000, 0.05), false


@pytest.mark.parametrize("dependence", ["independent", "shared draws", "opposed draws"])
@pytest.mark.parametrize("name", ["holm", "bonferroni", "k-fwer", "by"])
def test_error_rates_under_dependence(dependence, name, rate_exceeds):
    """All components at the boundary: FWER, k-FWER (k = 3) and FDR (here also P(any error)) stay below alpha.

    4,000 runs of 30 components with n = 80 draws, driven by common uniform numbers.
    """
    rng = np.random.default_rng([len(name), len(dependence)])
    false = 0
    for _ in range(4000):
        u = rng.random((80, 30 if dependence == "independent" else 1))
        if dependence == "opposed draws":
            u = np.where(np.arange(30) % 2, u, 1 - u)
        agree = np.broadcast_to((u < TAU).sum(0), 30)
        votes = sc.Votes(np.zeros(30, int), agree, n=80, n0=1, noise=sc.Gaussian(1.0))
        k = 3 if name == "k-fwer" else None
        certified = sc.certify_votes(votes, tau=TAU, alpha=ALPHA, correction=name, k=k).certified
        false += certified >= (k or 1)
    assert not rate_exceeds(false, 4000, ALPHA), false


def test_benjamini_hochberg_controls_the_expected_proportion():
    """Independent components, half null: the mean proportion of errors, 4,000 runs, 5 standard errors (3e-7)."""
    rng = np.random.default_rng(0)
    p = np.repeat([TAU, 0.95], 25)
    proportions = []
    for _ in range(4000):
        labels = sc.certify_votes(binomial_votes(rng, p), tau=TAU, alpha=ALPHA, correction="bh").labels
        proportions.append((labels[:25] == 0).sum() / max((labels == 0).sum(), 1))
    assert np.mean(proportions) < ALPHA / 2 + 5 * np.std(proportions) / math.sqrt(4000)  # pi_0 alpha
    assert np.mean(proportions) > 0  # it does make errors: a weaker claim


def test_planted_shared_noise_is_caught(rate_exceeds, monkeypatch):
    """The released SegCertify sampler repeats one noisy image over each batch: the same check must fail.

    (Repeated in small batches too, it is refused by the probe before any sampling.)
    """

    class Repeating(sc.Gaussian):
        smallest = 3

        def draw(self, x, streams):
            batch = super().draw(x, streams)
            return batch[-1:].expand_as(batch) if len(streams) >= self.smallest else batch

    class Always(Repeating):
        smallest = 2

    monkeypatch.setattr(Draws, "_verify", lambda *arguments: None)  # which would refuse it at the first large batch

    model = below(torch.full((N,), 0.25 * special.ndtri(TAU - JUST_BELOW), dtype=torch.float64))
    with pytest.raises(sc.InputError, match="different answers to the same noisy input"):
        sc.sample(model, VECTOR, noise=Always(0.25))
    false = {}
    for noise in (Repeating(0.25), sc.Gaussian(0.25)):
        runs = [sc.sample(model, VECTOR, noise=noise, n=48, n0=4, seed=seed, batch_size=24) for seed in range(150)]
        false[type(noise).__name__] = sum(sc.certify_votes(v, tau=TAU, alpha=ALPHA).certified > 0 for v in runs)
    assert rate_exceeds(false["Repeating"], 150, ALPHA), false
    assert not rate_exceeds(false["Gaussian"], 150, ALPHA), false


@pytest.mark.parametrize(
    ("N", "batch", "cost"), [(1024 * 2048, 24, 0.24), (1024 * 2048, 12, 0.075), (480 * 480, 80, 0.62)]
)
def test_what_shared_noise_costs(N, batch, cost):
    """The type I error of the released sampler at p = tau, exactly: n0 + n = 110 draws, one noise for each batch.

    The candidate is what most of the first 10 draws show; all outcomes of the batches are enumerated.
    """
    n, n0 = 100, 10
    needed = n - sc.plan(N, TAU, alpha=0.001, n=n).tolerates
    of_batch = np.arange(n0 + n) // batch  # which noise each draw has
    error = 0.0
    for right in itertools.product((True, False), repeat=int(of_batch[-1]) + 1):
        labels = np.array(right)[of_batch]
        candidate = 2 * labels[:n0].sum() >= n0
        if (labels[n0:] == candidate).sum() >= needed:
            error += math.prod(TAU if one else 1 - TAU for one in right)
    assert error == pytest.approx(cost, abs=0.006)
    assert error > 1e6 * 0.001 / N


def test_planted_wrong_trials_and_missing_correction_are_caught(rate_exceeds):
    """AdaptiveCertify's n - n0 trials, and TPC's absence of a correction, on boundary components."""
    rng = np.random.default_rng(1)
    false = {"ours": 0, "n - n0 trials": 0, "no correction": 0}
    for _ in range(1000):
        votes = binomial_votes(rng, np.full(50, TAU))
        false["ours"] += sc.certify_votes(votes, tau=TAU, alpha=0.01).certified > 0
        fewer = p_values(90, TAU)[np.minimum(votes.agree, 90)]
        false["n - n0 trials"] += bool((fewer <= 0.01 / 50).any())
        false["no correction"] += bool((p_values(100, TAU)[votes.agree] <= 0.01).any())
    assert [rate_exceeds(count, 1000, 0.01) for count in false.values()] == [False, True, True], false


def test_cohens_certify_and_predict(rate_exceeds):
    """Certify: the radius exceeds the true one in at most alpha of runs. Predict: so often it errs. 400 runs each."""
    noise, true_p = sc.Gaussian(1.0), 0.7
    truth = special.ndtri(true_p)

    def half_space(batch):
        return torch.stack([torch.zeros(len(batch)), batch[:, 0] + truth], 1)

    false = wrong = abstained = 0
    for seed in range(400):
        certificate = sc.cohen.certify(half_space, torch.zeros(3), noise=noise, n=100, n0=20, alpha=ALPHA, seed=seed)
        false += certificate.radius > truth or int(certificate.labels) == 0
        fair = sc.cohen.predict(
            lambda b: (b[:, 0] > 0.02).long(), torch.zeros(3), noise=noise, n=50, alpha=ALPHA, seed=seed
        )
        wrong += fair == 1
        abstained += fair == sc.ABSTAIN
    assert not rate_exceeds(false, 400, ALPHA), false
    assert not rate_exceeds(wrong, 400, ALPHA), wrong
    assert abstained > 200  # far more than alpha: abstaining is not what alpha bounds


def test_joint_and_indiv_class_hold(rate_exceeds):
    """Whole maps at the boundary: the radius exceeds the true one in at most alpha of 300 runs."""
    p = np.array([0.9, 0.9, 0.9])
    truth = 0.25 * special.ndtri(p)
    model = below(torch.from_numpy(truth))
    joint_truth = 0.25 * special.ndtri(p.prod())  # a lower bound on the joint map's true radius
    false = {"joint": 0, "indiv": 0}
    for seed in range(300):
        settings = {"noise": sc.Gaussian(0.25), "n": 80, "n0": 9, "seed": seed}
        x = torch.zeros(3, dtype=torch.float64)
        joint = sc.joint_class(model, x, alpha=ALPHA, **settings)
        indiv = sc.indiv_class(sc.sample(model, x, **settings), alpha=ALPHA)
        false["joint"] += joint.tau > p.prod() and joint.certified > 0
        false["indiv"] += indiv.radius > truth.min()
        assert joint.radius <= joint_truth or joint.tau > p.prod()
    assert not any(rate_exceeds(count, 300, ALPHA) for count in false.values()), false


# --- rotations: labels that flip when the cloud is turned by a known angle ---


def flips_at(angles):
    """Points that begin at (1, 0, 0), with label 1 on one side of a plane; turned by angle_i about z, point i meets it.

    No smaller rotation, about whatever axis, takes it there, and there both labels are equally likely under noise that
    is symmetric: angle_i is the exact radius of label 1.
    """
    return lambda batch: (batch[..., 1] * torch.cos(angles) + batch[..., 0] * torch.sin(angles) > 0).long()


def flip_probability(noise, angle):
    """The exact probability of label 1 at the input itself.

    About one axis: normal numbers on the circle. In three dimensions: (1, 0, 0) turns into the heat kernel on the
    sphere, sum_l (2l + 1) / (4 pi) exp(-l (l + 1) sigma^2 / 2) P_l, whose mass in a half-sphere follows term by term
    (Funk and Hecke).
    """
    angle = np.asarray(angle, float)[..., None]
    if isinstance(noise, sc.AxisRotation):
        k = 2 * np.pi * np.arange(-30, 31)
        arcs = special.ndtr((k + np.pi - angle) / noise.sigma) - special.ndtr((k - angle) / noise.sigma)
        return arcs.sum(-1)
    l = np.arange(1, 2 + 2 * math.ceil(5 / noise.sigma), 2)  # noqa: E741  (even terms vanish)
    half = special.eval_legendre(l - 1, 0.0) - special.eval_legendre(l + 1, 0.0)
    terms = np.exp(-l * (l + 1) * noise.sigma**2 / 2) * half * special.eval_legendre(l, np.sin(angle))
    return 0.5 + 0.5 * terms.sum(-1)


@pytest.mark.parametrize("sigma", [0.05, 0.125, 0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", [sc.AxisRotation, sc.Rotation])
def test_no_rotation_radius_exceeds_the_angle_at_which_the_label_flips(kind, sigma):
    """Exactly, without draws: R of the true probability is at most the true angle, and for narrow noise nearly that."""
    noise, angles = kind(sigma), np.linspace(0.01, math.pi / 2, 200)
    p = flip_probability(noise, angles)
    radius = noise.radius(np.minimum(p, 1 - 1e-9))
    assert (radius <= angles).all()
    known = (p < 1 - 1e-6) & (angles < 1)
    if sigma <= 0.25:
        assert (radius[known] > 0.97 * angles[known]).all()  # so a radius that is 4 % too large is caught


@pytest.mark.parametrize("noise", [sc.AxisRotation(0.25, "z"), sc.Rotation(0.5)], ids=str)
def test_labels_that_flip_within_the_radius_are_not_certified(noise, rate_exceeds):
    """Two thirds of the points flip just inside R, the others far outside; 150 sampled runs, holm and bonferroni.

    Each point's votes have the exact probability, within 5.5 standard errors (12 points: false alarms 5e-7).
    """
    radius = float(noise.radius(TAU))
    angles = np.where(np.arange(N) % 3 < 2, radius * (1 - np.arange(N) / 100) - 1e-9, 1.2)
    p = flip_probability(noise, angles)
    assert (p[angles < radius] < TAU).all()  # the theorem: what flips within R has probability at most tau
    model = flips_at(torch.from_numpy(angles))
    false, right, votes_for_1 = {"holm": 0, "bonferroni": 0}, 0, np.zeros(N)
    for seed in range(150):
        votes = sc.sample(model, CIRCLE, noise=noise, n=50, n0=5, seed=seed)
        votes_for_1 += np.where(votes.candidate == 1, votes.agree, 50 - votes.agree)
        for name in false:
            certificate = sc.certify_votes(votes, tau=TAU, alpha=ALPHA, correction=name)
            wrong = (certificate.labels == 1) & (angles < certificate.radius)
            false[name] += bool((wrong | (certificate.labels == 0)).any())
            right += int((certificate.labels[2::3] == 1).sum())
    assert not any(rate_exceeds(count, 150, ALPHA) for count in false.values()), false
    assert right > 0.8 * 2 * 150 * N / 3
    assert (np.abs(votes_for_1 / 7500 - p) < 5.5 * np.sqrt(p * (1 - p) / 7500)).all()


# --- SO(3): the exact Neyman-Pearson adversary ---


def heat_kernel(trace, sigma):
    """The heat kernel's density with respect to the uniform measure, from a rotation matrix's trace."""
    a = np.arccos(np.clip((trace - 1) / 2, -1, 1))[..., None]
    l = np.arange(2 + math.ceil(9.2 / sigma))  # noqa: E741
    half = np.maximum(np.sin(a / 2), 1e-9)
    return ((2 * l + 1) * np.exp(-l * (l + 1) * sigma**2 / 2) * np.sin((l + 0.5) * np.maximum(a, 2e-9)) / half).sum(-1)


def rotations(rng, sigma, count):
    axes, angles = rng.normal(size=(count, 3)), heat_kernel_angle(rng.random(count), sigma)
    return np.stack([rotation_matrix(axis, angle) for axis, angle in zip(axes, angles, strict=True)])


def likelihood_ratio(turns, sigma, adversary):
    """k(R) / k(R Q^-1): the most powerful region against Q is where this is large."""
    return heat_kernel(np.trace(turns, axis1=1, axis2=2), sigma) / heat_kernel(
        np.einsum("bij,ij->b", turns, adversary), sigma
    )


@pytest.mark.parametrize(("sigma", "tau"), [(0.25, 0.75), (0.5, 0.9), (1.0, 0.75), (1.0, 0.95)])
def test_rotation_radius_against_the_exact_adversary(sigma, tau):
    """The worst label region of probability tau keeps 1/2 at the radius, within 5 standard errors (false alarms 3e-7).

    A radius that is 10 % too large is caught for narrow noise, where the bound is nearly tight.
    """
    rng = np.random.default_rng(int(1000 * sigma * tau))
    count, spread = 80_000, 1.1  # above the standard deviation of sqrt(count) (kept - 1/2), threshold included: 1.01
    at_identity, at_adversary = rotations(rng, sigma, count), rotations(rng, sigma, count)
    outcome = {}
    for factor in (1.0, 1.1):
        adversary = rotation_matrix(np.array([0.0, 0.0, 1.0]), factor * float(sc.Rotation(sigma).radius(tau)))
        threshold = np.quantile(likelihood_ratio(at_identity, sigma, adversary), 1 - tau)
        kept = (likelihood_ratio(at_adversary @ adversary, sigma, adversary) >= threshold).mean()
        outcome[factor] = (kept - 0.5) * math.sqrt(count) / spread
    assert outcome[1.0] > -5, outcome
    if sigma <= 0.5:
        assert outcome[1.1] < -5, outcome


def test_rotation_certificates_of_the_adversarys_region(rate_exceeds):
    """A segmenter that is the adversary's region itself, of probability just below tau: 150 sampled runs."""
    sigma, rng = 0.5, np.random.default_rng(5)
    adversary = rotation_matrix(np.array([0.0, 0.0, 1.0]), float(sc.Rotation(sigma).radius(TAU)))
    ratios = likelihood_ratio(rotations(rng, sigma, 40_000), sigma, adversary)
    threshold = np.quantile(ratios, 1 - TAU + 0.012)  # probability below tau by more than 5 standard errors

    def model(batch):
        turns = batch.numpy().transpose(0, 2, 1)  # the frame (e1, e2, e3) turned is the rotation itself
        return torch.from_numpy((likelihood_ratio(turns, sigma, adversary) >= threshold).astype(int))[:, None]

    frame = torch.eye(3, dtype=torch.float64)
    runs = [sc.sample(model, frame, noise=sc.Rotation(sigma), n=60, n0=5, seed=seed) for seed in range(150)]
    false = sum(sc.certify_votes(votes, tau=TAU, alpha=ALPHA).certified > 0 for votes in runs)
    assert not rate_exceeds(false, 150, ALPHA), false
    agree = np.mean([votes.agree / 60 for votes in runs if votes.candidate[0] == 1])
    assert agree == pytest.approx(TAU - 0.012, abs=0.025)


def test_holm_has_more_power_than_bonferroni():
    rng = np.random.default_rng(2)
    votes = binomial_votes(rng, np.repeat([0.85, 1.0], [300, 3000]))
    holm, bonferroni = (sc.certify_votes(votes, tau=TAU, alpha=0.05, correction=c) for c in ("holm", "bonferroni"))
    assert holm.certified > bonferroni.certified
    assert procedure("holm").guarantee == procedure("bonferroni").guarantee == "fwer"


def test_the_measuring_stick_itself(rate_exceeds):
    """It accepts 60 of 400 at alpha = 0.1 (expected 40, tail 8e-4) and rejects 80 (tail 3e-9)."""
    assert not rate_exceeds(60, 400, ALPHA)
    assert rate_exceeds(80, 400, ALPHA)
