"""Cards: what they refuse, and that they come back whole from plain values and from files."""

import json
import math

import numpy as np
import pytest
import torch
from cards import card
from torch import nn

from segcertify import InputError, models
from segcertify.models import Card, card_of, read_card, save_model
from segcertify.models.card import read_model
from segcertify.models.families import describe
from segcertify.models.networks.hrnet import Architecture, HRNet
from segcertify.storage import archive


def hrnet(seed=0, **changes):
    torch.manual_seed(seed)
    return HRNet(Architecture(**{"width": 4, "classes": 3, "blocks": 1, "modules": (1, 1, 1), **changes})).eval()


def test_a_card_comes_back_from_plain_values():
    ours = card()
    assert Card.from_plain(json.loads(json.dumps(ours.to_plain()))) == ours
    assert Card.from_plain(ours.to_plain()) == ours
    assert ours.recipe["crop"] == [4, 5]
    assert card(sigma=[0.25, 0.5], classes=["sky", "road", "car | bus"]) == ours
    for name, other in (("sigma", (0.0,)), ("data", "b"), ("metrics", {}), ("date", "2025-02-01")):
        assert card(**{name: other}) != ours


def test_a_card_keeps_its_own_values():
    recipe = {"steps": [1, 2]}
    ours = card(recipe=recipe)
    recipe["steps"].append(3)
    assert ours.recipe == {"steps": [1, 2]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ("a", "b", "a")}, r"classes must be unique names, at least one, but got \('a', 'b', 'a'\)"),
        ({"classes": (), "colours": ()}, "classes must be unique names, at least one"),
        ({"classes": "abc"}, "classes must be a list, but got 'abc'"),
        ({"classes": ("a", "b", 3)}, "a class must be a text that is not empty, but got 3"),
        ({"classes": ("a", "b", " ")}, "a class must be a text"),
        ({"classes": ("a", "b")}, "2 classes need as many colours, but got 3"),
        ({"colours": ((0, 0, 0), (1, 1, 1), (1, 256, 1))}, "three integers from 0 to 255"),
        ({"colours": ((0, 0, 0), (1, 1, 1), (1, 1))}, "three integers from 0 to 255"),
        ({"colours": ((0, 0, 0), (1, 1, 1), (1, 1, -1))}, "not less than 0"),
        ({"colours": ((0, 0, 0), (1, 1, 1), (1, 1, 0.5))}, "a colour's part must be an integer, but got 0.5"),
        ({"colours": (0, 1, 2)}, "a colour must be a list, but got 0"),
        ({"sigma": (0.25, -0.5)}, r"sigma must not be negative, but got -0\.5"),
        ({"sigma": (math.inf,)}, "sigma must be finite"),
        ({"sigma": ("much",)}, "sigma must be a number"),
        ({"sigma": ()}, "sigma must list"),
        ({"sigma": 0.25}, r"sigma must be a list, but got 0\.25"),
        ({"date": "31.01.2025"}, r"date must be as in 2025-01-31, but got '31\.01\.2025'"),
        ({"date": "20250131"}, "date must be as in"),
        ({"date": "2025-02-30"}, "date must be as in"),
        ({"date": "2025-01-31T12:00"}, "date must be as in"),
        ({"data": ""}, "data must be a text that is not empty, but got ''"),
        ({"licence": None}, "licence must be a text"),
        ({"metrics": {"mIoU": math.nan}}, "the metric mIoU must be finite, but got nan"),
        ({"metrics": {"mIoU": "good"}}, "the metric mIoU must be a number"),
        ({"metrics": [0.5]}, r"metrics must be numbers by name, but got \[0\.5\]"),
        ({"recipe": {"path": nn.ReLU()}}, "recipe must hold plain values"),
        ({"recipe": {"lr": math.nan}}, "recipe must hold plain values"),
        ({"input_size": 0}, "input_size must be an integer not less than 1, but got 0"),
        ({"input_size": True}, "input_size must be an integer"),
        ({"input_size": "large"}, "input_size must be a list, but got 'large'"),
        ({"input_size": (3, 0.5)}, "a side of input_size must be an integer, but got 0.5"),
        ({"input_size": (1, 2, 3)}, r"input_size must be a number, or a height and a width, but got \(1, 2, 3\)"),
        ({"architecture": {}}, "architecture must name a family"),
        ({"architecture": {"family": "python"}}, "a factory's spec must be a text"),
        ({"architecture": {"family": "lite", "classes": 4}}, "the network has 4 classes, but the card names 3"),
    ],
)
def test_bad_cards(changes, message):
    with pytest.raises(InputError, match=message):
        card(**changes)


