"""Networks made anew by name, described, and built again from their description."""

import json
import math

import pytest
import torch
from torch import nn

from segcertify import InputError, models
from segcertify.models.families import LARGEST, build, describe
from segcertify.models.networks.hrnet import W18_SMALL_V2, W48, Architecture, HRNet
from segcertify.models.networks.lite import Lite

TINY = "width=4&blocks=1&modules=1,1,1"


def make(classes=2, depth=1, name="a"):
    """A user's network."""
    model = nn.Sequential(*(nn.Conv2d(3 if i == 0 else classes, classes, 1) for i in range(depth)))
    model.settings = (classes, depth, name)
    return model


def make_anything(**settings):
    model = nn.Conv2d(3, settings["classes"], 1)
    model.settings = settings
    return model


def make_two():
    return nn.Conv2d(3, 2, 1)


def make_function():
    return lambda batch: batch


@pytest.mark.parametrize(
    ("spec", "architecture"),
    [
        (f"hrnet?{TINY}", Architecture(4, 5, 1, (1, 1, 1))),
        ("hrnet?width=18&blocks=2&modules=1,3,2", Architecture(18, 5, 2, (1, 3, 2))),
        ("hrnet:w18-small-v2", Architecture(18, 5, W18_SMALL_V2.blocks, W18_SMALL_V2.modules)),
        ("hrnet:w18-small-v2?width=4", Architecture(4, 5, 2, (1, 3, 2))),
        ("hrnet:w18", Architecture(18, 5, 4, (1, 4, 3))),
        ("hrnet:w48", Architecture(48, 5, 4, (1, 4, 3))),
        ("hrnet", Architecture(48, 5, W48.blocks, W48.modules)),
    ],
)
def test_new_hrnets(spec, architecture):
    with torch.device("meta"):
        model = models.new(spec, classes=5)
    assert type(model) is HRNet
    assert model.architecture == architecture


def test_new_lite():
    model = models.new("lite", classes=5)
    assert (type(model), model.classes, model.width) == (Lite, 5, Lite(5).width)
    assert model.eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 5, 8, 8)
    assert models.new("lite?width=8", classes=2).width == 8
    assert models.new("lite?width=8&stride=16", classes=2).stride == 16


def test_new_from_a_factory():
    assert models.new(f"python:{__name__}:make", classes=5).settings == (5, 1, "a")
    assert models.new(f"python:{__name__}:make?depth=2&name=b", classes=5).settings == (5, 2, "b")
    assert models.new(f"python:{__name__}:make?classes=3", classes=5).settings == (3, 1, "a")  # the user's word
    assert models.new(f"python:{__name__}:make_anything?x=1", classes=5).settings == {"classes": 5, "x": 1}
    assert models.new(f"python:{__name__}:make_two", classes=5).out_channels == 2


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("resnet", "unknown architecture 'resnet': .*[Uu]se lite, hrnet, pointnet2, denoiser or python:MODULE:FACTORY"),
        ("", "unknown architecture ''"),
        ("hrnet:w99", "unknown kind of hrnet 'w99': .*se w48, w18 or w18-small-v2"),
        ("hrnet:weights.pth", "unknown kind of hrnet 'weights.pth': .*se w48, "),
        ("hrnet?width=0", "width cannot be '0' in .*: write width=NUMBER .at least 1"),
        ("hrnet?width=wide", "width cannot be 'wide' in .*: write width=NUMBER .at least 1"),
        ("hrnet?width=²", "width cannot be '²'"),
        ("hrnet?modules=1,2", r"modules must be three counts of at most 16, for stages 2, 3 and 4, but got \(1, 2\)"),
        ("hrnet?modules=1,2,x", "modules cannot be '1,2,x' in .*: write modules=NUMBER,NUMBER,NUMBER"),
        (
            f"hrnet?{TINY}&depth=3",
            "unknown option 'depth' in .*: use width=NUMBER .*, blocks=NUMBER .* or modules=NUMBER,NUMBER,NUMBER",
        ),
        ("hrnet?width=4&width=5", "gives the option 'width' twice"),
        ("lite:large", "there is one lite network, but got 'lite:large': write lite.OPTION=VALUE"),
        ("lite?depth=3", "unknown option 'depth' in 'lite.depth=3': use width=NUMBER .* or size=NUMBER"),
        ("python:", "expected python:module:factory"),
        ("python:no_such_module_x:make", "cannot import 'no_such_module_x'"),
        (f"python:{__name__}:missing", "has no function 'missing'"),
        (f"python:{__name__}:make?size=3", "could not be called with"),
        (f"python:{__name__}:make_function", r"gave function, but only a torch\.nn\.Module can be trained"),
        (f"python:{__name__}:make?weights=a.pth", "option weights, which only loading takes"),
        (f"python:{__name__}:make?mean=0.5", "option mean, which only loading takes"),
    ],
)
def test_bad_architectures(spec, message):
    with pytest.raises(InputError, match=message):
        models.new(spec, classes=2)


