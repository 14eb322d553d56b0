"""Recipe: through JSON and back, and every setting that is refused."""

import json
import subprocess
import sys

import pytest

from segcertify import InputError
from segcertify.training import Intervals, Recipe

DECAYING = Recipe(
    optimiser="adam", epochs=3, schedule="step", decay_every=2, bn_momentum=(0.1, 0.01), class_weights=(0.5, 1.5)
)
OTHER = Recipe(objective="consistency", sigma=(0.1, 0.5), m=3, crop=(32, 48), rescale=(1.0, 1.5), flip=False, seed=7)


@pytest.mark.parametrize("recipe", [Recipe(), OTHER, DECAYING, Recipe(objective="non-robust", sigma=())])
def test_round_trip_through_json(recipe):
    assert Recipe.from_plain(json.loads(json.dumps(recipe.to_plain()))) == recipe


def test_lists_are_tuples():
    assert Recipe(sigma=[0.1], crop=[32, 48], rescale=[1.0, 2.0]) == Recipe(
        sigma=(0.1,), crop=(32, 48), rescale=(1.0, 2.0)
    )


def test_the_noise_that_is_drawn():
    assert OTHER.drawn == (0.1, 0.5)
    assert Recipe(objective="non-robust").drawn == (0.0,)


def test_unknown_settings_are_refused():
    with pytest.raises(InputError, match="unknown setting of a recipe 'learning_rate'"):
        Recipe.from_plain({"learning_rate": 0.1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("objective", "optimiser", "schedule", "class_weights", "precision")
          for value in ("other", None)),
        *(("class_weights", value) for value in ((), (1.0, 0.0), (1.0, "x"), "0.8,1")),
        *((name, value) for name in ("nesterov", "decay_norms") for value in ("no", 1, None)),
        *(("epochs", value) for value in (-1, 0.5, True)),
        *(("decay_every", value) for value in (0, 1.5)),
        *(("gamma", value) for value in (0, 1.0, -0.5)),
        *(("lr_floor", value) for value in (-0.1, 1.0)),
        *(("shift", value) for value in (-0.1, float("nan"))),
        *(("bn_momentum", value) for value in (0.1, (0.1,), (0.01, 0.1), (1.5, 0.1), None)),
        *((name, value) for name in ("m", "attack_steps", "iterations", "batch_size")
          for value in (0, -1, 1.5, True, "x")),
        *(("seed", value) for value in (-1, 0.5)),
        *((name, value) for name in ("lr", "encoder_lr", "epsilon", "power", "ohem")
          for value in (0, -1, float("nan"), float("inf"), "x")),
        *((name, value) for name in ("lam", "eta", "weight_decay", "clip", "rotate", "colour")
          for value in (-0.1, float("nan"), "x")),
        *((name, value) for name in ("warmup", "ema", "momentum") for value in (-0.1, 1.0, float("inf"), None)),
        ("ohem", 1.1),
        *((name, value) for name in ("teacher_weight", "paste") for value in (-0.1, 1.1, float("nan"), "x")),
        *(("teacher", value) for value in ("camvid", None)),  # of an objective that has none
        *(("sigma", value) for value in ((), (0.0,), (0.25, -1), ("x",), 0.25, "0.25", None)),
        *(("crop", value) for value in (320, (320,), (320, 8), (320, 41.5), (64, 64, 64), None)),
        *(("rescale", value) for value in (1.0, (1.0,), (2.0, 1.0), (0, 1.0), (-1, 1), (1, float("inf")), "ab")),
        *(("flip", value) for value in ("no", 1, None)),
    ],
)  # fmt: skip
def test_bad_settings_are_named(name, value):
    with pytest.raises(InputError, match=rf"\b{name}\b"):
        Recipe(**{name: value})


def test_consistency_needs_two_copies():
    with pytest.raises(InputError, match="m must be at least 2"):
        Recipe(objective="consistency", m=1)
    assert Recipe(objective="smoothadv", m=1).m == 1


def test_distillation_needs_a_teacher():
    with pytest.raises(InputError, match=r"needs a teacher, such as camvid: got the objective distillation and .* ''$"):
        Recipe(objective="distillation")
    assert Recipe(objective="distillation", teacher="camvid", teacher_weight=1.0, paste=1.0).m == 2


@pytest.mark.parametrize("edge", [{"ohem": 1.0}, {"warmup": 0}, {"ema": 0}, {"clip": 0}, {"rescale": (1, 1)}])
def test_edges_that_are_allowed(edge):
    Recipe(**edge)


@pytest.mark.parametrize(
    ("scenes", "batch_size", "steps"), [(2975, 12, 484 * 247), (14007, 16, 484 * 875), (3, 8, 484), (8, 8, 484)]
)
def test_epochs_are_whole_batches(scenes, batch_size, steps):
    recipe = Recipe(epochs=484, batch_size=batch_size).for_data(scenes=scenes, classes=3)
    assert (recipe.epochs, recipe.iterations) == (484, steps)
    assert recipe.for_data(scenes=scenes, classes=3) == recipe
    assert Recipe().for_data(scenes=scenes, classes=3) == Recipe()


@pytest.mark.parametrize("how", [{"schedule": "step"}, {"bn_momentum": (0.1, 0.01)}])
def test_decay_counts_epochs(how):
    with pytest.raises(InputError, match="decays after epochs: give epochs"):
        Recipe(**how)


def test_class_weights_are_as_many_as_the_classes():
    with pytest.raises(InputError, match="class_weights has 2 weights, but the data have 3 classes"):
        Recipe(class_weights=(1.0, 2.0)).for_data(scenes=5, classes=3)
    assert Recipe(class_weights=[1, 2, 3]).for_data(scenes=5, classes=3).class_weights == (1.0, 2.0, 3.0)


def test_a_recipe_needs_no_torch():
    code = "import sys; from segcertify.training import Recipe; Recipe(); print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == "False"


def test_intervals():
    for name in ("log", "save", "validate"):
        with pytest.raises(InputError, match=rf"the steps of {name}-every must be an integer not less than 1"):
            Intervals(**{name: 0})
    for name in ("save", "validate"):
        with pytest.raises(InputError, match=rf"{name}-every must be a multiple of log-every, 2, but is 7: use 8"):
            Intervals(**{"log": 2, "save": 4, "validate": 4, name: 7})
