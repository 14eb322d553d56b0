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
from segcertify.noise.rotation import rotation_matrix
from segcertify.sampling.streams import DrawStream
from segcertify.stats.binomial import lower_bounds, p_values
from segcertify.stats.correction import procedure

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


def test_planted_shared_noise_is_caught(rate_exceeds):
    """Noise that draws share must be caught by its false certificates, where no look at a batch can see it.

    Each draw takes one of 8 noises, by itself: the same at any place of a batch and beside any neighbours, so that
    the sampler's own checks pass, but several draws share it. (One noise for a whole batch, as in the released
    SegCertify sampler, is refused: `test_cross_talk_theorems`.) All six entries that are looked at share one noise,
    and are refused, with probability 8^-5 for a batch: none here.
    """

    class FewNoises(sc.Gaussian):
        def draw(self, x, streams):
            few = [DrawStream(seed, "few", "agree", int(stream.rng.integers(8))) for stream in streams]
            return super().draw(x, few)

    model = below(torch.full((N,), 0.25 * special.ndtri(TAU - JUST_BELOW), dtype=torch.float64))
    false = {}
    for noise in (FewNoises(0.25), sc.Gaussian(0.25)):
        found = 0
        for seed in range(150):
            votes = sc.sample(model, VECTOR, noise=noise, n=48, n0=4, seed=seed, batch_size=24)
            found += sc.certify_votes(votes, tau=TAU, alpha=ALPHA).certified > 0
        false[type(noise).__name__] = found
    assert rate_exceeds(false["FewNoises"], 150, ALPHA), false
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


@pytest.mark.parametrize("segmenter", [below, shared_below])
def test_predict_errs_with_probability_alpha_at_most(segmenter, rate_exceeds):
    """`Smooth.predict` on labels of known probability: 400 runs, any wrong label is an error (false alarms 1e-6).

    Ten of 12 components have probability just below 1/2 for label 1, which is then not the arg-max;
    the others have 0.95 and must be decided nearly always. A test without correction is caught.
    """
    p = np.where(np.arange(N) % 6 < 5, 0.5 - JUST_BELOW, 0.95)
    model = segmenter(torch.from_numpy(0.25 * special.ndtri(p)))
    wrong = {"predict": 0, "no correction": 0}
    decided = 0
    for seed in range(400):
        smooth = sc.Smooth(model, sigma=0.25, seed=seed)
        labels = smooth.predict(VECTOR, n=50, n0=5, alpha=ALPHA)
        votes = smooth.votes(VECTOR, n=50, n0=5)
        alone = np.where(p_values(50, 0.5)[votes.agree] <= ALPHA, votes.candidate, sc.ABSTAIN)
        for name, found in (("predict", labels), ("no correction", alone)):
            wrong[name] += bool(((found == 1) & (p < 0.5)).any() or ((found == 0) & (p > 0.5)).any())
        decided += int((labels[5::6] == 1).sum())
    assert not rate_exceeds(wrong["predict"], 400, ALPHA), wrong
    assert decided > 0.95 * 400 * N / 6
    if segmenter is below:  # perfectly dependent components err together
        assert rate_exceeds(wrong["no correction"], 400, ALPHA), wrong


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


class OwnNoise:
    """A half-space each, seen through noise of the model's own, which its seeds fix: label 1 where both stay above."""

    random, sd = True, 0.15

    def __init__(self, thresholds):
        self.thresholds = thresholds

    def __call__(self, batch, seeds):
        own = [np.random.Generator(np.random.SFC64(seed)).standard_normal(N) for seed in seeds]
        return (batch + self.sd * torch.from_numpy(np.stack(own)) > -self.thresholds).long()


class OneSeed(OwnNoise):
    """The defect: every draw gets the model's noise of the same seed, so that draws are not independent."""

    def __call__(self, batch, seeds):
        return super().__call__(batch, [2021] * len(seeds))


@pytest.mark.parametrize(("model", "true"), [(OwnNoise, True), (OneSeed, False)])
def test_models_that_are_themselves_random(model, true, rate_exceeds):
    """With sigma^2 + sd^2 in all, p_i = Phi(t_i / sqrt(sigma^2 + sd^2)) is known: a label with p_i <= tau is an error.

    400 runs. The planted defect, one seed for all draws, must be caught: p_i is then another number than in theory.
    """
    sigma = 0.25
    p = np.where(np.arange(N) % 3 < 2, TAU - JUST_BELOW, 0.999)
    segmenter = model(torch.from_numpy(math.hypot(sigma, OwnNoise.sd) * special.ndtri(p)))
    false = right = 0
    for seed in range(400):
        labels = sc.certify(segmenter, VECTOR, sigma=sigma, tau=TAU, n=50, n0=5, alpha=ALPHA, seed=seed).labels
        false += bool(((labels == 1) & (p <= TAU)).any() or (labels == 0).any())
        right += int((labels[2::3] == 1).sum())
    assert rate_exceeds(false, 400, ALPHA) != true, false
    assert not true or right > 0.8 * 400 * N / 3


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
