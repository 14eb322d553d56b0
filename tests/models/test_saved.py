"""Models trained here: from files and by name, and every file that is not one."""

import sys
from dataclasses import replace
from importlib.resources import as_file

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import segcertify as sc
from segcertify import InputError, models
from segcertify.models import Card, card_of, load_trained, save_model
from segcertify.models import saved as trained
from segcertify.models.families import describe
from segcertify.models.networks.hrnet import Architecture, HRNet
from segcertify.models.networks.lite import Lite
from segcertify.storage import archive

MAKE = f"python:{__name__}:make"


def make(classes=2, depth=1):
    """A user's network, with a scalar in its state and names that a training wrapper's could be."""
    torch.manual_seed(0)
    network = nn.Module()
    network.model = nn.Sequential(
        nn.Conv2d(3, 4 * depth, 1), nn.BatchNorm2d(4 * depth), nn.Conv2d(4 * depth, classes, 1)
    )
    network.forward = network.model.forward
    return network


def make_function():
    return lambda batch: batch


def hrnet(seed=0, **changes):
    torch.manual_seed(seed)
    return HRNet(
        Architecture(**{"width": 4, "classes": 3, "blocks": 1, "modules": (1, 1, 1), **changes}),
        mean=(0.1, 0.2, 0.3), std=(0.3, 0.2, 0.1),
    ).eval()  # fmt: skip


def card(model, spec=""):
    return Card(
        architecture=describe(model, spec),
        classes=tuple(f"class {i}" for i in range(3)),
        colours=((0, 0, 0),) * 3,
        data="toy (3 scenes)",
        objective="cross-entropy",
        sigma=(0.25,),
        recipe={"epochs": 1},
        metrics={"mIoU": 0.5},
        licence="none",
        date="2025-01-31",
        version="0.1.0",
    )


