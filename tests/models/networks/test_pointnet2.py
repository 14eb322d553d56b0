"""PointNet++: names and shapes of the public checkpoints, and a second implementation of its forward pass."""

import copy
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from parts_networks import card, lively
from torch import nn
from torch.nn import functional

from segcertify import InputError, models
from segcertify.models import PointNet2, load_pointnet2, load_trained, save_model
from segcertify.models.families import build, describe
from segcertify.models.networks.grouping import Ball, ball, farthest, gather, interpolate
from segcertify.models.networks.pointnet2 import Grouping, Layers, Scale, by_size, first_points, infer, largest, units

KEYS = Path(__file__).parents[3] / "shared" / "specs" / "pointnet2_part_seg_msg.keys"
COUNT, PARAMETERS = 177, 1_741_822
DIGEST = "1dbe415f61a563b45e77c1ae08f9ce391477b037dbd16bf937da90171efe0d13"
"""The number of keys, sha256 of the sorted lines "name shape" of the key file, and the number of parameters."""


def keys(model):
    """Lines as in the key file."""
    return [f"{name} {'x'.join(map(str, tensor.shape)) or 'scalar'}" for name, tensor in model.state_dict().items()]


def cloud(points=520, columns=6, batch=1, seed=0):
    """Clouds on the unit ball's surface, a tenth of their points exact twins of others."""
    rng = np.random.default_rng(seed)
    xyz = rng.normal(size=(batch, points, columns)).astype(np.float32)
    xyz[..., :3] /= np.linalg.norm(xyz[..., :3], axis=-1, keepdims=True)
    xyz[:, : points // 10] = xyz[:, points // 2 : points // 2 + points // 10]
    return torch.from_numpy(xyz)


def test_keys_are_those_of_the_public_checkpoints():
    model = PointNet2()
    lines = keys(model)
    assert len(lines) == COUNT
    assert hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() == DIGEST
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS
    if KEYS.is_file():
        assert lines == [line for line in KEYS.read_text().splitlines() if line and not line.startswith("#")]


def test_without_normals_two_layers_are_narrower():
    with_normals, without = keys(PointNet2()), keys(PointNet2(normals=False))
    changed = [(a, b) for a, b in zip(with_normals, without, strict=True) if a != b]
    assert changed == [
        *((f"sa1.conv_blocks.{i}.0.weight {w}x9x1x1", f"sa1.conv_blocks.{i}.0.weight {w}x6x1x1")
          for i, w in enumerate((32, 64, 64))),
        ("fp1.mlp_convs.0.weight 128x153x1", "fp1.mlp_convs.0.weight 128x150x1"),
    ]  # fmt: skip


def reference(state, points, category, starts, training):
    """PointNet++ written a second time, channels first and with whole matrices of distances."""

    def step(x, conv, norm):
        """Convolution, batch norm and ReLU of x (B, C, ...)."""
        x = torch.einsum("oi,bi...->bo...", state[f"{conv}.weight"].flatten(1), x)
        x = x + state[f"{conv}.bias"].view(-1, *(1,) * (x.ndim - 2))
        statistics = (None, None) if training else (state[f"{norm}.running_mean"], state[f"{norm}.running_var"])
        affine = state[f"{norm}.weight"], state[f"{norm}.bias"]
        return functional.batch_norm(x, *statistics, *affine, training=training).relu()

    def rows(values, index):
        return torch.stack([values[b][index[b]] for b in range(len(values))])

    def sample(xyz, count, start):
        chosen, left = [start], torch.full(xyz.shape[:2], torch.inf)
        while len(chosen) < count:
            last = rows(xyz, chosen[-1].unsqueeze(1))
            left = torch.minimum(left, ((xyz - last) ** 2).sum(-1))
            chosen.append(left.argmax(1))
        return torch.stack(chosen, 1)

    def group(name, xyz, features, centres, scales):
        found = []
        apart = ((centres.unsqueeze(2) - xyz.unsqueeze(1)) ** 2).sum(-1)
        for i, (radius, most) in enumerate(scales):
            places = torch.arange(xyz.shape[1]).expand_as(apart).clone()
            places[apart > radius**2] = xyz.shape[1]
            places = places.sort(-1).values[..., :most]
            places = torch.where(places == xyz.shape[1], places[..., :1], places)
            x = torch.cat([rows(features, places), rows(xyz, places) - centres.unsqueeze(2)], -1).permute(0, 3, 1, 2)
            for j in range(3):
                x = step(x, f"{name}.conv_blocks.{i}.{j}", f"{name}.bn_blocks.{i}.{j}")
            found.append(x.max(-1).values.transpose(1, 2))
        return torch.cat(found, -1)

    def layers(name, x, count):
        for j in range(count):
            x = step(x, f"{name}.mlp_convs.{j}", f"{name}.mlp_bns.{j}")
        return x

    def up(features, centres, xyz):
        apart, index = ((xyz.unsqueeze(2) - centres.unsqueeze(1)) ** 2).sum(-1).sort(-1)
        weights = 1 / (apart[..., :3] + 1e-8)
        weights = weights / weights.sum(-1, keepdim=True)
        return (rows(features.transpose(1, 2), index[..., :3]) * weights.unsqueeze(-1)).sum(2).transpose(1, 2)

    xyz, count = points[..., :3], points.shape[1]
    xyz1 = rows(xyz, sample(xyz, 512, starts[0]))
    xyz2 = rows(xyz1, sample(xyz1, 128, starts[1]))
    l1 = group("sa1", xyz, points, xyz1, [(0.1, 32), (0.2, 64), (0.4, 128)])
    l2 = group("sa2", xyz1, l1, xyz2, [(0.4, 64), (0.8, 128)])
    l3 = layers("sa3", torch.cat([xyz2, l2], -1).transpose(1, 2), 3).max(-1, keepdim=True).values
    x = layers("fp3", torch.cat([l2.transpose(1, 2), l3.expand(-1, -1, 128)], 1), 2)
    x = layers("fp2", torch.cat([l1.transpose(1, 2), up(x, xyz2, xyz1)], 1), 2)
    kind = functional.one_hot(category, 16).to(points).unsqueeze(2).expand(-1, -1, count)
    x = torch.cat([kind, xyz.transpose(1, 2), points.transpose(1, 2), up(x, xyz1, xyz)], 1)
    x = step(layers("fp1", x, 2), "conv1", "bn1")
    x = functional.dropout(x.transpose(1, 2).contiguous(), 0.5, training).transpose(1, 2)
    x = torch.einsum("oi,bin->bon", state["conv2.weight"].flatten(1), x) + state["conv2.bias"].view(-1, 1)
    return x.log_softmax(1)


@pytest.mark.parametrize(("normals", "training"), [(True, False), (False, True)])
def test_forward_equals_a_second_implementation(normals, training):
    model = lively(PointNet2(normals=normals)).double().train(training)
    points, category = cloud(600, 6 if normals else 3, batch=2).double(), torch.tensor([4, 15])
    expected_state = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        torch.manual_seed(1)
        scores = model(points, category, seeds=[3, 4])
        torch.manual_seed(1)
        expected = reference(expected_state, points, category, first_points(points, [3, 4]), training)
    assert scores.shape == (2, 50, 600)
    assert expected.std() > 0.1
    torch.testing.assert_close(scores, expected)
    torch.testing.assert_close(scores.exp().sum(1), torch.ones(2, 600).double())


def test_training_updates_the_statistics_as_the_layers_themselves_do():
    torch.manual_seed(0)
    layers, x = Layers(nn.Conv2d, 5, (4, 3)).train(), torch.rand(2, 7, 5)
    plain, y = copy.deepcopy(layers), x.transpose(1, 2).unsqueeze(3)
    for conv, norm in zip(plain.mlp_convs, plain.mlp_bns, strict=True):
        y = norm(conv(y)).relu()
    torch.testing.assert_close(layers(x), y.squeeze(3).transpose(1, 2))
    for (name, value), other in zip(layers.state_dict().items(), plain.state_dict().values(), strict=True):
        torch.testing.assert_close(value, other, msg=name)


def test_every_weight_is_trained():
    model = PointNet2(normals=False).train()
    batch = torch.cat([cloud(512, 3, batch=2), torch.tensor([3.0, 7.0]).view(2, 1, 1).expand(2, 512, 1)], -1)
    model(batch).mean().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.fixture(scope="module")
def network():
    return lively(PointNet2(normals=False))


def test_seeds(network):
    points = cloud(columns=3, batch=3)
    with torch.no_grad():
        scores = network(points, [0, 1, 2], seeds=[5, 6, 2**63 - 1])
        alone = network(points[1:2], torch.tensor([1]), seeds=[6])
        other = network(points[1:2], torch.tensor([1]), seeds=[7])
    torch.testing.assert_close(scores[1:2], alone, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(alone, other, atol=1e-2)
    starts = first_points(points, [5, 6, 5])
    assert [start[0] == start[2] for start in starts] == [True, True]
    many = first_points(torch.empty(2000, 600, 3), range(2000))
    assert all(0 <= int(start.min()) < 20 and size - 20 < int(start.max()) < size
               for start, size in zip(many, (600, 512), strict=True))  # fmt: skip


def test_without_seeds_torchs_generator_chooses(network):
    points = cloud(columns=3)
    with torch.no_grad():
        torch.manual_seed(0)
        first, second = network(points, [3]), network(points, [3])
        torch.manual_seed(0)
        again = network(points, [3])
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_the_last_column_may_hold_the_category(network):
    points = cloud(columns=3, batch=2)
    category = torch.tensor([9, 2])
    with torch.no_grad():
        joined = network(torch.cat([points, category.view(2, 1, 1).expand(2, 520, 1)], -1), seeds=[1, 2])
        assert torch.equal(joined, network(points, category, seeds=[1, 2]))
        assert not torch.allclose(joined, network(points, [2, 9], seeds=[1, 2]))


def test_neighbours_enter_by_their_offset():
    layers = lively(Layers(nn.Conv2d, 4 + 3, (8, 8)))
    xyz, features = cloud(60, 3), torch.rand(1, 60, 4)
    chosen = farthest(xyz, 10, torch.tensor([3]))
    index, weights = ball(xyz, chosen, 0.5, 12), units(layers.mlp_convs, layers.mlp_bns)
    here = largest(xyz, features, gather(xyz, chosen), index, weights)
    moved = xyz + torch.tensor([1.0, -2.0, 0.5])
    torch.testing.assert_close(here, largest(moved, features, gather(moved, chosen), index, weights))


def test_the_order_of_points_does_not_matter_where_balls_have_room():
    group = lively(Grouping(4, 10, [Scale(0.6, 40, (8, 8)), Scale(1.5, 40, (8, 16))]))
    xyz, features = torch.rand(1, 40, 3), torch.rand(1, 40, 4)
    order = torch.randperm(40)
    with torch.no_grad():
        level = group(xyz, features, torch.tensor([7]))
        other = group(xyz[:, order], features[:, order], (order == 7).nonzero()[0])
    assert torch.equal(level.xyz, other.xyz)
    torch.testing.assert_close(level.features, other.features)
    spread, back = (each.spread(each.features, points) for each, points in ((level, xyz), (other, xyz[:, order])))
    torch.testing.assert_close(spread[:, order], back)
    torch.testing.assert_close(spread, interpolate(level.features, level.xyz, xyz, level.nearest))


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("rows", [1, 100, 10**6])
def test_neighbours_pass_in_portions(monkeypatch, rows, gradients):
    layers = lively(Layers(nn.Conv2d, 4 + 3, (8, 8)))
    xyz, features = torch.rand(2, 60, 3), torch.rand(2, 60, 4)
    chosen = farthest(xyz, 10, torch.tensor([3, 4]))
    arguments = gather(xyz, chosen), ball(xyz, chosen, 0.5, 12), units(layers.mlp_convs, layers.mlp_bns)
    whole = largest(xyz, features, *arguments)
    for name in ("CPU_ROWS", "ROWS"):
        monkeypatch.setattr(f"segcertify.models.networks.pointnet2.{name}", rows)
    with torch.set_grad_enabled(gradients):
        torch.testing.assert_close(largest(xyz, features, *arguments), whole)


def test_places_without_a_point_are_left_out():
    """Balls with few points go together, so that little is computed of the places that their first point fills."""
    found = [(some.tolist(), room) for some, room in by_size(torch.tensor([4, 1, 3, 1, 3]), 6)]
    assert found == [([1, 3], 1), ([2, 4], 3), ([0], 4)]
    assert [(len(some), room) for some, room in by_size(torch.tensor([4, 1, 3, 1, 3]), 20)] == [(5, 4)]
    layers = lively(Layers(nn.Conv2d, 4 + 3, (8, 8)))
    xyz, features = cloud(60, 3, batch=2), torch.rand(2, 60, 4)
    chosen = farthest(xyz, 10, torch.tensor([3, 4]))
    full, answers = ball(xyz, chosen, 0.5, 12), []
    single = Ball(full.points[:, :, :1].expand(-1, -1, 12), torch.ones(2, 10, dtype=torch.int64))
    for balls in (single, full):  # one point each, and several
        x = torch.cat(
            [gather(features, balls.points), gather(xyz, balls.points) - gather(xyz, chosen).unsqueeze(2)], -1
        )
        for gradients in (False, True):
            with torch.set_grad_enabled(gradients):
                found = largest(xyz, features, gather(xyz, chosen), balls, units(layers.mlp_convs, layers.mlp_bns))
            torch.testing.assert_close(found, layers(x).amax(2))
            answers.append(found)
    assert not torch.allclose(answers[0], answers[-1])


@hypothesis_settings(deadline=None)
@given(st.lists(st.integers(1, 128), min_size=1, max_size=60), st.integers(1, 300))
def test_portions_hold_every_ball_once(sizes, once):
    portions = by_size(torch.tensor(sizes), once)
    assert sorted(ball for some, _ in portions for ball in some.tolist()) == list(range(len(sizes)))
    for some, room in portions:
        assert room == max(sizes[ball] for ball in some.tolist())
        assert len(some) * room <= once or len(some) == 1


def test_the_parameters_are_read_from_the_keys():
    for settings in ({"normals": True}, {"normals": False}, {"normals": False, "categories": 3, "parts": 7}):
        model = PointNet2(**settings)
        assert infer(model.state_dict()) == {key: getattr(model, key) for key in ("normals", "categories", "parts")}


def test_checkpoints(tmp_path, network):
    wrapped = {
        "model_state_dict": {f"module.{name}": value for name, value in network.state_dict().items()},
        "epoch": 3,
    }
    torch.save(wrapped, tmp_path / "best.pth")
    loaded = load_pointnet2(tmp_path / "best.pth", normals=False)
    assert not any(module.training for module in loaded.modules())
    points = cloud(columns=3)
    with torch.no_grad():
        assert torch.equal(loaded(points, [1], seeds=[0]), network(points, [1], seeds=[0]))
    with pytest.raises(InputError, match="PointNet2 without normals, but normals=True was asked for: leave it out"):
        load_pointnet2(tmp_path / "best.pth", normals=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {"conv1.weight": state["conv1.weight"]}, "is no PointNet.*sa1.*it holds conv1.weight"),
        (lambda state: {}, "is no PointNet.*it holds nothing"),
        (lambda state: {**state, "sa1.conv_blocks.0.0.weight": torch.zeros(32, 7, 1, 1)}, "for points of 4 columns"),
        (lambda state: {**state, "fp1.mlp_convs.0.weight": torch.zeros(128, 134, 1)}, "has 134 inputs in fp1"),
    ],
)
def test_other_networks_are_refused(network, change, message):
    with pytest.raises(InputError, match=message):
        infer(change(network.state_dict()))


