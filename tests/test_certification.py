"""Certificates from votes: against a slow reading of the paper, and their words and files."""

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime

import numpy as np
import pytest
from headers import rewrite_header
from scipy.stats import binomtest, norm
from statsmodels.stats.multitest import multipletests

import segcertify
from segcertify import (
    ABSTAIN,
    Certificate,
    Gaussian,
    InputError,
    Laplace,
    Votes,
    certify_votes,
    chunks,
    indiv_class,
    radius_map,
)
from segcertify.stats.binomial import p_values
from segcertify.stats.correction import procedure
from segcertify.storage import archive


def some_votes(shape=(20, 30), n=100, seed=0, **more):
    rng = np.random.default_rng(seed)
    agree = rng.binomial(n, rng.choice([0.5, 0.8, 0.9, 0.99, 1.0], shape))
    return Votes(rng.integers(0, 19, shape), agree, n=n, n0=10, noise=Gaussian(0.25), **more)


@pytest.mark.parametrize("correction", ["holm", "bonferroni"])
@pytest.mark.parametrize("masked", [False, True])
def test_algorithm_2_line_by_line(correction, masked):
    """A binomtest per component and statsmodels' correction."""
    mask = np.random.default_rng(5).random((20, 30)) < 0.4 if masked else None
    votes = some_votes(mask=mask)
    where = np.ones((20, 30), bool) if mask is None else mask
    pv = [binomtest(int(n_i), votes.n, 0.75, alternative="greater").pvalue for n_i in votes.agree[where]]
    expected = np.full((20, 30), ABSTAIN)
    expected[where] = np.where(multipletests(pv, 0.001, method=correction)[0], votes.candidate[where], ABSTAIN)
    certificate = certify_votes(votes, tau=0.75, alpha=0.001, correction=correction)
    np.testing.assert_array_equal(certificate.labels, expected)
    assert certificate.radius == pytest.approx(0.25 * norm.ppf(0.75))
    assert where.sum() == certificate.N
    np.testing.assert_array_equal(certificate.abstained, expected == ABSTAIN)


