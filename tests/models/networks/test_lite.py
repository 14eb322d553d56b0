"""Lite: the layout of the public weights, TensorFlow's padding, shapes."""

import numpy as np
import pytest
import torch
from scipy.signal import correlate2d
from torch import nn

from segcertify import InputError
from segcertify.models import Lite
from segcertify.models.formats.weights import State
from segcertify.models.networks import lite
from segcertify.models.networks.lite import SIZES, SKIPS, STAGES, Encoder, SameConv, imagenet_encoder, stages

# Some entries of the public file efficientnet-lite0-57934424.pth, which has 288 up to its classifier.
PUBLIC = {
    "_conv_stem.weight": (32, 3, 3, 3),
    "_bn0.running_var": (32,),
    "_blocks.0._depthwise_conv.weight": (32, 1, 3, 3),
    "_blocks.0._project_conv.weight": (16, 32, 1, 1),
    "_blocks.0._bn1.num_batches_tracked": (),
    "_blocks.1._expand_conv.weight": (96, 16, 1, 1),
    "_blocks.3._depthwise_conv.weight": (144, 1, 5, 5),
    "_blocks.5._depthwise_conv.weight": (240, 1, 3, 3),
    "_blocks.8._depthwise_conv.weight": (480, 1, 5, 5),
    "_blocks.10._bn0.weight": (672,),
    "_blocks.11._project_conv.weight": (192, 672, 1, 1),
    "_blocks.15._depthwise_conv.weight": (1152, 1, 3, 3),
    "_blocks.15._project_conv.weight": (320, 1152, 1, 1),
    "_blocks.15._bn2.bias": (320,),
}


def test_the_encoder_has_the_layout_of_the_public_weights():
    state = Encoder().state_dict()
    assert len(state) == 288
    assert sum(tensor.numel() for name, tensor in state.items() if name.endswith("weight")) == 2_939_120
    for name, shape in PUBLIC.items():
        assert state[name.replace("._", ".").removeprefix("_")].shape == shape
    assert "blocks.0.expand_conv.weight" not in state
    norms = [module for module in Encoder().modules() if isinstance(module, nn.BatchNorm2d)]
    assert {(module.eps, module.momentum) for module in norms} == {(1e-3, 0.01)}  # as in TensorFlow's


def test_only_weights_of_efficientnet_are_taken_for_them():
    public = {name: torch.zeros(shape) for name, shape in PUBLIC.items()}
    extra = {"_conv_head.weight": torch.zeros(1), "_bn1.weight": torch.zeros(1), "_fc.weight": torch.zeros(1)}
    found = imagenet_encoder(State("a", public | extra))
    assert set(found.tensors) == {name.replace("._", ".").removeprefix("_") for name in PUBLIC}
    assert imagenet_encoder(State("a", Lite(3, 8).state_dict())) is None