def test_a_checkpoint_that_lacks_a_layer(tmp_path, network):
    state = {name: value for name, value in network.state_dict().items() if not name.startswith("sa2.")}
    torch.save(state, tmp_path / "a.pth")
    with pytest.raises(InputError, match=r"a\.pth does not fit PointNet2: keys 36 missing: sa2\.conv"):
        load_pointnet2(tmp_path / "a.pth")


@pytest.mark.parametrize(
    ("points", "category", "seeds", "message"),
    [
        (torch.zeros(1, 511, 3), [0], [0], "at least 512 points, but got 511: draw more"),
        (torch.zeros(1, 600, 6), [0], [0], r"clouds \(B, points, 3\) of x, y, z, but got shape \(1, 600, 6\)"),
        (torch.zeros(1, 600, 3), None, [0], r"clouds \(B, points, 4\) of x, y, z, category, but got shape"),
        (torch.zeros(600, 3), [0], [0], r"but got shape \(600, 3\)"),
        (torch.full((1, 600, 3), torch.nan), [0], [0], "takes finite numbers, but a cloud has NaN or infinity"),
        (torch.full((1, 600, 4), torch.inf), None, [0], "takes finite numbers"),
        (torch.zeros(1, 600, 3), [16], [0], r"one integer from 0 to 15 per cloud, here 1, but got \[16\]"),
        (torch.zeros(1, 600, 3), [-1], [0], r"but got \[-1\]"),
        (torch.zeros(2, 600, 3), [1], [0, 0], r"per cloud, here 2, but got \[1\]"),
        (torch.zeros(1, 600, 3), [0], [0, 1], "seeds must be one integer per cloud, here 1, but got 2"),
    ],
)
def test_bad_input(network, points, category, seeds, message):
    with pytest.raises(InputError, match=message):
        network(points, category, seeds=seeds)


