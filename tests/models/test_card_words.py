"""The sentences of cards: what they promise depends on the training."""

import torch
from cards import card

from segcertify import models
from segcertify.models.card_words import none_certified, of
from segcertify.models.families import describe


def test_a_model_that_was_trained_on_noise():
    words = of(card(), "roads_")
    assert words["title"] == r"roads\_: a segmentation network (python) for 3 classes"
    assert (
        "many copies with Gaussian noise of sigma 0.25, 0.5, and gives each pixel of an image a label"
        in words["intended"]
    )
    assert "under other noise it may abstain more" in words["limits"]
    assert "A certified label may be wrong" in words["limits"]


def test_one_without_noise_is_for_comparison():
    words = of(card(sigma=(0.0,)), "twin")
    assert words["intended"].startswith("For comparison: a network that was trained without noise")
    assert "under any noise it may abstain more" in words["limits"]


def test_clouds_and_denoisers():
    torch.manual_seed(0)
    clouds = of(card(architecture=describe(models.PointNet2(normals=True, parts=3))), "parts")
    assert "for point clouds, 3 classes" in clouds["title"]
    assert "each point of a cloud" in clouds["intended"]
    denoiser = card(architecture={"family": "denoiser"}, colours=((0, 0, 0),) * 3)
    assert of(denoiser, "d")["title"] == "d: a denoiser of images"
    assert "certifies nothing by itself" in none_certified(denoiser, "d")


def test_without_results_the_card_says_how_to_measure_them():
    said = none_certified(card(), "my file.safetensors")
    assert "segcertify evaluate --model 'python:mine:make?depth=3&weights=my file.safetensors' --data DATA" in said
    assert "--sigma 0.5 --n 100 --tau 0.75`" in said
