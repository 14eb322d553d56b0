"""PartSegmenter: one category's parts, the mean of several runs, seeds, specs, and the sampler around it."""

import numpy as np
import pytest
import torch
from parts_networks import card, lively

import segcertify as sc
from segcertify import InputError, models
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES
from segcertify.models import PartSegmenter, PointNet2, card_of, save_model
from segcertify.models import saved as trained
from segcertify.models.networks.pointnet2 import hashed
from segcertify.models.wrappers.part_segmenter import category_name


@pytest.fixture(scope="module")
def network():
    return lively(PointNet2(normals=False))


@pytest.fixture(scope="module")
def cloud():
    xyz = torch.randn(512, 3, generator=torch.Generator().manual_seed(1))
    return xyz / xyz.norm(dim=1, keepdim=True)


def scores(model, *clouds, seeds=None):
    with torch.no_grad():
        return model(torch.stack(clouds), seeds=seeds)


def test_labels_are_the_categorys_parts(network, cloud):
    assert [number for parts in CATEGORIES.values() for number in parts] == list(range(len(PART_NAMES)))
    for category in ("Airplane", "Lamp", 15):
        model = PartSegmenter(network, category, runs=1)
        output = scores(model, cloud)
        own = CATEGORIES[category_name(category)]
        assert output.shape == (1, 50, 512)
        assert torch.isfinite(output).all()
        assert set(output.argmax(1).flatten().tolist()) <= set(own)
        others = [part for part in range(50) if part not in own]
        assert (output[:, others].amax(1) < output[:, list(own)].amin(1)).all()
        plain = network(cloud[None], [list(CATEGORIES).index(category_name(category))], seeds=[hashed("run", 0, 0)])
        torch.testing.assert_close(output[:, list(own)], plain[:, list(own)])


def test_runs_are_averaged(network, cloud):
    model = PartSegmenter(network, "Chair", runs=3)
    output = scores(model, cloud, seeds=[9])[:, 12:16]
    runs = [network(cloud[None], [4], seeds=[hashed("run", run, 9)])[:, 12:16] for run in range(3)]
    assert not torch.allclose(runs[0], runs[1], atol=1e-3)
    torch.testing.assert_close(output, sum(runs) / 3)


def test_seeds(network, cloud):
    model = PartSegmenter(network, "Chair", runs=1)
    assert model.random
    both = scores(model, cloud, cloud, seeds=[1, 3])
    torch.testing.assert_close(scores(model, cloud, seeds=[3])[0], both[1], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(both[0], both[1], atol=1e-3)
    assert torch.equal(scores(model, cloud), scores(model, cloud, seeds=[0]))


def test_a_category_is_given(network, cloud):
    free = PartSegmenter(network, runs=1)
    with pytest.raises(
        InputError, match=r"which category.*use model.for_category\('Chair'\), or write \?category=Chair"
    ):
        free(cloud[None])
    chair = free.for_category("Chair")
    assert chair.model is network
    assert not chair.training
    assert (free.category, chair.category, chair.runs) == (None, "Chair", 1)
    assert torch.equal(scores(chair, cloud), scores(PartSegmenter(network, 4, 1), cloud))
    assert "category='Chair', runs=1" in repr(chair)


@pytest.mark.parametrize("name", ["Chair", "chair", "4", 4, np.int64(4)])
def test_names_of_categories(name):
    assert category_name(name) == "Chair"


@pytest.mark.parametrize("name", ["Sofa", "", "16", 16, 99])
def test_unknown_categories(network, name):
    with pytest.raises(InputError, match=r"unknown category .*: use Airplane, .*Table or its number, 0 to 15"):
        PartSegmenter(network, name)


def test_bad_settings(network):
    for category in (-1, 1.5, True):
        with pytest.raises(InputError, match="category must be an integer"):
            PartSegmenter(network, category)
    with pytest.raises(InputError, match="runs must be an integer not less than 1, but got 0"):
        PartSegmenter(network, "Chair", 0)
    with pytest.raises(InputError, match="16 categories and 7 parts, but ShapeNet-Part has 16 and 50"):
        PartSegmenter(PointNet2(parts=7))


def test_sampling(network, cloud):
    model = PartSegmenter(network, "Motorbike", runs=1)
    noise = sc.Gaussian(0.1, channels=(0, 1, 2), axis=1)
    votes, again, others = (
        sc.sample(model, cloud, noise=noise, n=4, n0=2, seed=7, batch_size=size) for size in (4, 4, 2)
    )
    assert set(votes.candidate.tolist()) <= set(CATEGORIES["Motorbike"])
    assert len(set(votes.candidate.tolist())) > 1
    assert 0 < votes.agree.mean() < 4
    assert (votes.agree == again.agree).all()
    assert np.mean((votes.candidate == others.candidate) & (votes.agree == others.agree)) > 0.99  # up to rounding


def test_too_small_clouds_are_refused_at_once(network, cloud):
    with pytest.raises(InputError, match="at least 512 points, but got 100"):
        sc.sample(PartSegmenter(network, "Mug"), cloud[:100], noise=sc.Gaussian(0.1), n=5, n0=5, seed=0)


@pytest.fixture
def saved(tmp_path, network):
    """A file of segcertify, and one as others write it."""
    save_model(tmp_path / "parts.safetensors", network, card(network))
    torch.save({"model_state_dict": network.state_dict()}, tmp_path / "best.pth")
    return tmp_path


def test_specs(saved, network, cloud, monkeypatch):
    direct = scores(PartSegmenter(network, "Mug", 2), cloud)
    monkeypatch.setattr(trained, "FOLDER", saved)
    for spec in (f"pointnet2:{saved / 'best.pth'}", f"trained:{saved / 'parts.safetensors'}", "parts"):
        loaded = models.load(f"{spec}?category=Mug&runs=2")
        assert torch.equal(scores(loaded, cloud), direct)
        assert not any(module.training for module in loaded.modules())
        free = models.load(spec)
        assert (free.category, free.runs) == (None, 3)
        assert free.for_category("Cap").category == "Cap"
    assert models.load(f"pointnet2:{saved / 'best.pth'}?normals=false&category=3").category == "Car"
    assert card_of(models.load("parts")).classes == PART_NAMES


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("category=Sofa", "unknown category 'Sofa'"),
        ("runs=many", "runs cannot be 'many' in .*write runs=NUMBER .at least 1"),
        ("normals=true", "PointNet2 without normals, but normals=True was asked for"),
        ("normals=2", "normals cannot be '2' in .*: write normals=true .or false"),
        ("parts=3", "unknown option 'parts' in 'pointnet2:.*normals=true .or false"),
        ("scale=0.5", "scale, mean, std, bgr, above and denoiser are for images, but this model takes clouds"),
        ("mean=0,0,0&std=1,1,1", "scale, mean, std, bgr, above and denoiser are for images"),
    ],
)
def test_bad_options(saved, options, message):
    with pytest.raises(InputError, match=message):
        models.load(f"pointnet2:{saved / 'best.pth'}?{options}")
