"""The plain sentences: what they say of each kind of certificate, what they round, and who gets none."""

import re
from dataclasses import replace

import numpy as np
import pytest

import segcertify as sc
from segcertify import plain_words
from segcertify.claims import Claim
from segcertify.noise import EXAMPLES
from segcertify.preprocessing import of_cloud, of_image
from segcertify.reproduce.axis_angle import UnprovenAxisAngle

IMAGE = {"input_shape": (3, 20, 30), "preprocessing": of_image((20, 30), (20, 30))}


def votes(shape=(20, 30), agree=100, noise=None, **about):
    """All components but the first ten agree ``agree`` times in 100."""
    counts = np.full(shape, agree)
    counts.flat[:10] = 50
    return sc.Votes(np.ones(shape, int), counts, n=100, n0=10, noise=noise or sc.Gaussian(0.25), **about)


def sentence(norm=None, correction="holm", **options):
    return sc.certify_votes(votes(**options), tau=0.75, alpha=0.001, norm=norm, correction=correction).sentence


def test_an_image():
    assert sentence(**IMAGE) == (
        "Proved with probability at least 99.9% over the noise drawn: whatever change of up to 0.168 in l2 norm is "
        "made to the image (colours from 0 to 1; such as 42 of 255 steps in one colour of one pixel, or less in many), "
        "590 of 600 pixels (98.3%) all keep their label, the model's most likely one under noise."
    )


def test_examples_fit_the_norm_and_are_rounded_down():
    assert "such as 1 of 255 steps in every colour of every pixel)" in sentence(norm="linf", **IMAGE)
    assert "less than 1 of 255 steps in one colour of one pixel" in sentence(noise=sc.Gaussian(0.005), **IMAGE)
    assert "such as 255 of 255 steps in every colour" in sentence(
        noise=sc.Gaussian(999), norm="linf", **IMAGE
    )  # no more
    assert "such as any change of 12 pixels, or less in many)" in sentence(noise=sc.Gaussian(9), **IMAGE)
    assert "such as any change of 2 pixels, or less in many)" in sentence(noise=sc.Laplace(9), **IMAGE)
    for radius in np.random.default_rng(1).uniform(1, 40, 200):
        for norm, power in (("l1", 1), ("l2", 2)):
            words = plain_words.example(IMAGE["preprocessing"], radius, norm).split()
            changed = 1 if words[3] == "one" else 3 * int(words[3])  # colours, each by at most 1
            assert changed ** (1 / power) <= radius
    assert "such as 44 of 255 steps in one colour of one pixel, or less" in sentence(noise=sc.Laplace(0.25), **IMAGE)
    for radius in np.random.default_rng(0).uniform(0.004, 1, 200):
        words = plain_words.example(IMAGE["preprocessing"], radius, "l2")
        assert int(words.split()[0]) / 255 <= radius


def test_a_resized_image_speaks_of_the_files_pixels():
    words = sentence(input_shape=(3, 20, 30), preprocessing=of_image((40, 60), (20, 30), "box"))
    assert "made to the file's 40 x 60 pixels (colours from 0 to 1; such as 85 of 255 steps" in words
    assert "590 of 600 pixels at 20 x 30 (98.3%)" in words


def test_without_a_file_nothing_is_said_of_colours():
    words = sentence()
    assert "made to the input (such as 0.168 in one entry, or less in many), 590 of 600 components" in words
    assert "colour" not in words
    assert "590 of 600 pixels" in sentence(input_shape=(3, 20, 30))
    assert "voxels" in sentence(shape=(4, 5, 6), input_shape=(1, 4, 5, 6))


def test_some_channels_have_their_own_threat():
    words = sentence(noise=sc.Gaussian(0.25, channels=(0,), axis=0), **IMAGE)
    assert "l2 norm on channels [0] of axis 0 (all else unchanged)" in words
    assert "255" not in words


def test_a_cloud():
    about = {"shape": 2048, "input_shape": (2048, 6), "preprocessing": of_cloud()}
    words = sentence(noise=sc.Gaussian(0.25, channels=(0, 1, 2), axis=1), **about)
    assert (
        "however the 2,048 points of the cloud (of radius 1) are moved, by up to 0.168 in l2 norm over all of them "
        "(such as one point by that much, or each by 0.0037), with all else as it is, 2,038 of 2,048 points" in words
    )
    turned = sentence(noise=sc.Rotation(0.25), **about)
    assert "however the cloud is turned about any axis through the origin, by up to 9.73 degrees (0.169 rad" in turned
    assert "about the axis z through" in sentence(noise=sc.AxisRotation(0.25, axis="z"), **about)


def test_noise_on_all_columns_moves_the_points_of_a_cloud_that_has_three():
    """An array of three columns that is not known to be a cloud may be anything."""
    about = {"shape": 50, "input_shape": (50, 3), "noise": sc.Gaussian(0.25)}
    moved = "however the 50 points of the cloud (of radius 1) are moved, by up to 0.168 in l2 norm over all of them"
    assert moved in sentence(preprocessing=of_cloud(), **about)
    assert "whatever change of up to 0.168 in l2 norm is made to the input" in sentence(**about)


