"""The card of a trained model."""

import json

import pytest
import torch
from toys import quick, trained, weights

import segcertify as sc
from segcertify.models import read_card
from segcertify.training import Recipe
from segcertify.training.log import read_log

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_the_card_says_where_the_model_comes_from(data, tmp_path):
    recipe = quick(objective="consistency", sigma=(0.1, 0.5))
    model = sc.models.new("hrnet?width=4&blocks=1&modules=1,1,1", classes=3)
    path = trained(
        data, tmp_path / "out", recipe, model, spec="hrnet", start="a.pth", licence="mine", validation=data, half=True
    )
    card = read_card(path)
    assert card.architecture["family"] == "hrnet"
    assert card.classes == ("red", "green", "blue")
    assert card.colours == tuple(tuple(colour) for colour in data.colours.tolist())
    assert card.data == "toys/train (6 scenes), started from a.pth"
    assert (card.objective, card.sigma, card.licence) == ("consistency", (0.1, 0.5), "mine")
    assert Recipe.from_plain(card.recipe) == recipe
    last = read_log(path.with_name("log.csv"))[-1]
    assert list(card.metrics.values()) == [last["validation accuracy"], last["validation mIoU"]]
    assert all("on other scenes" in name for name in card.metrics)
    assert card.version == sc.__version__
    assert len(card.date) == 10
    assert "toys/train (6 scenes)" in path.with_name("model.md").read_text()
    assert json.loads(path.with_name("recipe.json").read_text())["objective"] == "consistency"
    assert all(w.dtype in (torch.float16, torch.int64) for w in weights(path).values())
    loaded = sc.models.load(f"trained:{path}")
    assert loaded(torch.rand(1, 3, 24, 32)).shape[1] == 3
