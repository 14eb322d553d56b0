"""The fused Lite: the same function as the folded one, whatever the size, the batch and the strips."""

import pytest
import torch
from lite_networks import lively, without_norms

from segcertify import InputError
from segcertify.models.networks import fused_conv, fused_depthwise, fused_lite, lite
from segcertify.models.networks.fused_lite import FusedLite


def assert_same(net, fused, batch):
    rounding = 1e-4 if batch.is_cuda else 2e-5  # cuDNN's convolutions round more than sums do
    with torch.no_grad():
        a, b = net(batch), fused(batch)
    assert b.shape == a.shape
    assert float((a - b).abs().max()) <= rounding * float(a.max() - a.min())


@pytest.mark.parametrize("lays", [False, True])
@pytest.mark.parametrize("extent", [(64, 64), (53, 70), (38, 33), (6, 5)])
@pytest.mark.parametrize(("stride", "size"), [(16, 0), (32, 0), (16, 2)])
def test_the_function_is_the_same(stride, size, extent, lays):
    net = lively(stride, size)
    assert_same(net, FusedLite(without_norms(net), lays=lays), torch.rand(3, 3, *extent) + 0.5)


def test_it_is_the_same_without_onednn(monkeypatch):
    monkeypatch.setattr(fused_conv, "trusted", lambda dtype: False)
    net = lively()
    assert_same(net, FusedLite(without_norms(net)), torch.rand(2, 3, 53, 70))


@pytest.mark.parametrize("rows", [1, 5])
def test_strips_are_the_whole(monkeypatch, rows):
    """Of a photograph the wide features are computed some rows at a time."""
    net, batch, strips = lively(), torch.rand(2, 3, 67, 90), []
    fused, wide = FusedLite(without_norms(net)), fused_lite._wide
    monkeypatch.setattr(fused_lite, "_wide", lambda *given: strips.append(given) or wide(*given))
    monkeypatch.setattr(lite, "ROWS_OF", 1)
    monkeypatch.setattr(lite, "LEAST_ROWS", 2 * rows)
    assert_same(net, fused, batch)
    assert len(strips) > 1.5 * len(net.encoder.blocks)


def test_a_batch_is_computed_some_images_at_a_time(monkeypatch):
    net, sizes = lively(), []
    fused = FusedLite(without_norms(net))
    assert fused.widest == 24  # 96 features at half the resolution
    monkeypatch.setattr(fused_lite, "AT_ONCE", 24 * 2 * 32 * 32)
    logits = fused._logits
    monkeypatch.setattr(fused, "_logits", lambda batch: sizes.append(len(batch)) or logits(batch))
    assert_same(net, fused, torch.rand(5, 3, 32, 32))
    assert sizes == [2, 2, 1]
    sizes.clear()
    assert_same(net, fused, torch.rand(2, 3, 64, 64))
    assert sizes == [1, 1]


@pytest.mark.parametrize("layer", ["stem", "depthwise", "project", "context", "head"])
def test_a_planted_defect_shows(layer):
    """The comparison above can fail: each part of the network moves the logits."""
    net, batch = FusedLite(without_norms(lively())), torch.rand(1, 3, 64, 64)
    block = net.encoder.blocks[5]
    conv = {
        "stem": net.encoder.conv_stem, "depthwise": block.depthwise_conv, "project": block.project_conv,
        "context": net.context.far[0], "head": net.head,
    }[layer]  # fmt: skip
    with torch.no_grad():
        before = net(batch)
        conv.weight += 0.05
        assert float((net(batch) - before).abs().max()) > 1e-4 * float(before.max() - before.min())


@pytest.fixture
def exactly(monkeypatch):
    """On CUDA single precision is single precision."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)


@pytest.mark.cuda
@pytest.mark.usefixtures("exactly")
@pytest.mark.parametrize("extent", [(64, 64), (53, 70), (38, 33), (6, 5)])
@pytest.mark.parametrize(("stride", "size"), [(16, 0), (32, 0), (16, 2)])
def test_on_cuda_the_function_is_the_same(stride, size, extent):
    net = lively(stride, size).cuda()
    for batch in (1, 3):
        given = torch.rand(batch, 3, *extent).cuda() + 0.5
        assert_same(net, FusedLite(without_norms(net), lays=True), given)


@pytest.mark.cuda
@pytest.mark.usefixtures("exactly")
def test_on_cuda_it_is_the_same_without_triton(monkeypatch):
    monkeypatch.setattr(fused_depthwise, "fused", lambda x: False)
    net = lively().cuda()
    assert_same(net, FusedLite(without_norms(net), lays=True), torch.rand(2, 3, 53, 70).cuda())


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_a_new_size_of_images_compiles_nothing(dtype):
    from segcertify.models.networks.triton_depthwise import convolve

    def run(*shape):
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            assert fused(torch.rand(shape, device="cuda")).isfinite().all()
        return sum(len(caches[0]) for caches in convolve.device_caches.values())

    fused = FusedLite(without_norms(lively(stride=32).cuda()), lays=True)
    first = run(2, 3, 64, 64)
    assert first >= 4  # two sizes of kernels, two strides
    assert {run(*shape) for shape in ((1, 3, 5, 9), (2, 3, 160, 240), (7, 3, 97, 131), (2, 3, 33, 257))} == {first}


def test_only_folded_networks_and_images():
    with pytest.raises(InputError, match="fold them first"):
        FusedLite(lively())
    with pytest.raises(InputError, match="takes RGB images"):
        FusedLite(without_norms(lively()))(torch.rand(1, 4, 64, 64))


def test_the_network_that_was_given_is_not_changed():
    net = without_norms(lively())
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    fused = FusedLite(net)
    with torch.no_grad():
        fused.head.weight += 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
