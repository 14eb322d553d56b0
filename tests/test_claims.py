"""The words of claims: who may say what."""

import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import segcertify as sc
from segcertify.claims import Claim, MetricClaim, not_promised, row_notes
from segcertify.noise import EXAMPLES
from segcertify.reproduce.axis_angle import UnprovenAxisAngle
from segcertify.stats.correction import NAMES

SURE = re.compile("with probability at least", re.IGNORECASE)
NOISES = [*EXAMPLES, UnprovenAxisAngle(0.25), type("Gaussian", (sc.Gaussian,), {})(0.25), "gaussian()"]


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("correction", NAMES)
def test_only_family_wise_claims_of_a_proven_noise_have_its_words(noise, correction):
    claim = Claim.named(correction, 0.001, noise, k=3 if correction == "k-fwer" else None)
    proven = noise in EXAMPLES
    assert claim.family_wise == (proven and correction in ("holm", "bonferroni"))
    assert claim.certifies == (proven and correction in ("holm", "bonferroni", "k-fwer"))
    texts = [claim.about("the 9 points", 0.1), claim.over(1), claim.over(60), claim.over(1000)]
    for text in texts:
        assert bool(SURE.search(text)) == claim.certifies
        assert ("all keep" in text) == claim.family_wise
        assert ("all but at most 2 keep" in text) == (claim.certifies and not claim.family_wise)
        assert ("No robustness certificate" in text) == (not claim.certifies)
        assert claim.threat in text
    [note] = row_notes([None, claim, claim], 60, bounds="scores")
    assert note.startswith(f"Rows of {correction}: {texts[2]}")
    assert ("lower bounds" in note) == claim.certifies
    assert ("2 labels a scene and 120 in all" in note) == (claim.certifies and not claim.family_wise)
    assert (claim.heading == "certified") == claim.certifies
    assert (claim.stays == "A certified label is sure to stay, not to be right.") == claim.family_wise
    assert claim.stays.startswith("All but at most 2 of") == (claim.certifies and not claim.family_wise)
    assert (claim.stays == "No single label is sure to stay, nor to be right.") == (not claim.certifies)
    assert any("sure to stay" in each for each in not_promised([claim])) == claim.family_wise
    assert any(f"any single label of {correction} stays" in each for each in not_promised([claim])) != claim.family_wise


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_only_a_proven_noise_makes_sets_claim_something(noise):
    """Of one scene, of all of them as long as their alphas add up to less than 1, and of one of too many."""
    claim, proven = Claim.named("bonferroni", 0.001, noise, remarks="R is after centring."), noise in EXAMPLES
    expected = {1: "1 - 0.001 .*a scene", 60: "0.94 .*all 60 scenes", 1000: "1 - 0.001 .*a scene .*Nothing is claimed"}
    for scenes, words in expected.items():
        text = claim.sets_over(scenes)
        assert bool(re.match(f"With probability at least {words}", text)) == proven
        assert bool(SURE.search(text)) == ("in its set" in text) == proven
        assert text.startswith("No robustness certificate: segcertify knows no proof of a radius for") == (not proven)
        assert claim.threat in text
        assert text.endswith(claim.remarks)


def test_a_claim_does_not_change():
    """Whoever holds one, such as a table, cannot make it say more than was proved."""
    noise = sc.Gaussian(0.25)
    for claim in (Claim.named("by", 0.1, noise), MetricClaim("mIoU", 0.5, 0.1, noise)):
        with pytest.raises(FrozenInstanceError):
            claim.alpha = 0.001


def test_the_weakest_of_several_claims_decides_what_is_not_promised():
    claims = [Claim.named(name, 0.001, sc.Gaussian(0.25), k=2 if name == "k-fwer" else None) for name in NAMES]
    first, single = not_promised(claims)
    assert first == "That a label is right."
    assert single.startswith("That any single label of bh, by, k-fwer stays")
    assert not_promised([]) == ["That a label is right."]


def test_many_scenes():
    claim = Claim.named("holm", 0.001, sc.Gaussian(0.25))
    assert "at least 0.94 over the noise draws, the certified components of all 60 scenes all keep" in claim.over(60)
    assert "at least 1 - 0.001 over the noise draws, the certified components of a scene all keep" in claim.over(1)
    assert "Nothing is claimed of all 1,000 scenes together" in claim.over(1000)
    assert "at least 0.999999 over" in Claim.named("holm", 1e-8, sc.Gaussian(0.25)).over(100)
    claims = [Claim.named(name, 0.001, sc.Gaussian(0.25)) for name in ("holm", "bonferroni", "by")]
    notes = row_notes(claims, 9, bounds="scores")
    assert [note.partition(":")[0] for note in notes] == ["Rows of holm, bonferroni", "Rows of by"]


def test_the_radius_is_in_words_with_its_channels_and_remarks():
    claim = Claim.named("holm", 0.001, sc.Gaussian(0.25, channels=(0, 1, 2), axis=1), remarks="R is after centring.")
    assert claim.about("the 9 points", 0.16862239) == (
        "With probability at least 1 - 0.001 over the noise draws, the 9 points all keep their label as the smoothed "
        "model's most likely one under every perturbation of l2 norm on channels [0, 1, 2] of axis 1 (all else "
        "unchanged) at most 0.168622. R is after centring."
    )


@pytest.mark.parametrize("correction", ["holm", "bh"])
def test_a_certificate_speaks_through_its_claim(correction):
    votes = sc.Votes(np.zeros(9, int), np.full(9, 100), n=100, n0=1, noise=sc.Gaussian(0.25), seed_given=False)
    certificate = sc.certify_votes(votes, tau=0.75, alpha=0.001, correction=correction)
    assert certificate.claimed == Claim(correction, certificate.guarantee, 0.001, votes.noise, "l2", 1)
    word = "certified" if correction == "holm" else "labelled"
    assert certificate.claim == certificate.claimed.about(f"the 9 {word} of 9 tested components", certificate.radius)