@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("n", [100, 300])
@pytest.mark.parametrize("masked", [False, True])
def test_large_arrays_are_certified_as_small_ones(cores, n, masked, monkeypatch):
    """By chunks, in threads."""
    monkeypatch.setattr(chunks, "cores", lambda: cores)
    shape = (3, chunks.LEAST // 3 + 1)
    mask = np.random.default_rng(5).random(shape) < 0.4 if masked else None
    votes = some_votes(shape, n, mask=mask)
    tested = np.ones(shape, bool) if mask is None else mask
    counts = np.bincount(votes.agree[tested], minlength=n + 1)
    np.testing.assert_array_equal(votes.histogram(), counts)
    enough = procedure("holm").threshold(counts, p_values(n, 0.75), 0.001)
    certificate = certify_votes(votes, tau=0.75, alpha=0.001)
    expected = np.where(tested & (votes.agree >= enough), votes.candidate, ABSTAIN)
    np.testing.assert_array_equal(certificate.labels, expected)
    assert certificate.labels.dtype == np.int32
    assert certificate.certified == (expected != ABSTAIN).sum() > 0
    assert tested.sum() == certificate.N
    for wrong, message in ((-2, "are from -2 to 18"), (2**31, f"are from -1 to {2**31}")):
        labels = np.array(expected, np.int64)
        labels[1, 7] = wrong
        with pytest.raises(InputError, match=message):
            replace(certificate, labels=labels)
    few = certificate.certified - 1
    with pytest.raises(InputError, match=f"{certificate.certified} components are certified, but only N={few} were"):
        replace(certificate, N=few)


@pytest.mark.parametrize(("enough", "certified"), [(0, 2), (70, 2), (71, 1), (101, 0), (2**31, 0), (2**63 - 1, 0)])
def test_a_correction_of_a_user_may_give_any_count(enough, certified):
    votes = Votes(np.array([0, 5]), np.array([100, 70]), n=100, n0=10, noise=Gaussian(0.25))
    found = certify_votes(votes, tau=0.75, alpha=0.001, correction=lambda counts, p, alpha: enough)
    assert found.labels.tolist() == [[0, 5], [0, ABSTAIN], [ABSTAIN, ABSTAIN]][2 - certified]


def test_all_n_draws_are_tested_against_n_trials():
    """AdaptiveCertify tests n - n0 trials and so certifies at 89 of 100; the right count is 98."""
    shape = (1024, 2048)
    for agree, certified in [(98, True), (97, False), (89, False)]:
        votes = Votes(np.zeros(shape, int), np.full(shape, agree), n=100, n0=10, noise=Gaussian(0.25))
        assert (certify_votes(votes, tau=0.75, alpha=0.001).certified > 0) == certified


def test_radius_map_is_clopper_pearson_at_alpha_over_N():
    votes = some_votes(mask=np.arange(600).reshape(20, 30) % 2 == 0)
    radii = radius_map(votes, alpha=0.01)
    for index in [(0, 0), (3, 4), (19, 28), (7, 7)]:
        bound = binomtest(int(votes.agree[index]), 100, alternative="greater").proportion_ci(1 - 0.01 / 300).low
        expected = max(0.0, 0.25 * norm.ppf(bound)) if votes.mask[index] else 0.0
        assert radii[index] == pytest.approx(expected, rel=1e-6)
    whole = radius_map(some_votes(), alpha=0.02)  # twice the components at twice the alpha: the same levels
    np.testing.assert_array_equal(radii, np.where(votes.mask, whole, 0))
    assert (whole[~votes.mask] > 0).any()


def test_radius_map_agrees_with_bonferroni():
    """R_i reaches the radius of tau exactly where Bonferroni certifies at tau."""
    votes = some_votes(n=300)
    for tau in (0.6, 0.75, 0.9):
        certificate = certify_votes(votes, tau=tau, alpha=0.01, correction="bonferroni")
        reaches = radius_map(votes, alpha=0.01) >= certificate.radius
        np.testing.assert_array_equal(reaches, ~certificate.abstained)


def test_capped_maps_step_down_as_holm_does():
    """At the cap itself Holm's certificate and the map agree; below it the map is never smaller than without a cap."""
    rng = np.random.default_rng(2)
    gained = 0
    for cap in (0.6, 0.75, 0.9):
        for _ in range(20):
            agree = rng.binomial(150, rng.choice([0.7, 0.95, 0.99], 500))
            votes = Votes(np.zeros(500, int), agree, n=150, n0=1, noise=Gaussian(0.25))
            radii, plain = radius_map(votes, alpha=0.01, cap=cap), radius_map(votes, alpha=0.01)
            top = Gaussian(0.25).radius(cap)
            certificate = certify_votes(votes, tau=cap, alpha=0.01)
            assert ((radii == top) <= (certificate.labels == 0)).all()
            assert (radii >= np.minimum(plain, top)).all()
            assert radii.max() <= top
            gained += int((radii > np.minimum(plain, top)).sum())
    assert gained > 0
    mask = np.arange(500) < 100
    masked = Votes(votes.candidate, votes.agree, n=150, n0=1, noise=Gaussian(0.25), mask=mask)
    assert (radius_map(masked, alpha=0.01, cap=0.9)[~mask] == 0).all()
    for cap in (0.5, 1.0):
        with pytest.raises(InputError, match=r"cap must lie in \(0.5, 1\)"):
            radius_map(votes, alpha=0.01, cap=cap)


def test_indiv_class_is_the_minimum_of_the_radius_map():
    votes = Votes(np.array([1, 2, 3]), np.array([100, 97, 90]), n=100, n0=10, noise=Laplace(0.5))
    certificate = indiv_class(votes, alpha=0.001)
    assert certificate.labels.tolist() == [1, 2, 3]
    assert certificate.radius == radius_map(votes, alpha=0.001).min() > 0
    assert certificate.norm == "l1"


def test_one_bad_component_makes_indiv_class_abstain():
    votes = Votes(np.array([1, 2, 3]), np.array([100, 97, 60]), n=100, n0=10, noise=Gaussian(0.5))
    assert indiv_class(votes, alpha=0.001).certified == 0
    assert indiv_class(votes, alpha=0.001).radius == 0
    spared = Votes(votes.candidate, votes.agree, n=100, n0=10, noise=votes.noise, mask=np.array([True, True, False]))
    assert indiv_class(spared, alpha=0.001).labels.tolist() == [1, 2, ABSTAIN]


def test_linf_divides_by_the_root_of_the_dimension():
    votes = some_votes(input_shape=(3, 20, 30))
    l2, linf = (certify_votes(votes, tau=0.75, alpha=0.001, norm=name) for name in ("l2", "linf"))
    assert linf.radius == pytest.approx(l2.radius / np.sqrt(1800))
    assert (linf.norm, linf.labels.tolist()) == ("linf", l2.labels.tolist())
    assert radius_map(votes, alpha=0.001, norm="linf").max() == pytest.approx(
        radius_map(votes, alpha=0.001).max() / np.sqrt(1800)
    )
    with pytest.raises(InputError, match="needs the input's shape"):
        certify_votes(some_votes(), tau=0.75, alpha=0.001, norm="linf")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ["at least 1 - 0.001", "all keep their label", "l2 norm at most 0.168622"]),
        ({"correction": "k-fwer", "b": 5}, ["all but at most 5 keep"]),
        ({"correction": "bh"}, ["No robustness certificate", "proportion", "PRDS"]),
        ({"correction": "by"}, ["No robustness certificate", "proportion"]),
        ({"correction": lambda counts, p, alpha: 99}, ["'<lambda>' guarantees"]),
    ],
)
def test_the_certificate_says_what_it_claims(arguments, words):
    certificate = certify_votes(some_votes(), tau=0.75, alpha=0.001, **arguments)
    for word in words:
        assert word in repr(certificate)
    guarantees = {"holm": "fwer", "k-fwer": "k-fwer", "bh": "fdr", "by": "fdr"}
    assert certificate.guarantee == guarantees.get(certificate.correction, "custom")