def test_several_labels_of_a_pixel_are_no_pixels():
    """Of a model of several decisions for each pixel, N is their number times that of the pixels."""
    assert "1,790 of 1,800 components (99.4%)" in sentence(shape=(3, 20, 30), **IMAGE)
    points = {"input_shape": (50, 3), "preprocessing": of_cloud(), "noise": sc.Gaussian(0.25)}
    assert "90 of 100 components" in sentence(shape=(2, 50), **points)
    assert "40 of 50 points" in sentence(shape=50, **points)


def test_nothing_certified_says_so_and_what_may_help():
    words = sentence(agree=60, **IMAGE)
    assert words.startswith("Nothing is certified: all 600 pixels abstain, and nothing is promised")
    assert "probability" not in words
    nothing = sc.RadiusMap.of(votes(agree=40, **IMAGE), alpha=0.001)
    assert nothing.sentence.startswith("Nothing is certified: all 600 pixels have radius 0")


@pytest.mark.parametrize("correction", ["bh", "by", "k-fwer"])
def test_what_is_not_proved_of_all_labels_has_no_sentence(correction):
    k = {"k": 3} if correction == "k-fwer" else {}
    assert sc.certify_votes(votes(), tau=0.75, alpha=0.001, correction=correction, **k).sentence == ""
    assert plain_words.over(Claim.named(correction, 0.001, sc.Gaussian(0.25), **k), 3, preprocessing=None) == ""


def test_an_unproven_noise_has_no_sentence():
    cloud = {"shape": 100, "input_shape": (100, 3)}
    made = votes(noise=UnprovenAxisAngle(0.25), **cloud)
    assert sc.certify_votes(made, tau=0.75, alpha=0.001).sentence == ""
    assert plain_words.over(Claim.named("holm", 0.001, UnprovenAxisAngle(0.25)), 1, preprocessing=None) == ""


@pytest.mark.parametrize("noise", EXAMPLES, ids=str)
def test_every_proven_noise_has_one(noise):
    words = sentence(shape=100, noise=noise, input_shape=(100, 6))
    assert re.match(r"Proved with probability at least 99\.9% over the noise drawn: \w+ever ", words)


def test_a_map_says_what_half_of_its_radii_reach():
    found = sc.RadiusMap.of(votes(**IMAGE), alpha=0.001)
    assert "each of 590 of 600 pixels (98.3%) keeps its label" in found.sentence
    half = re.search(r"At least half of these radii are ([\d.]+) or more \(such as (\d+) of 255 steps", found.sentence)
    assert (found.radii[found.radii > 0] >= float(half[1])).mean() >= 0.5
    assert int(half[2]) / 255 <= float(half[1]) + 5e-3
    assert found.radii.max() == pytest.approx(0.28810, abs=1e-5)
    assert [half[1], found.sentence.rpartition(" ")[2]] == ["0.288", "0.288."]  # three digits, as in all sentences


def test_sets_and_metrics():
    counts = np.zeros((3, 4, 5), int)
    counts[1] = 100
    made = sc.Votes(
        np.ones((4, 5), int), np.full((4, 5), 100), n=100, n0=10, noise=sc.Gaussian(0.25), counts=counts, classes=3,
        pilot_counts=counts // 10,
    )  # fmt: skip
    sets = sc.certify_sets(made, tau=0.75, alpha=0.001)
    assert "the majority label of each of 20 components, if it has one, is in its set" in sets.sentence
    assert replace(sets, sets=np.ones((3, 4, 5), bool), labels=np.full((4, 5), -1), excludes=False).sentence == ""
    metric = sc.MetricCertificate("accuracy", np.linspace(0.8, 0.9, 100), 0.05, 0.5, 0.001, sc.Gaussian(0.25))
    assert metric.sentence.endswith("in at least 50% of the noisy runs.")
    assert f"accuracy is at least {metric.bound:.4f}"[:-1] in metric.sentence
    few = sc.MetricCertificate("accuracy", np.array([0.5]), 0.05, 0.5, 0.001, sc.Gaussian(0.25))
    assert few.sentence == ""


def test_several_scenes():
    claim = Claim.named("holm", 0.001, sc.Gaussian(0.25))
    words = plain_words.over(claim, 31, preprocessing=of_image(), radii=[0.32, 0.16862])
    assert words == (
        "Proved with probability at least 96.9% over the noise drawn, for all 31 scenes together: whatever change of "
        "up to R in l2 norm is made to each input, all its certified pixels keep their label, the model's most likely "
        "one under noise. R = 0.168 is, for example, 42 of 255 steps in one colour of one pixel, or less in many."
    )
    assert plain_words.over(claim, 1000, preprocessing=of_image()) == ""  # nothing is claimed of all together
    assert "for all" not in plain_words.over(claim, 1, preprocessing=None)
    clouds = Claim.named("holm", 0.001, sc.Gaussian(0.25, channels=(0, 1, 2), axis=1))
    moved = "however the points of each cloud are moved, by up to R in l2 norm over all of them, all its cert"
    assert moved in plain_words.over(clouds, 31, preprocessing=of_cloud())
    colours = Claim.named("holm", 0.001, sc.Gaussian(0.25, channels=(0, 1, 2), axis=0))
    words = plain_words.over(colours, 31, preprocessing=of_image())
    assert "change of up to R in l2 norm on channels [0, 1, 2] of axis 0 (all else unchanged) is made to each" in words
    resized = plain_words.over(claim, 1, preprocessing=of_image(after=90, method="box"), radii=[0.16862])
    assert resized.endswith("or less in many (of images as they are after the resize).")  # the files have other pixels
