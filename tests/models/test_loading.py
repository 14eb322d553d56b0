"""Model specs: the python scheme, options common to all, and what is refused."""

import pytest
import torch
from torch import nn

from segcertify import InputError, models
from segcertify.errors import ModelError
from segcertify.sampling.identity import identity


def make(width=3, name="a", flip=False):
    """A network, left in training mode."""
    model = nn.Sequential(nn.Conv2d(3, width, 1), nn.Dropout())
    model.settings = (width, name, flip)
    return model


def make_fixed():
    """A network without options, whose output is torchvision's."""
    torch.manual_seed(0)
    network = nn.Conv2d(3, 4, 1)
    return lambda batch: {"out": network(batch)}


def not_a_model():
    return 3


def test_python_spec():
    model = models.load(f"python:{__name__}:make?width=5&name=b&flip=true")
    assert model.model.settings == (5, "b", True)
    assert not any(module.training for module in model.modules())
    assert model(torch.zeros(1, 3, 2, 2)).shape == (1, 5, 2, 2)


def test_what_a_factory_or_its_module_raises_is_told_in_one_line(tmp_path, monkeypatch):
    """It was a traceback on the command line; in Python the exception is the cause."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing_factory.py").write_text("def make(classes):\n    return int(classes)\n")
    (tmp_path / "failing_module.py").write_text("import math\nmath.sqrt(-1)\n")
    (tmp_path / "no_module.py").write_text("def (:\n")
    with pytest.raises(
        ModelError, match=r"failing_factory:make failed, ValueError: .*\(failing_factory.py, line 2\)"
    ) as e:
        models.load("python:failing_factory:make?classes=x")
    assert type(e.value.__cause__) is ValueError
    with pytest.raises(ModelError, match=r"importing failing_module for python:.* failed, ValueError: .*line 2\)"):
        models.load("python:failing_module:make")
    with pytest.raises(ModelError, match="importing no_module for python:no_module:make failed, SyntaxError"):
        models.load("python:no_module:make")


def test_a_plus_is_a_plus():
    assert models.load(f"python:{__name__}:make?name=a+b%26c").model.settings[1] == "a+b&c"


def test_common_options(same_votes):
    direct = make_fixed()
    assert same_votes(models.load(f"python:{__name__}:make_fixed"), lambda batch: direct(batch)["out"])
    normalised = models.load(f"python:{__name__}:make_fixed?mean=0.5,0.25,0.5&std=0.5,0.5,0.5")
    mean = torch.tensor([0.5, 0.25, 0.5]).view(3, 1, 1)
    assert same_votes(normalised, lambda batch: direct((batch - mean) / 0.5)["out"])
    for text, setting in (
        ("0.5", {"scales": (0.5,)}),
        ("multi", {"scales": [s / 4 for s in range(2, 8)], "flip": True}),
        ("0.5&base_size=30", {"scales": (0.5,), "base_size": 30}),
    ):
        scaled = models.load(f"python:{__name__}:make_fixed?scale={text}")
        assert isinstance(scaled, models.MultiScale)
        assert same_votes(scaled, models.MultiScale(lambda batch: direct(batch)["out"], **setting))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "resnet",
            "unknown model 'resnet': .*se hrnet:FILE, hf:DIR-OR-ID, .*trained:FILE, python:MODULE:FACTORY, .*camvid",
        ),
        ("hrnett:a.pth", r"unknown model 'hrnett:': did you mean 'hrnet:'\? Use hrnet:FILE, "),
        ("pets:a", r"unknown model 'pets:': did you mean 'pets'\? Use hrnet:FILE, "),
        ("python:", "'python:' names no model: write python:MODULE:FACTORY"),
        ("hrnet:?width=48", r"'hrnet:\?width=48' names no model: write hrnet:FILE"),
        ("python:only_a_module", "expected python:module:factory"),
        ("python:no_such_module_x:make", "cannot import 'no_such_module_x'.*is it in this folder"),
        (f"python:{__name__}:missing", "has no function 'missing'"),
        (f"python:{__name__}:make?depth=3", "could not be called with"),
        (f"python:{__name__}:not_a_model", "gave int, which is not callable"),
        (f"python:{__name__}:make?mean=0.5", "needs both mean and std"),
        (f"python:{__name__}:make?mean=a&std=1", r"mean cannot be 'a' in .*: write mean=NUMBER,NUMBER,\.\.\."),
        (
            f"python:{__name__}:make?scale=big",
            "unknown scale 'big': use a number, a list such as 0.5,1.0, multi or multi-pascal",
        ),
        (f"python:{__name__}:make?scale=-1", "a scale must be positive"),
        (f"python:{__name__}:make?width=3&width=4", "gives the option 'width' twice"),
        ("hrnet:gone.pth", r"no checkpoint at gone\.pth"),
        ("hrnet:gone.pth?width=wide", "width cannot be 'wide' in 'hrnet:gone.pth.width=wide': write width=NUMBER"),
        ("hrnet:gone.pth?std=1,1,1", "needs both mean and std"),
        ("onnx:gone.onnx", r"no file at gone\.onnx"),
        ("trained:", "'trained:' names no model: write trained:FILE"),
        ("trained:gone.safetensors", r"no model file at gone\.safetensors"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(InputError, match=message):
        models.load(spec)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [("torchscript:gone.pt", "can read and write files while it runs"), ("pt2:gone.pt2?output=1", "texts as Python")],
)
def test_programs_need_trust(spec, reason):
    with pytest.raises(
        InputError, match=rf"is a program, and was not loaded: .*{reason}.*add --trust-code .*trust_code=True"
    ):
        models.load(spec)
    with pytest.raises(InputError, match=r"no file at gone\.pt"):
        models.load(spec, trust_code=True)


def test_an_option_that_a_scheme_does_not_take(tmp_path):
    from segcertify.models.networks.hrnet import Architecture, HRNet

    torch.save(HRNet(Architecture(4, 3, 1, (1, 1, 1))).state_dict(), tmp_path / "a.pth")
    with pytest.raises(
        InputError,
        match=r"unknown option 'depth' in .*: use width=NUMBER .*, classes=NUMBER .*, scale=.* or denoiser_sigma=",
    ):
        models.load(f"hrnet:{tmp_path / 'a.pth'}?depth=3")


def torchvision_like(*, num_classes=21, **others):
    assert not others
    return nn.Conv2d(3, num_classes, 1)


def test_classes_by_the_name_that_a_factory_gives_them(tmp_path):
    spec = f"python:{__name__}:torchvision_like"
    assert models.load(f"{spec}?classes=11")(torch.zeros(1, 3, 2, 2)).shape[1] == 11
    assert models.load(f"{spec}?num_classes=7")(torch.zeros(1, 3, 2, 2)).shape[1] == 7
    assert models.load(spec)(torch.zeros(1, 3, 2, 2)).shape[1] == 21


def test_channels_are_reversed_inside_the_model():
    """The mean is of the model's channels, blue first; the identity says that they are reversed."""
    image, options = torch.rand(1, 3, 4, 5), "mean=0.1,0.2,0.3&std=1,1,0.5"
    spec = f"python:{__name__}:make_fixed"
    plain, reverse = (models.load(f"{spec}?{options}{more}") for more in ("", "&bgr=true"))
    assert torch.equal(reverse(image), plain(image.flip(1)))
    assert not torch.equal(reverse(image), plain(image))
    assert identity(reverse) != identity(plain)
    assert "Reversed" in identity(reverse)["classes"]
    assert identity(models.load(f"{spec}?{options}&bgr=false")) == identity(plain)
    with pytest.raises(InputError, match="brings the order of its channels: leave bgr out"):
        models.load("pets?bgr=true")