@pytest.fixture
def saved(tmp_path):
    """An HRNet and the file that holds it."""
    model = hrnet()
    save_model(tmp_path / "a.safetensors", model, card(model))
    return model, tmp_path / "a.safetensors"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of bundled models, empty."""
    folder = tmp_path / "bundled"
    monkeypatch.setattr(trained, "FOLDER", folder)
    return folder


def written(path, *, architecture, arrays):
    """A file with a card that need not belong to its weights."""
    header = {**card(hrnet()).to_plain(), "architecture": architecture}
    archive.write(path, kind="model", version=1, header=header, arrays=arrays)
    return path


def arrays_of(model):
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("model", [hrnet(1), Lite(3, 8).eval()])
def test_a_model_comes_back_from_its_file(tmp_path, model):
    save_model(tmp_path / "a.safetensors", model, card(model))
    state = torch.random.get_rng_state()
    loaded = load_trained(tmp_path / "a.safetensors")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert type(loaded) is type(model)
    assert loaded.card == card(model)
    assert not any(module.training for module in loaded.modules())
    assert not any(tensor.is_meta for tensor in (*loaded.parameters(), *loaded.buffers()))
    image = torch.rand(2, 3, 32, 48)
    assert torch.equal(loaded(image), model(image))
    loaded.train()(image).sum().backward()  # and it can be trained on
    assert all(p.grad is not None for p in loaded.parameters())


def test_trained_spec(saved):
    model, path = saved
    loaded = models.load(f"trained:{path}")
    assert card_of(loaded) == card(model)
    assert not loaded.training
    image = torch.rand(1, 3, 32, 32)
    assert torch.equal(loaded(image), model(image))
    scaled = models.load(f"trained:{path}?scale=0.5")
    assert isinstance(scaled, models.MultiScale)
    assert card_of(scaled) == card(model)
    with pytest.raises(InputError, match=r"a\.safetensors brings the normalisation that it was trained with"):
        models.load(f"trained:{path}?mean=0,0,0&std=1,1,1")
    with pytest.raises(InputError, match="unknown option 'width' in 'trained:"):
        models.load(f"trained:{path}?width=4")


def test_python_spec_with_weights_of_ours(tmp_path):
    model = make(classes=3, depth=2).eval()
    with torch.no_grad():
        model.model[0].weight.add_(1)
    path = tmp_path / "a+b.safetensors"
    save_model(path, model, card(model, f"{MAKE}?depth=2"))
    loaded = models.load(f"{MAKE}?depth=2&weights={path}")  # the number of classes is on the card
    image = torch.rand(1, 3, 8, 8)
    assert torch.equal(loaded(image), model(image))
    assert card_of(loaded) == card(model, f"{MAKE}?depth=2")
    assert not any(module.training for module in loaded.modules())
    with pytest.raises(InputError, match=rf"a\+b\.safetensors: .*load the model as {MAKE}\?depth=2&weights=FILE"):
        load_trained(path)
    with pytest.raises(InputError, match=r"a\+b\.safetensors does not fit Module.*of another shape"):
        models.load(f"{MAKE}?depth=1&weights={path}")


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_python_spec_with_a_plain_checkpoint(tmp_path, suffix):
    weights = {name: tensor + 1 for name, tensor in nn.Conv2d(3, 2, 1).state_dict().items()}
    path = tmp_path / f"a.{suffix}"
    save_file(weights, path) if suffix == "safetensors" else torch.save({"state_dict": weights}, path)
    loaded = models.load(f"python:torch.nn:Conv2d?in_channels=3&out_channels=2&kernel_size=1&weights={path}")
    assert torch.equal(loaded.model.weight, weights["weight"])
    assert card_of(loaded) is None


def test_python_spec_with_weights_that_cannot_be(tmp_path, saved):
    with pytest.raises(InputError, match=r"no checkpoint at gone\.pth"):
        models.load(f"{MAKE}?weights=gone.pth")
    with pytest.raises(InputError, match=r"a\.safetensors does not fit"):
        models.load(f"{MAKE}?weights={saved[1]}")
    with pytest.raises(InputError, match=r"gave function, but only a torch\.nn\.Module takes weights"):
        models.load(f"python:{__name__}:make_function?weights={saved[1]}")
    (tmp_path / "cut.safetensors").write_bytes(saved[1].read_bytes()[:-1])
    with pytest.raises(InputError, match=r"cannot read .*cut\.safetensors"):
        models.load(f"{MAKE}?weights={tmp_path / 'cut.safetensors'}")


def test_files_cut_short(saved, tmp_path):
    content = saved[1].read_bytes()
    for size in (0, 7, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.safetensors").write_bytes(content[:size])
        with pytest.raises(InputError, match=r"cut\.safetensors is not a model file, or is truncated"):
            load_trained(tmp_path / "cut.safetensors")


def test_files_of_something_else(tmp_path):
    votes = sc.Votes(candidate=np.array([1]), agree=np.array([100]), n=100, n0=10, noise=sc.Gaussian(0.25))
    sc.certify_votes(votes, tau=0.75, alpha=0.001).save(tmp_path / "certificate.safetensors")
    save_file(hrnet().state_dict(), tmp_path / "foreign.safetensors")
    save_file({"a": torch.ones(1, dtype=torch.bfloat16)}, tmp_path / "bf16.safetensors")
    torch.save(hrnet().state_dict(), tmp_path / "weights.pth")
    for name, message in (
        ("certificate.safetensors", r"certificate\.safetensors holds 'segcertify\.certificate', not segcertify\.model"),
        ("foreign.safetensors", r"foreign\.safetensors is not a file that segcertify wrote"),
        ("bf16.safetensors", r"bf16\.safetensors is not a (model|file) that segcertify wrote"),  # by what is imported
        ("weights.pth", r"weights\.pth is not a model file"),
        ("gone.safetensors", r"no model file at .*gone\.safetensors"),
    ):
        for load in (load_trained, models.read_card):
            with pytest.raises(InputError, match=message):
                load(tmp_path / name)


def test_a_file_whose_parts_do_not_belong_together(tmp_path):
    path, arrays = tmp_path / "a.safetensors", arrays_of(hrnet())
    four = {**describe(hrnet()), "classes": 4}
    with pytest.raises(InputError, match=r"a\.safetensors: the network has 4 classes, but the card names 3"):
        load_trained(written(path, architecture=four, arrays=arrays))
    with pytest.raises(InputError, match=r"a\.safetensors does not fit HRNet.*last_layer\.3\.weight \(4, .*of \(3,"):
        load_trained(written(path, architecture=describe(hrnet()), arrays=arrays_of(hrnet(classes=4))))
    with pytest.raises(InputError, match=r"a\.safetensors does not fit HRNet"):
        load_trained(written(path, architecture=describe(hrnet()), arrays=arrays_of(hrnet(width=8))))
    with pytest.raises(InputError, match=r"a\.safetensors does not fit Lite.*missing"):
        load_trained(written(path, architecture=describe(Lite(3, 8)), arrays=arrays))
    less = {name: array for name, array in arrays.items() if name != "conv1.weight"}
    with pytest.raises(InputError, match=r"a\.safetensors does not fit HRNet.*1 missing: conv1\.weight"):
        load_trained(written(path, architecture=describe(hrnet()), arrays=less))


def test_weights_that_are_not_finite(tmp_path):
    arrays = {name: array.copy() for name, array in arrays_of(hrnet()).items()}
    arrays["conv1.weight"][0] = np.nan
    with pytest.raises(InputError, match=r"a\.safetensors holds weights that are NaN or infinite: conv1\.weight"):
        load_trained(written(tmp_path / "a.safetensors", architecture=describe(hrnet()), arrays=arrays))


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        ({"family": "vit", "classes": 3}, "unknown family of networks 'vit': .*se lite, hrnet"),
        ({"family": "python", "spec": "python:antigravity:x"}, r"load the model as python:antigravity:x\?weights=FILE"),
        ({**describe(hrnet()), "width": 10**12}, "width must be at most 10000"),
        ({**describe(hrnet()), "depth": 1}, "unreadable description"),
        ({key: value for key, value in describe(hrnet()).items() if key != "mean"}, "unreadable description.*mean"),
    ],
)
def test_descriptions_that_are_refused(tmp_path, architecture, message):
    with pytest.raises(InputError, match=rf"a\.safetensors: .*{message}"):
        load_trained(written(tmp_path / "a.safetensors", architecture=architecture, arrays=arrays_of(hrnet())))
    assert "antigravity" not in sys.modules  # nothing that a file names is imported


def test_bundled_models(folder, saved):
    assert models.bundled() == []
    folder.mkdir()
    assert models.bundled() == []
    for name in ("pets", "camvid", "parts"):
        (folder / f"{name}.safetensors").write_bytes(saved[1].read_bytes())
    (folder / "README.md").write_text("x")
    assert models.bundled() == ["camvid", "parts", "pets"]
    image = torch.rand(1, 3, 32, 32)
    for spec, size in (("pets", 160), ("parts", 2048)):
        loaded = models.load(spec)
        assert torch.equal(loaded(image), saved[0](image))
        assert card_of(loaded) == replace(card(saved[0]), input_size=size)
    assert isinstance(models.load("camvid?scale=0.5"), models.MultiScale)
    assert torch.equal(models.load_bundled("camvid")(image), saved[0](image))


def test_bundled_models_that_are_not_there(folder):
    with pytest.raises(InputError, match="no model 'camvid' ships with segcertify: there are none"):
        models.load_bundled("camvid")
    with pytest.raises(InputError, match="unknown model 'camvid'"):
        models.load("camvid")
    folder.mkdir()
    (folder / "pets.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match=r"unknown model 'camvid': .*se .*trained:FILE.* pets, .* or pets-non-robust$"):
        models.load("camvid")
    with pytest.raises(InputError, match="there are pets"):
        models.load_bundled("../pets")
    with pytest.raises(InputError, match=r"pets\.safetensors is not a model file"):
        models.load("pets")
    with pytest.raises(InputError, match="pets brings the normalisation that it was trained with"):
        models.load("pets?mean=0&std=1")


def test_twins_lie_beside_the_package_in_the_repository(folder, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(trained, "WEIGHTS", tmp_path / "weights")
    for name, training in (
        ("pets-non-robust", r"train --data 'pets:FOLDER\?split=train' --objective non-robust"),
        ("camvid-non-robust", r"train --data 'camvid:FOLDER\?split=train\+val' --objective non-robust .*and join"),
    ):
        found = rf"weights/{name}\.safetensors from the repository"
        cure = rf"{name} does not ship .*{found}, or make it with segcertify {training} .*docs/training\.md"
        with pytest.raises(InputError, match=cure):
            models.load(f"{name}?scale=0.5")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "pets-non-robust.safetensors").write_bytes(saved[1].read_bytes())
    assert card_of(models.load("pets-non-robust")) == replace(card(saved[0]), input_size=160)
    assert models.bundled() == []


def test_what_ships_loads():
    assert models.bundled() == ["camvid", "parts", "pets"]
    for name in (*models.bundled(), *trained.IN_REPOSITORY):
        model = models.load_bundled(name)
        assert len(model.card.classes) > 1
        model.to("cpu")  # every tensor has values
        assert not any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))


def test_what_ships_is_small_and_has_its_card_beside_it():
    """`tests/tools/test_model_cards.py` compares them with what `tools.model_cards` writes."""
    for name in (*models.bundled(), *trained.IN_REPOSITORY):
        with as_file(
            (trained.WEIGHTS if name in trained.IN_REPOSITORY else trained.FOLDER) / f"{name}.safetensors"
        ) as file:
            card = trained.with_best_size(models.read_card(file), name)
            assert trained.beside(file).is_file()
            assert "It does best on " in card.markdown()
            assert card.licence != "not stated"
            assert file.stat().st_size <= 12_000_000