def test_bad_settings():
    with pytest.raises(InputError, match="normals must be true or false, but got 1"):
        PointNet2(normals=1)
    with pytest.raises(InputError, match="parts must be an integer not less than 1, but got 0"):
        PointNet2(parts=0)


def test_low_precision(network):
    points = cloud(columns=3)
    with torch.no_grad():
        expected = network(points, [1], seeds=[0])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = network(points, [1], seeds=[0])
        lowest = copy.deepcopy(network).bfloat16()(points.bfloat16(), [1], seeds=[0])
    assert low.dtype == lowest.dtype == torch.float32
    assert (low.argmax(1) == expected.argmax(1)).float().mean() > 0.8
    assert torch.isfinite(lowest).all()


@pytest.mark.cuda
def test_the_gpu_gives_the_same_scores():
    model, points = lively(PointNet2()), cloud(2048, batch=3)
    with torch.no_grad():
        expected = model(points, [1, 2, 3], seeds=[4, 5, 6])
        scores = model.cuda()(points.cuda(), [1, 2, 3], seeds=[4, 5, 6])
    torch.testing.assert_close(scores.cpu(), expected, atol=1e-2, rtol=1e-2)
    model.train()(torch.cat([points, torch.ones(3, 2048, 1)], -1).cuda()).mean().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_a_description_builds_the_network():
    model = models.new("pointnet2?normals=false", classes=7)
    assert describe(model) == {"family": "pointnet2", "normals": False, "categories": 16, "parts": 7}
    assert describe(build(describe(model))) == describe(model)
    assert describe(models.new("pointnet2", classes=50))["normals"] is True


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.new("pointnet2:msg", classes=50), "there is one pointnet2 network, but got 'pointnet2:msg'"),
        (
            lambda: models.new("pointnet2?normals=3", classes=50),
            "normals cannot be '3' in .*: write normals=true .or false",
        ),
        (lambda: models.new("pointnet2?width=3", classes=50), "unknown option 'width' in .*: use normals=true"),
        (lambda: build({"family": "pointnet2", "normals": 1, "categories": 2, "parts": 2}), "normals must be true or"),
        (lambda: build({"family": "pointnet2", "normals": True, "categories": 2}), "unreadable.*pointnet2.*parts"),
        (
            lambda: build({"family": "pointnet2", "normals": True, "categories": 10**9, "parts": 2}),
            "categories must be",
        ),
    ],
)
def test_bad_descriptions(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_model_comes_back_from_its_file(tmp_path, network):
    save_model(tmp_path / "a.safetensors", network, card(network))
    loaded = load_trained(tmp_path / "a.safetensors")
    assert type(loaded) is PointNet2
    assert loaded.card == card(network)
    points = cloud(columns=3)
    with torch.no_grad():
        assert torch.equal(loaded(points, [1], seeds=[0]), network(points, [1], seeds=[0]))


def test_half_precision_fits_in_four_megabytes(tmp_path, network):
    save_model(tmp_path / "a.safetensors", network, card(network), half=True)
    assert (tmp_path / "a.safetensors").stat().st_size < 4_000_000