@pytest.mark.parametrize(
    ("size", "words"), [(160, "images with a short side of 160 pixels"), ([360, 480], "images of 360 x 480 pixels")]
)
def test_the_input_size(size, words):
    ours = card(input_size=size)
    assert Card.from_plain(json.loads(json.dumps(ours.to_plain()))) == ours != card()
    assert f"It does best on {words}.\n" in ours.markdown()


def test_a_card_without_an_input_size_is_written_as_before():
    plain = card().to_plain()
    assert "input_size" not in plain
    assert Card.from_plain(plain).input_size is None
    assert "It does best on" not in card().markdown()


def test_plain_values_that_are_no_card():
    plain = card().to_plain()
    with pytest.raises(InputError, match=r"missing \['data', 'date'\], unknown \['colour'\]"):
        Card.from_plain({k: v for k, v in plain.items() if k not in ("data", "date")} | {"colour": 3})
    for name, value in (("metrics", 3), ("classes", 3), ("architecture", None), ("recipe", [1])):
        with pytest.raises(InputError):
            Card.from_plain({**plain, name: value})


def test_markdown_says_what_one_needs():
    text = card().markdown("runs/a.safetensors")
    front, body = text.removeprefix("---\n").split("\n---\n", 1)
    assert {"license: other", "library_name: segcertify", "- image-segmentation"} <= set(front.splitlines())
    for part in (
        "camvid/train+val (468 scenes)",
        "Gaussian noise of sigma 0.25, 0.5",
        "cross-entropy, consistency 10",
        "CamVid: research only\nImageNet weights: Apache-2.0",
        "2025-01-31 with segcertify 0.1.0",
        "| epochs | 3 |",
        '| schedule | {"warm-up": 0.1, "kind": "cosine"} |',
        "| mIoU | 0.1235 |",
        r"| 2 | car \| bus | #ff0040 |",
        'sc.models.load("python:mine:make?depth=3&weights=runs/a.safetensors")',
        "about this model under the noise that was drawn",
    ):
        assert part in body
    assert "{" not in text.replace('{"warm-up"', "")


def test_markdown_of_a_model_without_noise():
    text = card(sigma=(0,), architecture=describe(hrnet())).markdown()
    assert "with no noise" in text
    assert 'sc.models.load("trained:model.safetensors")' in text
    assert "| modules | [1, 1, 1] |" in text


def test_markdown_where_nothing_was_measured():
    text = card(metrics={}).markdown()
    assert "Nothing was measured on other scenes" in text
    assert "| metric |" not in text


def test_markdown_of_a_model_of_clouds():
    text = card(architecture=describe(models.PointNet2(normals=True, parts=3))).markdown("parts.safetensors")
    assert 'sc.models.load("trained:parts.safetensors?category=Chair")' in text
    assert "sc.Gaussian(0.5, channels=(0, 1, 2), axis=1)" in text
    assert "- point-cloud-segmentation" in text
    assert "image" not in text


def test_markdown_of_an_ensemble_says_what_its_members_share():
    recipe = {"members": [{"steps": 3, "lam": 1.0}, {"steps": 3, "lam": 2.0, "note": "a | b"}]}
    text = card(architecture=describe(models.Ensemble([hrnet(), models.Lite(3, 8)])), recipe=recipe).markdown()
    for row in (
        "| family | ensemble |",
        "| family of the members | hrnet; lite |",
        "| width of the members | 4; 8 |",
        "| steps of the members | 3 |",
        "| lam of the members | 1.0; 2.0 |",
        r"| note of the members | -; a \| b |",
    ):
        assert row in text


def test_a_card_and_its_weights_come_back_from_a_file(tmp_path):
    model = hrnet()
    ours = card(architecture=describe(model))
    save_model(tmp_path / "a.safetensors", model, ours)
    assert read_card(tmp_path / "a.safetensors") == ours
    _, state = read_model(tmp_path / "a.safetensors")
    assert state.path == str(tmp_path / "a.safetensors")
    assert state.tensors.keys() == model.state_dict().keys()
    assert all(torch.equal(state.tensors[name].view_as(t), t) for name, t in model.state_dict().items())
    first = (tmp_path / "a.safetensors").read_bytes()
    save_model(tmp_path / "b.safetensors", model, ours)
    assert (tmp_path / "b.safetensors").read_bytes() == first


