"""HRNetV2: names and shapes of the public checkpoints, and a second implementation of its forward pass."""

import hashlib
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import segcertify as sc
from segcertify import InputError
from segcertify.models.networks.hrnet import W18_SMALL_V2, W48, Architecture, HRNet, infer, load_hrnet

SPECS = Path(__file__).parents[3] / "shared" / "specs"
FACTS = {
    # The number of keys, sha256 of the sorted lines "name shape" of the key files, and the number of parameters.
    "hrnetv2_w48": (W48, 1839, "339727e8a3c079d3c7b5f0e8a69402cc382e915e66bc7a8fd4039c01b76e228e", 65_859_379),
    "hrnetv2_w18_small_v2": (
        W18_SMALL_V2,
        873,
        "2dd973a7216edb895073705ec49142c2d3720a4f7928e5bc6d812d8c534c95ba",
        3_939_579,
    ),
}
TINY = Architecture(width=4, classes=7, blocks=1, modules=(1, 2, 1))


def keys(model):
    """Lines as in the key files."""
    return [f"{name} {'x'.join(map(str, tensor.shape)) or 'scalar'}" for name, tensor in model.state_dict().items()]


def empty(architecture):
    with torch.device("meta"):
        return HRNet(architecture)


def tiny(seed=0, architecture=TINY):
    """A random network with lively batch-norm statistics."""
    torch.manual_seed(seed)
    model = HRNet(architecture).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


@pytest.mark.parametrize("name", FACTS)
def test_keys_are_those_of_the_public_checkpoints(name):
    architecture, count, digest, parameters = FACTS[name]
    model = empty(architecture)
    lines = keys(model)
    assert len(lines) == count
    assert hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() == digest
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize("name", FACTS)
def test_keys_equal_the_key_file(name):
    file = SPECS / f"{name}.keys"
    if not file.is_file():
        pytest.skip(f"the key file {file.name} is not beside this checkout; its digest is tested anyway")
    expected = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    assert keys(empty(FACTS[name][0])) == expected


