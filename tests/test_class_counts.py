"""Counts of all classes: kept, checked, merged, saved."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from segmenters import NOISE, Conv, image, same, stripes

import segcertify as sc
from segcertify import class_counts
from segcertify.errors import ModelError
from segcertify.storage import archive

SETTINGS = {"noise": NOISE, "seed": 0, "counts": True}


def direct(model, n, n0, **options):
    """The counts by one call of the sampler, in 32 bits."""
    return sc.Smooth(model, NOISE, seed=0).counts(image(), n=n, **options)


@pytest.mark.parametrize("n0", [0, 7])
def test_counts_are_those_of_the_n_draws(n0):
    votes = sc.sample(stripes, image(), n=40, n0=n0, **SETTINGS)
    assert votes.counts.dtype == np.uint16
    assert np.array_equal(votes.counts, direct(stripes, 40, n0))
    plain = sc.sample(stripes, image(), n=40, n0=n0, noise=NOISE, seed=0)
    assert same(plain, votes)
    assert plain.counts is None
    if not n0:
        assert np.array_equal(votes.candidate, votes.counts.argmax(0))


def test_without_a_pilot_the_agree_draws_are_the_same_as_with_one():
    with_pilot, without = (sc.sample(stripes, image(), n=40, n0=n0, **SETTINGS) for n0 in (7, 0))
    assert np.array_equal(with_pilot.counts, without.counts)


def mortal(after, error):
    """`stripes` for so many calls, then an error."""
    calls = itertools.count(1)

    def model(batch):
        if next(calls) > after:
            raise error
        return stripes(batch)

    return model


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("n0", [0, 7])
@pytest.mark.parametrize("after", [7, 8, 9, 13])
def test_an_interrupted_run_resumes_to_the_same_counts(tmp_path, after, n0, error, counts):
    """Killed, with a state after every batch, or by a failure of the model, which leaves the only state."""
    settings = {**SETTINGS, "n": 40, "n0": n0, "counts": counts}
    resuming = {**settings, "batch_size": 4, "checkpoint": tmp_path / "run"}
    with pytest.raises((KeyboardInterrupt, ModelError)):
        sc.sample(mortal(after, error), image(), **resuming, checkpoint_every=10 if error is OSError else 0)
    steps = []
    votes = sc.sample(stripes, image(), **resuming, progress=steps.append)
    assert steps[0] > 0  # it goes on
    whole = sc.sample(stripes, image(), **settings)
    assert same(votes, whole)
    assert np.array_equal(votes.counts, whole.counts) if counts else votes.counts is whole.counts is None
    finished = sc.sample(stripes, image(), **resuming)
    assert same(finished, whole)


@pytest.mark.parametrize("n0", [0, 7])
@pytest.mark.parametrize("counts", [False, True])
def test_a_run_with_counts_does_not_resume_as_one_without(tmp_path, n0, counts):
    settings = {**SETTINGS, "n": 40, "n0": n0, "checkpoint": tmp_path / "run"}
    sc.sample(stripes, image(), **settings | {"counts": counts})
    with pytest.raises(sc.InputError, match="belongs to another run: its counts are"):
        sc.sample(stripes, image(), **settings | {"counts": not counts})


def test_a_label_of_the_pilot_that_no_later_draw_has():
    """A draw of the pilot gives each component its label, which then comes up never: its count is 0."""

    def first(batch):
        return (batch > 0.3).long()

    x, settings = torch.zeros(3, 4), {"noise": sc.Gaussian(0.2), "n": 2, "n0": 1, "counts": True}
    runs = [sc.sample(first, x, seed=seed, **settings) for seed in range(10)]
    alone = [votes for votes in runs if votes.candidate.any() and not votes.counts[1].any()]
    assert alone  # seeds of which this is so
    assert all(votes.agree[votes.candidate == 1].sum() == 0 for votes in alone)
    with pytest.raises(sc.InputError, match="gave the label 1, but it has classes=1"):
        sc.sample(first, x, seed=alone[0].seed, classes=1, **settings)


@pytest.mark.parametrize("n0", [0, 7])
def test_votes_merge_by_adding_counts(n0):
    whole = sc.sample(stripes, image(), n=50, n0=n0, **SETTINGS)
    parts = [sc.sample(stripes, image(), n=m, n0=n0, first=f, **SETTINGS) for f, m in [(0, 20), (20, 30)]]
    merged = parts[1].merge(parts[0])
    assert same(merged, whole)
    assert np.array_equal(merged.counts, whole.counts)


def test_counts_after_fewer_draws_are_those_of_a_shorter_run(tmp_path):
    """Also after a kill between two of them, and from a file."""
    settings = {**SETTINGS, "n0": 7, "batch_size": 4}
    shorter = sc.sample(stripes, image(), **settings, n=18)
    resuming = {**settings, "n": 40, "prefixes": (18, 30), "checkpoint": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        sc.sample(mortal(13, KeyboardInterrupt), image(), **resuming, checkpoint_every=0)
    longer = sc.sample(stripes, image(), **resuming)
    longer.save(tmp_path / "votes")
    for votes in (longer, sc.Votes.load(tmp_path / "votes")):
        found = votes.at(18)
        assert same(found, shorter)
        assert np.array_equal(found.counts, shorter.counts)
        assert np.array_equal(found.pilot_counts, shorter.pilot_counts)
        assert votes.at(30).at(18).counts is not None


def test_the_pilot_is_counted_too_and_once(tmp_path):
    votes = sc.sample(stripes, image(), n=20, n0=7, **SETTINGS)
    assert (votes.pilot_counts.sum(0) == 7).all()
    assert np.array_equal(votes.pilot_counts.argmax(0), votes.candidate)
    merged = votes.merge(sc.sample(stripes, image(), n=20, n0=7, first=20, **SETTINGS))
    assert np.array_equal(merged.pilot_counts, votes.pilot_counts)
    assert sc.sample(stripes, image(), n=20, n0=0, **SETTINGS).pilot_counts is None
    plain = replace(votes, counts=None, pilot_counts=None)
    assert votes.merge(replace(plain, draws=((20, 40),))).pilot_counts is None


def test_votes_without_a_pilot_do_not_merge_without_counts():
    parts = [sc.sample(stripes, image(), noise=NOISE, n=20, n0=0, first=f, seed=0) for f in (0, 20)]
    with pytest.raises(sc.InputError, match="merge by the counts of all classes"):
        parts[0].merge(parts[1])


@pytest.mark.parametrize("n0", [0, 7])
def test_files_keep_counts_and_classes(tmp_path, n0):
    votes = sc.sample(Conv().eval(), image(), n=20, n0=n0, **SETTINGS)
    assert votes.classes == 5
    votes.save(tmp_path / "votes")
    found = sc.Votes.load(tmp_path / "votes")
    assert np.array_equal(found.counts, votes.counts)
    assert (found.classes, found.n0, found.counts.dtype) == (5, n0, np.uint16)


def test_files_of_version_3_have_no_counts(tmp_path):
    votes = sc.sample(stripes, image(), noise=NOISE, n=20, n0=3, seed=0)
    votes.save(tmp_path / "votes")
    header, arrays = archive.read(tmp_path / "votes", kind="votes", version=4)
    del header["classes"]
    archive.write(tmp_path / "votes", kind="votes", version=3, header=header, arrays=arrays)
    found = sc.Votes.load(tmp_path / "votes")
    assert same(found, votes)
    assert (found.counts, found.classes) == (None, None)


def test_the_number_of_classes():
    assert sc.sample(stripes, image(), n=20, n0=0, **SETTINGS).classes is None
    votes = sc.sample(stripes, image(), n=20, n0=0, **SETTINGS, classes=50)
    assert (votes.classes, len(votes.counts)) == (50, 50)
    for n0 in (0, 20):
        with pytest.raises(sc.InputError, match=r"gave the label \d+, but it has classes=21"):
            sc.sample(stripes, image(), n=20, n0=n0, **SETTINGS, classes=21)
    with pytest.raises(sc.InputError, match="logits have 5 classes, but classes=4"):
        sc.sample(Conv().eval(), image(), n=20, n0=0, **SETTINGS, classes=4)


def test_many_draws_need_more_bits():
    assert class_counts.count_type(65_535) == np.uint16
    assert class_counts.count_type(65_536) == np.uint32
    half = np.full((2, 3), 40_000, np.uint16)
    assert (class_counts.added(half, half, 160_000) == 80_000).all()


def test_the_most_frequent_is_the_lowest_of_equals():
    labels, best = class_counts.most_frequent(np.array([[1, 4, 0], [2, 4, 9], [2, 0, 9]]))
    assert labels.tolist() == [1, 0, 1]
    assert best.tolist() == [2, 4, 9]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": np.array([[7, 4], [3, 5]])}, "must add up to n=10"),
        ({"counts": np.array([[6, 4], [4, 6]])}, "agree must be the count"),
        ({"counts": np.array([[7.0, 4], [3, 6]])}, "must be integers"),
        ({"candidate": np.array([1, 1]), "agree": np.array([3, 6])}, "must be the most frequent"),
        ({"candidate": np.array([0, 2]), "classes": None}, "there are counts of 2 classes"),
        ({"classes": 3}, "counts are of 2 classes, but classes=3"),
        ({"counts": None, "classes": 1}, "candidates must be below classes=1"),
        ({"earlier": {5: np.array([3, 3])}}, "keep no earlier counts"),
        ({"n0": 3, "earlier_counts": {5: np.array([[3, 2], [2, 3]])}}, r"earlier_counts at \[5\]: earlier must be"),
        ({"n0": 3, "pilot_counts": np.array([[1, 1], [2, 2]])}, "the most frequent class of the draws that chose it"),
        ({"n0": 3, "pilot_counts": np.array([[2, 1], [2, 2]])}, "must add up to n=3"),
        ({"pilot_counts": np.array([[2, 1], [1, 2]])}, "n0 must be"),
        ({"n0": 3, "counts": None, "pilot_counts": np.array([[2, 1], [1, 2]])}, "belong to counts"),
    ],
)
def test_bad_counts_are_refused(change, message):
    good = sc.Votes(np.array([0, 1]), np.array([7, 6]), 10, 0, NOISE, counts=np.array([[7, 4], [3, 6]]), classes=2)
    with pytest.raises(sc.InputError, match=message):
        replace(good, **change)


def test_votes_without_a_pilot_are_certified_by_their_own_p_values():
    """k = 66 of 100 passes at tau = 1/2 and alpha = 0.001 with a pilot, and needs 67 without: 2 P(Bin >= k)."""
    agree = np.array([66, 67])
    pilot, none = (sc.Votes(np.array([3, 3]), agree, 100, n0, NOISE) for n0 in (10, 0))
    settings = {"tau": 0.5, "alpha": 0.0018, "correction": "bonferroni"}
    found = [sc.certify_votes(votes, **settings).labels.tolist() for votes in (pilot, none)]
    assert found == [[3, 3], [-1, 3]]
    halved = sc.radius_map(pilot, alpha=0.0005)
    assert np.array_equal(sc.radius_map(none, alpha=0.001), halved)
    assert sc.radius_map(pilot, alpha=0.001, cap=0.75).any()
    with pytest.raises(sc.InputError, match="a capped radius map needs votes with a pilot, but these have n0=0"):
        sc.radius_map(none, alpha=0.001, cap=0.75)
    with pytest.raises(sc.InputError, match="no pilot"):
        sc.indiv_class(none, alpha=0.001)
    for options in ({"correction": "bh"}, {"correction": "by"}, {"correction": "k-fwer", "k": 2}):
        with pytest.raises(sc.InputError, match="are certified by holm or bonferroni"):
            sc.certify_votes(none, tau=0.5, alpha=0.001, **options)


def test_certify_without_a_pilot():
    certificate = sc.certify(stripes, torch.linspace(0, 1, 20), sigma=0.05, n=60, n0=0, alpha=0.01, seed=0)
    assert certificate.n0 == 0
    assert 0 < certificate.certified < 20
    with pytest.raises(sc.InputError, match="can certify nothing"):
        sc.certify(stripes, torch.linspace(0, 1, 20), sigma=0.05, n=5, n0=0, alpha=0.01, seed=0)
    with pytest.raises(sc.InputError, match="prefixes are for votes with a pilot"):
        sc.sample(stripes, image(), noise=NOISE, n=20, n0=0, prefixes=(10,), seed=0)


def test_the_most_frequent_class_of_a_single_component():
    """Of a classification, which has no axes."""
    labels, best = class_counts.most_frequent(np.array([3, 90, 90], np.uint16))
    assert (int(labels), int(best)) == (1, 90)