def test_round_trip(tmp_path):
    certificate = certify_votes(some_votes(seed=3, input_id="a"), tau=0.75, alpha=0.001, correction="k-fwer", k=2)
    path = tmp_path / "c.safetensors"
    certificate.save(path)
    loaded = Certificate.load(path)
    for name, value in vars(certificate).items():
        np.testing.assert_array_equal(getattr(loaded, name), value)
    assert repr(loaded) == repr(certificate)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match="not a certificate file, or is truncated"):
        Certificate.load(path)


def test_votes_are_not_a_certificate(tmp_path):
    some_votes().save(tmp_path / "v")
    with pytest.raises(InputError, match=r"holds 'segcertify.votes', not segcertify.certificate"):
        Certificate.load(tmp_path / "v")


def test_too_few_draws_warn_and_abstain():
    votes = some_votes(n=20)
    with pytest.warns(UserWarning, match=r"n=20 can certify nothing at tau=0.75, alpha=0.001 over 600 .* Use n >= 47"):
        assert certify_votes(votes, tau=0.75, alpha=0.001).certified == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tau": 0.49}, r"tau must lie in \[0.5, 1\), but got 0.49"),
        ({"tau": 1.0}, "tau must lie"),
        ({"alpha": 0}, r"alpha must lie in \(0, 1\), but got 0"),
        ({"alpha": 1.0}, "alpha must lie"),
        ({"alpha": float("nan")}, "alpha must be finite"),
        ({"norm": "l1"}, "Gaussian noise proves nothing in norm='l1': use 'l2', 'linf'"),
        ({"correction": "sidak"}, "unknown correction"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        certify_votes(some_votes(), **({"tau": 0.75, "alpha": 0.001} | arguments))


def test_tau_one_half_is_allowed_and_has_radius_zero():
    certificate = certify_votes(some_votes(), tau=0.5, alpha=0.001)
    assert certificate.radius == 0
    assert certificate.certified > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radius": 99.0}, "proves a radius of"),
        ({"radius": float("nan")}, "radius must be finite"),
        ({"radius": [0.1]}, "radius must be a number"),
        ({"tau": [0.75]}, "tau must be a number"),
        ({"alpha": -5}, "alpha must lie"),
        ({"N": 0}, "N must be"),
        ({"guarantee": "sure"}, "unknown guarantee 'sure'"),
        ({"correction": "bh"}, "'bh' does not give the guarantee 'fwer'"),
    ],
)
def test_a_tampered_certificate_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        replace(certify_votes(some_votes(), tau=0.75, alpha=0.001), **changes)


@pytest.mark.parametrize("shape", [(3, 20, 30), None])
def test_another_norm_does_not_keep_the_radius(shape):
    """An l2 radius is no l-inf radius: that is smaller by the root of the number of entries, here 42.4 times."""
    l2 = certify_votes(some_votes(input_shape=shape), tau=0.75, alpha=0.001)
    with pytest.raises(
        InputError, match="needs the input's shape" if shape is None else "proves a radius of 0.0039744"
    ):
        replace(l2, norm="linf")
    with pytest.raises(InputError, match="proves nothing in norm='l1'"):
        replace(l2, norm="l1")
    if shape is not None:
        linf = certify_votes(some_votes(input_shape=shape), tau=0.75, alpha=0.001, norm="linf")
        assert replace(linf, norm="l2").radius == linf.radius  # smaller than what is proved, and so true
        with pytest.raises(InputError, match="proves a radius of"):
            replace(linf, input_shape=(3, 200, 300))


