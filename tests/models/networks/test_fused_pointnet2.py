"""The fused PointNet++: the same function as the network itself, whatever the batch, the portions and the processor."""

import numpy as np
import pytest
import torch
from parts_networks import lively

import segcertify as sc
from segcertify import InputError
from segcertify.models import PartSegmenter, PointNet2, optimised, with_precision
from segcertify.models.networks import fused_pointnet2, pointnet2
from segcertify.models.networks.fused_pointnet2 import FusedPointNet2
from segcertify.sampling.identity import without_execution


def clouds(batch, columns=6, points=600):
    xyz = torch.randn(batch, points, columns, generator=torch.Generator().manual_seed(batch))
    xyz[..., :3] /= xyz[..., :3].norm(dim=-1, keepdim=True)
    xyz[:, : points // 10] = xyz[:, points // 2 : points // 2 + points // 10]  # twins
    return xyz


def assert_same(net, fused, batch, category):
    seeds = list(range(len(batch)))
    with torch.no_grad():
        a, b = net(batch, category, seeds=seeds), fused(batch, category, seeds=seeds)
    assert b.shape == a.shape
    assert float(a.std()) > 0.1
    assert float((a - b).abs().max()) <= 2e-5 * float(a.max() - a.min())


@pytest.fixture(scope="module")
def net():
    return lively(PointNet2())


@pytest.mark.parametrize("normals", [True, False])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_function_is_the_same(batch, normals):
    net = lively(PointNet2(normals=normals))
    points = clouds(batch, 6 if normals else 3)
    assert_same(net, FusedPointNet2(net), points, [4, 15, 0][:batch])
    kind = torch.full((batch, points.shape[1], 1), 7.0)
    assert_same(net, FusedPointNet2(net), torch.cat([points, kind], -1), None)


def test_it_is_the_same_without_onednn(monkeypatch, net):
    monkeypatch.setattr("segcertify.models.networks.fused_linear.trusted", lambda *given: False)
    assert_same(net, FusedPointNet2(net), clouds(2), [1, 2])


@pytest.mark.parametrize("rows", [1, 1000])
def test_neighbours_pass_in_portions(monkeypatch, net, rows):
    portions, by_size = [], fused_pointnet2.by_size
    monkeypatch.setattr(fused_pointnet2, "by_size", lambda *given: portions.append(by_size(*given)) or portions[-1])
    monkeypatch.setattr(pointnet2, "CPU_ROWS", rows)
    assert_same(net, FusedPointNet2(net), clouds(1), [3])
    assert max(map(len, portions)) > 5


@pytest.mark.parametrize(
    "layer", ["sa1.points.0", "sa1.offsets.2", "sa2.others.1.1", "sa3.2", "fp3.other", "fp2.own", "fp1.other", "head"]
)
def test_a_planted_defect_shows(layer, net):
    """The comparison above can fail: each part of the network moves the scores."""
    fused = FusedPointNet2(net)
    assert_same(net, fused, clouds(1), [3])
    with torch.no_grad():
        fused.get_submodule(layer).weight *= 0.99
    with pytest.raises(AssertionError):
        assert_same(net, fused, clouds(1), [3])


def test_only_networks_in_evaluation_and_clouds(net):
    with pytest.raises(InputError, match="in evaluation"):
        FusedPointNet2(PointNet2().train())
    with pytest.raises(InputError, match="single precision"):
        FusedPointNet2(PointNet2().eval().double())
    with pytest.raises(InputError, match="takes clouds"):
        FusedPointNet2(net)(torch.rand(1, 600, 3), [1])


def test_the_network_and_the_global_generator_stay_as_they_are(net):
    before, state = {name: tensor.clone() for name, tensor in net.state_dict().items()}, torch.get_rng_state()
    fused = FusedPointNet2(net)
    assert torch.equal(torch.get_rng_state(), state)
    with torch.no_grad():
        for each in fused.parameters():
            each.add_(1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_certificates_agree_and_record_the_original():
    """Of the bundled model, in 99.9 % of the points at least; votes say what ran."""
    model = sc.models.load("parts?category=Chair&runs=1")
    x = torch.from_numpy(sc.data.load("shapes:?category=Chair&count=1&normals=true")[0].x).float()
    plain = PartSegmenter(model.model, "Chair", runs=1)
    noise = sc.Gaussian(0.25, (0, 1, 2), 1)
    found = [sc.sample(each, x, noise=noise, n=60, n0=10, seed=0, progress=False) for each in (plain, model)]
    a, b = (sc.certify_votes(votes, tau=0.75, alpha=0.001).labels for votes in found)
    assert np.mean(a == b) >= 0.999
    assert (a >= 0).any()
    assert np.mean(found[0].agree == found[1].agree) >= 0.99
    assert "execution" not in found[0].model
    assert found[1].model["execution"]["fused"] == 1
    assert without_execution(found[1].model) == found[0].model


def test_lower_precision_is_asked_for_and_runs_plainly(net):
    model = PartSegmenter(net, "Chair", runs=1)
    low, points = optimised(model, precision="bf16"), clouds(2)
    with torch.no_grad():
        exact, plain, fused = (each(points, seeds=[1, 2]) for each in (model, with_precision(model, "bf16"), low))
    assert fused.dtype == torch.float32
    assert 0 < float((fused - exact).abs().mean()) < 1.5 * float((plain - exact).abs().mean())