def reference(state, batch, architecture):
    """HRNetV2 written a second time, as one function of its state dict and the description in words."""

    def conv(x, name, stride=1):
        weight = state[f"{name}.weight"]
        return functional.conv2d(x, weight, state.get(f"{name}.bias"), stride, padding=weight.shape[-1] // 2)

    def bn(x, name):
        parts = [state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        mean, var, gamma, beta = (part.view(1, -1, 1, 1) for part in parts)
        return (x - mean) / (var + 1e-5).sqrt() * gamma + beta

    def up(x, like):
        return functional.interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=False)

    def fuse(x, name, i, j, like):
        name = f"{name}.fuse_layers.{i}.{j}"
        if i == j:
            return x
        if j > i:  # from a coarser branch: 1x1 convolution, upsample
            return up(bn(conv(x, f"{name}.0"), f"{name}.1"), like)
        for k in range(i - j):  # from a finer branch: stride-2 convolutions, ReLU between them
            x = bn(conv(x, f"{name}.{k}.0", 2), f"{name}.{k}.1")
            x = x.relu() if k < i - j - 1 else x
        return x

    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = (batch - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1)
    x = bn(conv(x, "conv1", 2), "bn1").relu()
    x = bn(conv(x, "conv2", 2), "bn2").relu()
    for block in range(architecture.blocks):
        name = f"layer1.{block}"
        y = bn(conv(x, f"{name}.conv1"), f"{name}.bn1").relu()
        y = bn(conv(y, f"{name}.conv2"), f"{name}.bn2").relu()
        y = bn(conv(y, f"{name}.conv3"), f"{name}.bn3")
        x = (y + (bn(conv(x, f"{name}.downsample.0"), f"{name}.downsample.1") if block == 0 else x)).relu()
    xs = [
        bn(conv(x, "transition1.0.0"), "transition1.0.1").relu(),
        bn(conv(x, "transition1.1.0.0", 2), "transition1.1.0.1").relu(),
    ]
    for stage, count in zip((2, 3, 4), architecture.modules, strict=True):
        if stage > 2:
            name = f"transition{stage - 1}.{stage - 1}.0"
            xs.append(bn(conv(xs[-1], f"{name}.0", 2), f"{name}.1").relu())
        for module in range(count):
            name = f"stage{stage}.{module}"
            for i in range(stage):
                for block in range(architecture.blocks):
                    inner = f"{name}.branches.{i}.{block}"
                    y = bn(conv(xs[i], f"{inner}.conv1"), f"{inner}.bn1").relu()
                    xs[i] = (bn(conv(y, f"{inner}.conv2"), f"{inner}.bn2") + xs[i]).relu()
            xs = [sum(fuse(xs[j], name, i, j, xs[i]) for j in range(stage)).relu() for i in range(stage)]
    x = torch.cat([up(x, xs[0]) for x in xs], 1)
    return conv(bn(conv(x, "last_layer.0"), "last_layer.1").relu(), "last_layer.3")


@pytest.mark.parametrize("size", [(64, 96), (50, 70)])
def test_forward_equals_a_second_implementation(size):
    model = tiny()
    batch = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        logits, expected = model(batch), reference(model.state_dict(), batch, TINY)
    assert logits.shape == (2, 7, -(-size[0] // 4), -(-size[1] // 4))
    assert logits.std() > 0.1
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


def test_w18_small_v2_runs():
    torch.manual_seed(0)
    model = HRNet(Architecture(width=18, classes=3, blocks=2, modules=(1, 3, 2))).eval()
    with torch.no_grad():
        assert model(torch.rand(1, 3, 64, 64)).shape == (1, 3, 16, 16)


def test_the_architecture_is_read_from_the_keys():
    for architecture in (W48, W18_SMALL_V2, TINY, Architecture(width=6, classes=59)):
        assert infer(empty(architecture).state_dict()) == architecture


def test_a_checkpoint_gives_the_same_votes(tmp_path, image, same_votes):
    model = tiny()
    torch.save(model.half().state_dict(), tmp_path / "half.pth")
    model.float()
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    loaded = load_hrnet(tmp_path / "weights.pth", width=4, classes=7)
    assert not any(module.training for module in loaded.modules())
    assert same_votes(loaded, model)
    half = load_hrnet(tmp_path / "half.pth")
    assert all(parameter.dtype == torch.float32 and not parameter.is_meta for parameter in half.parameters())
    assert same_votes(half, model)
    spec = f"hrnet:{tmp_path / 'weights.pth'}?width=4&classes=7"
    assert same_votes(sc.models.load(spec), model)
    plain = sc.models.load(f"hrnet:{tmp_path / 'weights.pth'}?mean=0,0,0&std=1,1,1")
    normalised = (image[None] - torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)) / torch.tensor(
        [0.229, 0.224, 0.225]
    ).view(3, 1, 1)
    with torch.no_grad():
        torch.testing.assert_close(plain(normalised), model(image[None]))


def test_the_normalisation_is_not_in_the_state_dict():
    model = HRNet(TINY)
    assert not [name for name in model.state_dict() if "mean" in name.split(".")[-1:] or "normalise" in name]
    assert model.to(torch.float64).normalise.mean.dtype == torch.float64


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Architecture(width=0), "width must be an integer not less than 1, but got 0"),
        (lambda: Architecture(classes=2.5), "classes must be an integer"),
        (lambda: Architecture(modules=(1, 2)), "modules must be three counts"),
        (lambda: HRNet(TINY, mean=[0.5], std=[0.5, 0.5]), "one entry per channel, but got 1 and 2"),
        (lambda: HRNet(TINY).eval()(torch.zeros(1, 1, 64, 64)), r"RGB images \(B, 3, H, W\), but got shape"),
        (lambda: infer({"fc.weight": torch.zeros(1)}), "is no HRNetV2.*transition1.*it holds fc.weight"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_width_that_the_file_does_not_have(tmp_path):
    torch.save(tiny().state_dict(), tmp_path / "weights.pth")
    with pytest.raises(InputError, match="holds an HRNetV2 of width 4, but width=48 was asked for"):
        load_hrnet(tmp_path / "weights.pth", width=48)
    with pytest.raises(InputError, match="classes 7, but classes=19"):
        sc.models.load(f"hrnet:{tmp_path / 'weights.pth'}?classes=19")
