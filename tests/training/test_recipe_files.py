"""Recipes in files: what ships has the paper's numbers, a run's recipe.json is read, and others are refused."""

import json

import pytest
from toys import load, quick, small, trained
from trees import cityscapes

import segcertify as sc
from segcertify import InputError
from segcertify.models import new
from segcertify.training.recipe import Recipe
from segcertify.training.recipe_files import read_recipe, ready_recipes

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.mark.parametrize("name", ready_recipes())
def test_the_model_of_a_ready_recipe_exists(name):
    recipe, model = read_recipe(name)
    assert recipe.sigma == (0.25,)  # [Fischer2021, sec. 6.2]
    assert model in ("hrnet:w48", "pointnet2?normals=false")
    assert new("hrnet:w18-small-v2" if model == "hrnet:w48" else model, classes=50) is not None


def test_hrnet_on_cityscapes_is_that_of_its_public_configuration(tmp_path):
    """SGD 0.01, 0.9, 5e-4 on all weights, no Nesterov; poly 0.9; 484 epochs of 2975 // 12 batches; 512 x 1024."""
    recipe, _ = read_recipe("cityscapes-hrnet")
    assert (recipe.optimiser, recipe.lr, recipe.momentum, recipe.nesterov) == ("sgd", 0.01, 0.9, False)
    assert (recipe.weight_decay, recipe.decay_norms) == (5e-4, True)
    assert (recipe.schedule, recipe.power, recipe.warmup, recipe.lr_floor) == ("poly", 0.9, 0, 0)
    assert recipe.for_data(scenes=2975, classes=19).iterations == 119_548
    assert (recipe.crop, recipe.rescale, recipe.flip, recipe.colour, recipe.rotate) == (
        (512, 1024),
        (0.5, 2.1),
        True,
        0,
        0,
    )
    assert (recipe.ohem, recipe.clip, recipe.ema, recipe.precision) == (1, 0, 0, "fp32")
    data = sc.data.load(f"cityscapes:{cityscapes(tmp_path)}?split=train")
    weights = dict(zip(data.classes, recipe.class_weights, strict=True))
    assert (weights["road"], weights["rider"], weights["motorcycle"]) == (0.8373, 1.1116, 1.1529)
    paper = (recipe.m, recipe.lam, recipe.eta)  # of --objective consistency [Fischer2021, app. B]
    assert paper == (2, 1.0, 0.5)


def test_pointnet2_on_shapenet_is_that_of_its_public_script():
    """Adam 1e-3, 1e-4 on all weights; halved every 20 of 251 epochs, as the batch norms' momentum; 0.8 .. 1.25, 0.1."""
    recipe, _ = read_recipe("shapenet-pointnet2")
    assert (recipe.optimiser, recipe.lr, recipe.weight_decay, recipe.decay_norms) == ("adam", 1e-3, 1e-4, True)
    assert (recipe.schedule, recipe.gamma, recipe.decay_every, recipe.warmup) == ("step", 0.5, 20, 0)
    assert recipe.lr_floor * recipe.lr == pytest.approx(1e-5)
    assert recipe.bn_momentum == (0.1, 0.01)
    assert recipe.for_data(scenes=14007, classes=50).iterations == 251 * 875
    assert (recipe.rescale, recipe.shift, recipe.flip, recipe.rotate) == ((0.8, 1.25), 0.1, False, 0)
    assert (recipe.clip, recipe.ema, recipe.precision, recipe.class_weights) == (0, 0, "fp32", "none")


def test_a_runs_recipe_is_read(tmp_path):
    recipe = quick(sigma=(0.1, 0.5), class_weights=(1.0, 2.0, 3.0), epochs=2)
    path = trained(load(tmp_path / "toys"), tmp_path / "out", recipe, small())
    found, model = read_recipe(path.with_name("recipe.json"), trust_code=True)
    assert found == recipe.for_data(scenes=6, classes=3)
    assert model == "python:toys:small"


def test_what_a_file_leaves_out_has_its_default(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps({"lr": 0.5}))
    assert read_recipe(tmp_path / "mine.json") == (Recipe(lr=0.5), "")


@pytest.mark.parametrize("key", ["model", "teacher"])
@pytest.mark.parametrize("spec", ["python:evil:make", "pt2:evil.pt2", "torchscript:evil.pt?output=1"])
def test_a_file_that_names_code_needs_trust(tmp_path, key, spec):
    values = {key: spec} | ({"objective": "distillation"} if key == "teacher" else {})
    (tmp_path / "mine.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=rf"mine.json names code to run \({key} '.*add --trust-code"):
        read_recipe(tmp_path / "mine.json")
    for trusted in ({"trust_code": True}, {"replaced": [key]}):
        recipe, model = read_recipe(tmp_path / "mine.json", **trusted)
        assert spec in (recipe.teacher, model)


def test_unknown_names_get_a_suggestion():
    with pytest.raises(
        InputError, match=r"unknown recipe 'cityscape-hrnet': did you mean 'cityscapes-hrnet'\? Use .*json"
    ):
        read_recipe("cityscape-hrnet")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "must hold values by name"),
        ('{"learning_rate": 1}', "unknown setting of a recipe 'learning_rate'"),
        ('{"lr": -1}', "lr must be positive"),
        ('{"model": 1}', "its model must be a spec"),
    ],
)
def test_files_that_are_no_recipes_are_named(tmp_path, text, message):
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(InputError, match=rf"mine\.json.*{message}"):
        read_recipe(tmp_path / "mine.json")