def test_another_norm_does_not_keep_the_radius_of_an_older_file(tmp_path):
    """Files of version 1 do not say the input's shape: theirs are read, but no norm is changed for another."""
    for name in ("l2", "linf"):
        certify_votes(some_votes(input_shape=(3, 20, 30)), tau=0.75, alpha=0.001, norm=name).save(tmp_path / name)
        rewrite_header(tmp_path / name, as_version_1)
    old = Certificate.load(tmp_path / "l2")
    assert Certificate.load(tmp_path / "linf").radius == pytest.approx(old.radius / np.sqrt(1800))
    assert (old.version, old.date, old.model, old.input_digest, old.preprocessing) == ("", "", {}, "", None)
    with pytest.raises(InputError, match="proves a radius of"):
        replace(old, norm="linf")


def as_version_1(about):
    about["version"] = 1
    del about["digest"]
    for name in ("input_shape", "input_digest", "model", "preprocessing", "version", "date", "command"):
        del about["header"][name]


@pytest.mark.parametrize(
    "arguments", [{}, {"correction": "k-fwer", "b": 5}, {"correction": "bh"}, {"correction": "by"}]
)
def test_a_claim_about_nothing_says_so(arguments):
    votes = Votes(np.zeros(9, int), np.full(9, 50), n=100, n0=10, noise=Gaussian(0.25))
    certificate = certify_votes(votes, tau=0.75, alpha=0.001, **arguments)
    assert certificate.certified == 0
    for claim in (certificate.claim, certificate.claim_about("the coloured pixels")):
        assert claim == "Nothing is certified: all 9 tested components abstain, and nothing is claimed."


def test_a_certificate_says_what_it_is_about(tmp_path):
    about = {
        "seed": 5, "input_id": "a", "input_shape": (3, 20, 30), "input_digest": "ab", "model": {"weights": "cd"},
        "preprocessing": {"kind": "own"},
    }  # fmt: skip
    certificate = certify_votes(replace(some_votes(), **about), tau=0.75, alpha=0.001)
    certificate.save(tmp_path / "c")
    loaded = Certificate.load(tmp_path / "c")
    assert {name: getattr(loaded, name) for name in about} == about
    assert loaded.version == segcertify.__version__
    assert datetime.fromisoformat(loaded.date).utcoffset().total_seconds() == 0
    assert abs((datetime.now(UTC) - datetime.fromisoformat(loaded.date)).total_seconds()) < 600
    assert loaded.date == certificate.date
    assert loaded.command == ""
    assert replace(loaded, command="segcertify certify a.png").command == "segcertify certify a.png"


def test_a_budget_above_what_is_certified_claims_nothing():
    votes = Votes(np.array([1, 2, 3]), np.array([100, 60, 60]), n=100, n0=1, noise=Gaussian(0.5))
    claim = certify_votes(votes, tau=0.75, alpha=0.001, correction="k-fwer", k=3).claim
    assert "nothing is claimed" in claim


def test_a_tau_that_no_n_reaches_warns():
    with pytest.warns(UserWarning, match=r"can certify nothing .* Lower tau"):
        assert certify_votes(some_votes(), tau=0.9999999, alpha=0.001).certified == 0


