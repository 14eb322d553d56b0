"""The best input size of a model, and the note about inputs that are far from it."""

import pytest

from segcertify import models


@pytest.fixture(scope="module")
def pets():
    return models.load("pets")


def test_best_size(pets):
    assert models.best_size(pets) == models.best_size(models.MultiScale(pets, (0.5,))) == 160
    assert models.best_size(models.load_bundled("camvid")) == (360, 480)
    assert models.best_size(models.load("parts?category=Mug")) == 2048
    assert models.best_size(models.Lite(2, 8)) is None
    assert models.best_size(len) is None


def test_the_size_that_images_are_given(pets):
    assert models.given_short_side(pets) == models.given_short_side(pets, (161, 900)) == 160
    assert models.given_short_side(pets, (160, 900)) is models.given_short_side(pets, (900, 100)) is None
    assert models.given_short_side(models.load_bundled("camvid")) == 360
    assert models.given_short_side(models.MultiScale(pets, (0.5,))) is None  # resizes after the noise
    assert models.given_short_side(models.load("parts?category=Mug")) is None
    assert models.given_short_side(models.Lite(2, 8)) is models.given_short_side(len) is None


@pytest.mark.parametrize("shape", [(3, 160, 160), (3, 240, 900), (3, 300, 107)])
def test_no_note_near_the_best_size(pets, shape):
    assert models.size_note(pets, shape) is None


@pytest.mark.parametrize("shape", [(3, 241, 300), (3, 500, 106)])
def test_a_note_far_from_the_best_size(pets, shape):
    note = models.size_note(pets, shape)
    has = f"{shape[1]} x {shape[2]} pixels"
    assert note == (
        f"this model does best on images with a short side of 160 pixels, but this input has {has}: "
        "resize it to a short side of about 160 pixels"
        + " (small images are not enlarged by default: that makes R in their own pixels smaller)"
        * (shape[2] < 160)
    )


def test_a_model_that_rescales_is_judged_by_its_nearest_scale(pets):
    assert models.size_note(models.MultiScale(pets, (0.25, 1.0)), (3, 640, 700)) is None
    assert "640 x 700" in models.size_note(models.MultiScale(pets, (0.5, 1.0)), (3, 640, 700))


def test_notes_for_height_and_width_and_for_clouds():
    assert models.size_note(models.load("camvid"), (3, 360, 480)) is None
    assert "images of 360 x 480 pixels, but this input has 720 x 960" in models.size_note(
        models.load("camvid"), (3, 720, 960)
    )
    parts = models.load("parts?category=Mug")
    assert models.size_note(parts, (2048, 6)) is None
    assert "this input has 1024 points: draw about 2048 points" in models.size_note(parts, (1024, 6))


def test_no_note_where_nothing_is_known():
    assert models.size_note(models.Lite(2, 8), (3, 9, 9)) is None
    assert models.size_note(len, (3, 9, 9)) is None
