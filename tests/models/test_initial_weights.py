"""Where a network starts from: ImageNet's encoder, a network of other classes; and what is refused."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from segcertify import InputError
from segcertify.models import Card, Lite, save_model, start_from
from segcertify.models.families import describe
from segcertify.models.networks.hrnet import Architecture, HRNet

LEAVES = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def lite(seed, classes=3, width=8):
    torch.manual_seed(seed)
    return Lite(classes, width)


def public_weights(seed=9):
    """What the public file of EfficientNet-Lite0 looks like: underscores, and a classifier at the end."""
    encoder = lite(seed).encoder
    state = {
        ".".join(part if part.isdecimal() or part in LEAVES else f"_{part}" for part in name.split(".")): tensor
        for name, tensor in encoder.state_dict().items()
    }
    head = {"_conv_head.weight": (1280, 320, 1, 1), "_bn1.weight": (1280,), "_fc.bias": (1000,)}
    return state | {name: torch.ones(shape) for name, shape in head.items()}, encoder


def copied(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_imagenets_weights_start_the_encoder(tmp_path):
    state, encoder = public_weights()
    assert {"_blocks.0._depthwise_conv.weight", "_blocks.15._bn2.running_var", "_bn0.bias"} <= state.keys()
    torch.save(state, tmp_path / "lite0.pth")
    model = lite(0)
    before = copied(model)
    fresh = start_from(model, tmp_path / "lite0.pth")
    assert set(fresh) == {name for name in before if not name.startswith("encoder.")}
    for name, tensor in model.state_dict().items():
        part, _, rest = name.partition(".")
        assert torch.equal(tensor, encoder.state_dict()[rest] if part == "encoder" else before[name]), name
    assert all(weight.requires_grad for weight in model.parameters())
    assert model.training


def test_imagenets_weights_start_a_short_encoder(tmp_path):
    state, encoder = public_weights()
    torch.save(state, tmp_path / "lite0.pth")
    model = Lite(3, 8, stride=16)
    start_from(model, tmp_path / "lite0.pth")
    for name, tensor in model.encoder.state_dict().items():
        assert torch.equal(tensor, encoder.state_dict()[name]), name


@pytest.mark.parametrize("change", ["missing", "shape"])
def test_imagenets_weights_must_be_whole(tmp_path, change):
    state, _ = public_weights()
    if change == "missing":
        del state["_blocks.3._bn1.weight"]
    else:
        state["_blocks.3._bn1.weight"] = torch.ones(7)
    torch.save(state, tmp_path / "lite0.pth")
    with pytest.raises(InputError, match=r"lite0\.pth does not fit Encoder.*blocks\.3\.bn1\.weight"):
        start_from(lite(0), tmp_path / "lite0.pth")


def test_a_network_of_other_classes_gives_all_but_its_head(tmp_path):
    given = lite(1, classes=5)
    card = Card(
        architecture=describe(given),
        classes=tuple("abcde"),
        colours=((0, 0, 0),) * 5,
        data="toy (3 scenes)",
        objective="noise",
        sigma=(0.25,),
        recipe={},
        metrics={},
        licence="none",
        date="2025-01-31",
        version="0.1.0",
    )
    save_model(tmp_path / "ours.safetensors", given, card)
    torch.save({"state_dict": given.state_dict()}, tmp_path / "plain.pth")
    for file in ("ours.safetensors", "plain.pth"):
        model = lite(0, classes=3)
        before = copied(model)
        weights = list(model.parameters())
        assert start_from(model, tmp_path / file) == ("head.weight", "head.bias")
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, before[name] if name.startswith("head.") else given.state_dict()[name]), name
        assert all(a is b for a, b in zip(model.parameters(), weights, strict=True))


def test_the_same_network_gives_everything(tmp_path):
    tiny = Architecture(width=4, classes=3, blocks=1, modules=(1, 1, 1))
    given, model = HRNet(tiny), HRNet(tiny)
    save_file(given.state_dict(), tmp_path / "a.safetensors")
    assert start_from(model, tmp_path / "a.safetensors") == ()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), given.parameters(), strict=True))


def test_foreign_weights_are_refused_and_change_nothing(tmp_path):
    tiny = Architecture(width=4, classes=3, blocks=1, modules=(1, 1, 1))
    torch.save(HRNet(tiny).state_dict(), tmp_path / "hrnet.pth")
    torch.save({"head.bias": torch.zeros(3), "head.weight": torch.zeros(3, 8, 1, 1)}, tmp_path / "head.pth")
    torch.save(public_weights()[0], tmp_path / "lite0.pth")
    for model, file, fits in (
        (lite(0), "hrnet.pth", "fits only 0 of"),
        (lite(0), "head.pth", "fits only 2 of"),
        (HRNet(tiny), "lite0.pth", "fits only 0 of"),
    ):
        before = copied(model)
        with pytest.raises(InputError, match=rf"{file} {fits} .*is it a checkpoint of this architecture\?"):
            start_from(model, tmp_path / file)
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with pytest.raises(InputError, match=r"no checkpoint at .*gone\.pth"):
        start_from(lite(0), tmp_path / "gone.pth")


@pytest.mark.parametrize("imagenet", [True, False])
def test_weights_that_are_no_numbers_are_refused(tmp_path, imagenet):
    state = public_weights()[0] if imagenet else copied(lite(1))
    state["_bn0.weight" if imagenet else "encoder.bn0.weight"][3] = float("nan")
    torch.save(state, tmp_path / "a.pth")
    model = lite(0)
    before = copied(model)
    with pytest.raises(InputError, match=r"a\.pth holds weights that are NaN or infinite: .*bn0\.weight"):
        start_from(model, tmp_path / "a.pth")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_half_precision_weights_start_a_network_in_single(tmp_path):
    given = nn.Conv2d(3, 4, 1).half()
    torch.save(given.state_dict(), tmp_path / "a.pth")
    model = nn.Conv2d(3, 4, 1)
    start_from(model, tmp_path / "a.pth")
    assert model.weight.dtype == torch.float32
    assert torch.equal(model.weight, given.weight.float())