@pytest.mark.parametrize("classes", [0, -1, 2.0, True])
def test_classes_are_a_positive_integer(classes):
    with pytest.raises(InputError, match="classes must be an integer"):
        models.new("lite", classes=classes)


@pytest.mark.parametrize(
    "model",
    [
        HRNet(Architecture(4, 3, 1, (1, 1, 2)), mean=(0.1, 0.2, 0.3), std=(1, 2, 1 / 3)),
        Lite(2, 8),
        Lite(3, 12, mean=(0.5,) * 3, std=(0.1,) * 3),
        Lite(2, 8, 16, size=1),
    ],
)
def test_a_description_builds_the_network(model):
    description = describe(model)
    assert json.loads(json.dumps(description)) == description
    again = build(description)
    assert describe(again) == description
    assert torch.equal(again.normalise.std, model.normalise.std)
    again.load_state_dict(model.state_dict())
    batch = torch.rand(1, 3, 32, 32)
    assert torch.equal(again.eval()(batch), model.eval()(batch))


def test_what_a_description_says():
    assert describe(HRNet(Architecture(4, 3, 1, (1, 1, 2)), mean=(0.1, 0.2, 0.3), std=(1, 2, 3))) == {
        "family": "hrnet", "width": 4, "classes": 3, "blocks": 1, "modules": [1, 1, 2],
        "mean": [0.1, 0.2, 0.3], "std": [1.0, 2.0, 3.0],
    }  # fmt: skip
    assert describe(Lite(2, 8, mean=(0.5,) * 3, std=(0.25,) * 3).bfloat16()) == {
        "family": "lite", "classes": 2, "width": 8, "stride": 32, "mean": [0.5] * 3, "std": [0.25] * 3
    }  # fmt: skip
    assert describe(make(), "python:m:make?depth=2") == {"family": "python", "spec": "python:m:make?depth=2"}


class Changed(HRNet):
    """No HRNet, though it is one to isinstance."""

    def forward(self, batch):
        return -super().forward(batch)


def test_what_cannot_be_described():
    for model in (make(), Changed(Architecture(4, 3, 1, (1, 1, 1))), models.adapt(Lite(2, 8))):
        with pytest.raises(InputError, match=f"a {type(model).__name__} cannot be described.*not wrapped"):
            describe(model, "lite")


LITE = {"family": "lite", "classes": 2, "width": 8, "mean": [0.5] * 3, "std": [0.5] * 3}
HRNET = {"family": "hrnet", "classes": 2, "width": 4, "blocks": 1, "modules": [1, 1, 1], "mean": [0], "std": [1]}


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({}, "unknown family of networks None: use lite, hrnet"),
        ({**LITE, "family": "vit"}, "unknown family of networks 'vit'"),
        ({**LITE, "family": ["lite"]}, "unknown family"),
        ({"family": "python", "spec": "python:os:abort"}, r"made by python:os:abort.*python:os:abort\?weights=FILE"),
        ({"family": "python"}, r"load the model as python:module:factory\?weights=FILE"),
        ({**LITE, "depth": 3}, "unreadable description of a network of the family lite.*depth"),
        ({"family": "lite", "classes": 2}, "unreadable description of a network of the family lite.*width"),
        ({**LITE, "classes": "2"}, "classes must be an integer, but got '2'"),
        ({**LITE, "width": LARGEST + 1}, "width must be at most 10000, but got 10001"),
        ({**LITE, "mean": 3}, "unreadable description"),
        ({**LITE, "std": [0, 0, 0]}, "std must be positive"),
        ({**LITE, "std": [math.nan] * 3}, "std must be finite"),
        ({**HRNET, "modules": [1, 1]}, "modules must be three counts"),
        ({**HRNET, "modules": [1, 1, 10**9]}, "modules must be at most 10000, but got 1000000000"),
        ({**HRNET, "modules": 3}, "unreadable description of a network of the family hrnet"),
    ],
)
def test_bad_descriptions(description, message):
    with pytest.raises(InputError, match=message):
        build(description)