def test_the_claim_says_what_a_given_seed_assumes(tmp_path):
    """And counts made elsewhere: nothing shows that their noise was drawn last."""

    def of(correction="holm", **fields):
        return certify_votes(replace(some_votes(), **fields), tau=0.75, alpha=0.001, correction=correction)

    ours, given, elsewhere = of(seed=2**127, seed_given=False), of(seed=3), of()
    assert ours.claim.endswith("l2 norm at most 0.168622.")
    assert given.claim == f"{ours.claim} This assumes that input and model were fixed before the seed was chosen."
    assert elsewhere.claim == f"{ours.claim} This assumes that input and model were fixed before the noise was drawn."
    assert of("bh", seed=3).claim_about("its labels").endswith("fixed before the seed was chosen.")
    for certificate in (ours, given):
        certificate.save(tmp_path / "certificate")
        loaded = Certificate.load(tmp_path / "certificate")
        assert (loaded.seed, loaded.seed_given, loaded.claim) == (
            certificate.seed, certificate.seed_given, certificate.claim,
        )  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"norm": "l7"}, "proves nothing in norm='l7'"),
        ({"norm": "l7", "radius": 0.01}, "proves nothing in norm='l7'"),
        ({"norm": 2}, "norm must be a text, but got 2"),
        ({"norm": ""}, "a radius needs the name of its norm, but got ''"),
        ({"labels": np.full(600, -2)}, "labels must be from -1 .*, but are from -2 to -2"),
        ({"labels": np.full(600, 2**40)}, r"labels must be from -1 to 2147483647, but are from 1099511627776"),
        ({"labels": np.full(600, 0.5)}, "labels must be integers, but are float64"),
        ({"labels": np.zeros(0, int)}, "N=600 components cannot have been tested of 0"),
        ({"labels": np.zeros(599, int)}, "N=600 components cannot have been tested of 599"),
        ({"N": 601}, "N=601 components cannot have been tested of 600"),
        ({"N": 0}, "N must be an integer not less than 1"),
        ({"labels": np.zeros(600, int), "N": 599}, "600 components are certified, but only N=599 were tested"),
        ({"n": 0}, "n must be an integer not less than 1"),
        ({"n": 99.5}, "n must be an integer"),
        ({"n": "100"}, "n must be an integer"),
        ({"n0": -1}, "n0 must be an integer not less than 0"),
        ({"n0": None}, "n0 must be an integer"),
        ({"k": 2}, "k=2 is for the guarantee 'k-fwer'"),
        ({"correction": "sidak"}, "the correction 'sidak' does not give the guarantee 'fwer'"),
        ({"correction": "k-fwer"}, "the correction 'k-fwer' does not give the guarantee 'fwer'"),
        ({"correction": "bh"}, "the correction 'bh' does not give the guarantee 'fwer'"),
        ({"guarantee": "fdr"}, "the correction 'holm' does not give the guarantee 'fdr'"),
        ({"guarantee": "none"}, "unknown guarantee 'none'"),
        ({"correction": "k-fwer", "guarantee": "k-fwer", "k": 601}, "k=601 .* over N=600"),
        ({"tau": 1.5}, "tau must lie in"),
        ({"tau": -0.1}, "tau must lie in"),
        ({"radius": 9.0}, "proves a radius of"),
    ],
)
def test_a_file_with_a_true_digest_that_claims_what_cannot_be_is_refused(tmp_path, changed, message, version):
    certificate = certify_votes(some_votes(input_shape=(3, 20, 30)), tau=0.75, alpha=0.001)
    certificate.save(tmp_path / "c")
    header, arrays = archive.read(tmp_path / "c", kind="certificate", version=2)
    if version == 1:
        about = {"version": 1, "digest": "", "header": header}
        as_version_1(about)
    header |= {name: value for name, value in changed.items() if name != "labels"}
    arrays |= {name: value for name, value in changed.items() if name == "labels"}
    archive.write(tmp_path / "c", kind="certificate", version=version, header=header, arrays=arrays)
    with pytest.raises(InputError, match=message):
        Certificate.load(tmp_path / "c")


@pytest.mark.parametrize("times", [1.001, 1.9])
def test_a_radius_a_little_above_the_proved_one_is_refused(times):
    certificate = certify_votes(some_votes(), tau=0.75, alpha=0.001)
    with pytest.raises(InputError, match="proves a radius of"):
        replace(certificate, radius=certificate.radius * times)


def test_a_certificate_does_not_change_and_is_equal_to_itself_alone():
    """What it says stays as it was made. Two with the same numbers are two results, and can be kept in a set."""
    certificate = certify_votes(some_votes(), tau=0.75, alpha=0.001)
    with pytest.raises(FrozenInstanceError):
        certificate.radius = 99.0
    assert len({certificate, certificate, replace(certificate)}) == 2


def test_a_budget_below_what_is_certified_claims_something():
    """With as many certified as k, at least one of them holds: that is a claim."""
    for certified in (2, 3):
        agree = np.array([100] * certified + [60] * (5 - certified))
        votes = Votes(np.arange(5), agree, n=100, n0=1, noise=Gaussian(0.5))
        certificate = certify_votes(votes, tau=0.75, alpha=0.001, correction="k-fwer", k=2)
        assert certificate.certified == certified
        assert "nothing is claimed" not in certificate.claim


def test_a_certificate_made_elsewhere_allows_no_errors_by_default():
    made = Certificate(
        np.array([1, ABSTAIN]), radius=0.1, norm="l2", tau=0.75, alpha=0.001, correction="holm", guarantee="fwer",
        n=100, n0=10, noise=Gaussian(0.25), N=2,
    )  # fmt: skip
    assert (made.k, made.seed, made.seed_given, made.certified) == (1, None, True, 1)