@pytest.mark.parametrize("size", [(16, 16), (17, 20), (5, 8), (1, 2), (31, 33)])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2)])
def test_padding_is_tensorflows(size, kernel, stride):
    """TensorFlow: out = ceil(in / stride), pad = max((out - 1) * stride + kernel - in, 0), the odd one at the end."""
    torch.manual_seed(0)
    conv, x = SameConv(1, 1, kernel, stride=stride), torch.randn(1, 1, *size)
    pads = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in size]
    padded = np.pad(x[0, 0].numpy(), [(pad // 2, pad - pad // 2) for pad in pads])
    expected = correlate2d(padded, conv.weight[0, 0].detach().numpy(), "valid")[::stride, ::stride]
    assert expected.shape == tuple(-(-n // stride) for n in size)
    np.testing.assert_allclose(conv(x)[0, 0].detach().numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("size", [(64, 64), (65, 90), (33, 71), (32, 129), (1, 1)])
def test_logits_are_at_a_quarter_of_any_size(size):
    model = Lite(classes=4, width=8).eval()
    assert model(torch.rand(2, 3, *size)).shape == (2, 4, -(-size[0] // 4), -(-size[1] // 4))


def test_features_of_the_stages():
    features = Encoder().eval()(torch.rand(1, 3, 65, 96))
    assert [tuple(x.shape[1:]) for x in features] == [
        (16, 33, 48), (24, 17, 24), (40, 9, 12), (80, 5, 6), (112, 5, 6), (192, 3, 3), (320, 3, 3)
    ]  # fmt: skip
    assert {stride: STAGES[i].channels for stride, i in SKIPS.items()} == {4: 24, 8: 40, 16: 112}


def test_the_short_encoder_is_the_first_five_stages():
    whole, short = Encoder().eval(), Encoder(STAGES[:5]).eval()
    short.load_state_dict({name: whole.state_dict()[name] for name in short.state_dict()})
    x = torch.rand(1, 3, 65, 96)
    for expected, found in zip(whole(x)[:5], short(x), strict=True):
        torch.testing.assert_close(found, expected)


def test_the_short_network():
    model = Lite(classes=4, width=8, stride=16).eval()
    assert model(torch.rand(2, 3, 65, 90)).shape == (2, 4, 17, 23)
    assert sum(w.numel() for w in Encoder(STAGES[:5]).parameters()) < 0.35 * sum(
        w.numel() for w in Encoder().parameters()
    )


# What the public files efficientnet-lite1-77cc7160.pth and efficientnet-lite2-9656183e.pth have before their heads.
@pytest.mark.parametrize(("size", "entries", "weights"), [(1, 378, 3_697_968), (2, 378, 4_330_184)])
def test_larger_encoders_have_the_layout_of_the_public_weights(size, entries, weights):
    state = Encoder(stages(size)).state_dict()
    assert len(state) == entries
    assert sum(tensor.numel() for name, tensor in state.items() if name.endswith("weight")) == weights


def test_the_smallest_size_is_lite0():
    assert stages(0) == stages() == STAGES


@pytest.mark.parametrize("size", range(len(SIZES)))
def test_networks_of_every_size(size):
    assert Lite(classes=4, width=8, stride=16, size=size).eval()(torch.rand(1, 3, 33, 47)).shape == (1, 4, 9, 12)


@pytest.mark.parametrize("size", [5, -1, 1.5, "2"])
def test_sizes_that_do_not_exist_are_refused(size):
    with pytest.raises(InputError, match="size must be"):
        Lite(classes=4, size=size)


@pytest.mark.parametrize("stride", [8, 64, "16", None])
def test_other_strides_are_refused(stride):
    with pytest.raises(InputError, match="stride must be 16 or 32"):
        Lite(classes=4, stride=stride)


def test_a_block_against_a_second_computation():
    """Expand, filter, project, with ReLU6 but after the projection, and the shortcut."""
    torch.manual_seed(0)
    block = Encoder().blocks[2].eval()  # 24 channels in and out, stride 1
    for module in block.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1, 0.3)
            nn.init.normal_(module.bias, 3, 3)
            nn.init.normal_(module.running_mean, 0, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 2)

    def norm(x, bn):
        scale, shift = bn.weight / (bn.running_var + 1e-3).sqrt(), bn.running_mean
        return (x - shift[:, None, None]) * scale[:, None, None] + bn.bias[:, None, None]

    x = 3 * torch.randn(2, 24, 7, 9)
    y = torch.einsum("oc,bcij->boij", block.expand_conv.weight[:, :, 0, 0], x)
    y = norm(y, block.bn0)
    assert y.min() < 0
    assert y.max() > 6
    y = y.clamp(0, 6)
    y = nn.functional.conv2d(y, block.depthwise_conv.weight, padding=1, groups=144)
    y = norm(y, block.bn1)
    assert y.min() < 0
    assert y.max() > 6
    y = y.clamp(0, 6)
    y = norm(torch.einsum("oc,bcij->boij", block.project_conv.weight[:, :, 0, 0], y), block.bn2)
    torch.testing.assert_close(block(x), x + y, atol=1e-4, rtol=1e-4)


def test_the_normalisation_is_inside():
    model = Lite(3, 8).eval()
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    x = torch.rand(1, 3, 32, 32)
    model(x)
    torch.testing.assert_close(seen[0], (255 * x - 127) / 128)
    assert not any("normalise" in name for name in model.state_dict())


def test_surroundings_are_near_far_and_everywhere():
    """Which places a change at one place reaches, by part: files of trained networks rely on it."""
    context = Lite(3, 8).eval().context
    x = torch.zeros(2, 16, 11, 11)
    x[1, :, 5, 5] = 1
    for part, reach in ((context.near, (4, 5, 6)), (context.far, (2, 5, 8))):
        one, other = part[0](x)  # the convolution alone
        changed = (one != other).any(0)
        assert changed.nonzero().tolist() == [[i, j] for i in reach for j in reach]
    x = torch.rand(2, 320, 5, 6)
    assert context(x).shape == (2, 16, 5, 6)


def test_every_weight_is_used_and_learns():
    model = Lite(3, 8).train()
    model(torch.rand(2, 3, 64, 64)).square().mean().backward()
    assert all(weight.grad is not None and weight.grad.abs().max() > 0 for weight in model.parameters())


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 1, 32, 32), (1, 4, 32, 32)])
def test_other_inputs_are_refused(shape):
    with pytest.raises(InputError, match=r"Lite takes RGB images \(B, 3, H, W\)"):
        Lite(3, 8)(torch.zeros(shape))


@pytest.mark.parametrize(("classes", "width"), [(0, 8), (3, 0), (2.5, 8), (3, "8")])
def test_other_sizes_are_refused(classes, width):
    with pytest.raises(InputError, match="must be an integer"):
        Lite(classes, width)


@pytest.mark.parametrize("rows", [1, 5, 16])
@pytest.mark.parametrize(("stride", "size"), [(16, (67, 90)), (32, (96, 131))])
def test_strips_are_the_whole(monkeypatch, stride, size, rows):
    """Of a photograph the wide features are computed some rows at a time, on the CPU and without gradients."""
    torch.manual_seed(0)
    model, batch, strips = Lite(classes=3, width=8, stride=stride).eval(), torch.rand(2, 3, *size), []
    padded = lite.SameConv.padded
    monkeypatch.setattr(lite.SameConv, "padded", lambda self, x, pads: strips.append(self) or padded(self, x, pads))
    with torch.no_grad():
        whole = model(batch)
        assert len(strips) == len(model.encoder.blocks) + 1  # the stem's too
        strips.clear()
        monkeypatch.setattr(lite, "ROWS_OF", 1)
        monkeypatch.setattr(lite, "LEAST_ROWS", 2 * rows)
        assert torch.allclose(model(batch), whole, rtol=0, atol=1e-6 * float(whole.abs().max()))
    shallow = min(strips.count(block.depthwise_conv) for block in list(model.encoder.blocks)[:3])
    assert shallow >= size[0] / 8 / rows
    strips.clear()
    model(batch)  # with gradients: whole
    assert len(strips) == len(model.encoder.blocks) + 1