def test_half_precision(tmp_path):
    model, image = hrnet(), torch.rand(1, 3, 64, 64)
    ours = card(architecture=describe(model))
    for half in (False, True):
        save_model(tmp_path / f"{half}.safetensors", model, ours, half=half)
    whole, small = ((tmp_path / f"{half}.safetensors").stat().st_size for half in (False, True))
    header = 8 + int.from_bytes((tmp_path / "True.safetensors").read_bytes()[:8], "little")
    assert (small - header) < 0.52 * (whole - header)
    loaded = models.load_trained(tmp_path / "True.safetensors")
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    expected = model(image)
    assert torch.allclose(loaded(image), expected, atol=0.02 * float(expected.detach().std()))
    assert not torch.equal(loaded(image), expected)
    assert torch.equal(models.load_trained(tmp_path / "False.safetensors")(image), expected)


def test_other_precisions_and_layouts_are_stored_in_single_precision(tmp_path):
    for model in (hrnet().bfloat16(), hrnet().double(), hrnet().to(memory_format=torch.channels_last)):
        save_model(tmp_path / "a.safetensors", model, card(architecture=describe(model)))
        loaded = models.load_trained(tmp_path / "a.safetensors")
        for ours, theirs in zip(loaded.parameters(), model.parameters(), strict=True):
            assert torch.equal(ours, theirs.float())


def test_weights_that_do_not_fit_in_half_precision_stay_in_single(tmp_path):
    model = hrnet()
    ours = card(architecture=describe(model))
    model.bn1.running_var[3] = 70_000.0
    save_model(tmp_path / "b.safetensors", model, ours, half=True)  # after a long training is too late for an error
    found = read_model(tmp_path / "b.safetensors")[1].tensors
    assert [name for name, tensor in found.items() if tensor.dtype == torch.float32] == ["bn1.running_var"]
    assert models.load_trained(tmp_path / "b.safetensors").bn1.running_var[3] == 70_000
    model.bn1.running_var[3] = math.nan
    with pytest.raises(InputError, match=r"bn1\.running_var are NaN or infinite"):
        save_model(tmp_path / "a.safetensors", model, ours)
    assert not (tmp_path / "a.safetensors").exists()


def test_a_card_of_another_network_is_not_saved(tmp_path):
    with pytest.raises(InputError, match=r"the card describes another network.*'width': 8.*'width': 4"):
        save_model(tmp_path / "a.safetensors", hrnet(), card(architecture=describe(hrnet(width=8))))
    with pytest.raises(InputError, match="a Linear cannot be described"):
        save_model(tmp_path / "a.safetensors", nn.Linear(2, 2), card(architecture=describe(hrnet())))
    assert not list(tmp_path.iterdir())


def test_a_header_that_is_no_card(tmp_path):
    plain = card().to_plain()
    for header, message in (
        ({}, "missing .*'architecture'"),
        ({**plain, "date": "today"}, "date must be"),
        ({**plain, "recipe": 3}, "recipe must hold plain values|unreadable card"),
    ):
        archive.write(tmp_path / "a.safetensors", kind="model", version=1, header=header, arrays={"a": np.ones(1)})
        with pytest.raises(InputError, match=rf"a\.safetensors: .*({message})"):
            read_card(tmp_path / "a.safetensors")


@pytest.mark.parametrize("joined", [False, True])
def test_a_file_of_version_1_is_read_with_todays_names(tmp_path, joined):
    old, new = (
        {"steps": 3, "attack_steps": 2, "scale": [0.5, 2.0]},
        {"iterations": 3, "attack_steps": 2, "rescale": [0.5, 2.0]},
    )
    for version, recipe, found in ((1, old, new), (2, new, new), (2, {"steps": 3}, {"steps": 3})):
        header = {**card().to_plain(), "recipe": {"members": [recipe, recipe]} if joined else recipe}
        archive.write(tmp_path / "a.safetensors", kind="model", version=version, header=header, arrays={})
        assert read_card(tmp_path / "a.safetensors").recipe == ({"members": [found, found]} if joined else found)


def test_card_through_wrappers():
    model = hrnet()
    wrapped = models.with_precision(models.MultiScale(models.adapt(model), (0.5,)), "bf16")
    assert card_of(wrapped) is None
    assert card_of(lambda batch: batch) is None
    model.card = card(architecture=describe(model))
    assert card_of(model) is card_of(wrapped) is model.card
