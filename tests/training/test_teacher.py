"""The teacher of a distillation: fixed, named with its digest, of the same classes; and runs that learn from it."""

from dataclasses import replace

import pytest
import torch
from toys import killed, quick, same, trained, weights

import segcertify as sc
from segcertify import InputError
from segcertify.models import PointNet2, read_card, save_model
from segcertify.models.families import describe
from segcertify.sampling.identity import weights_digest
from segcertify.training.log import read_log
from segcertify.training.teacher import load_teacher, require_teacher

HRNET = "hrnet?width=4&blocks=1&modules=1,1,1"

pytestmark = pytest.mark.usefixtures("no_pictures")


def taught(data, root, seed=0):
    """The spec of a teacher that was trained a little on the data, and its file."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = sc.models.new(HRNET, classes=3)
    path = trained(data, root / f"teacher{seed}", quick(iterations=2, crop=(32, 32)), model, spec=HRNET)
    return f"trained:{path}", path


def test_a_teacher_is_fixed_and_named_with_a_digest_of_its_weights(data, tmp_path):
    spec, _ = taught(data, tmp_path)
    model, name = load_teacher(spec)
    assert not model.training
    assert not any(weight.requires_grad for weight in model.parameters())
    assert name == f"model.safetensors (weights {weights_digest(model)})"  # and no path of a machine
    assert load_teacher(taught(data, tmp_path, seed=1)[0])[1] != name


def test_a_teacher_of_clouds_takes_batches_with_a_category(tmp_path):
    network = PointNet2(normals=False).eval()
    card = sc.models.load_bundled("parts").card
    save_model(tmp_path / "a.safetensors", network, replace(card, architecture=describe(network)))
    model, _ = load_teacher(f"trained:{tmp_path / 'a.safetensors'}")
    assert model(torch.cat([torch.rand(1, 512, 3), torch.full((1, 512, 1), 4.0)], -1)).shape == (1, 50, 512)


def test_a_teacher_must_have_the_classes_of_the_data(data, tmp_path):
    model, _ = load_teacher("pets")
    with pytest.raises(
        InputError, match=r"the teacher knows background, cat, dog, but toys/train has red, green, blue"
    ):
        require_teacher(model, data, crop=(32, 32))
    with pytest.raises(InputError, match="the teacher knows"):
        trained(data, tmp_path / "out", quick(objective="distillation", teacher="pets", crop=(32, 32)))
    assert not (tmp_path / "out").exists()


def test_a_run_that_was_killed_ends_as_one_that_was_not_and_says_who_taught_it(data, tmp_path, monkeypatch):
    spec, teacher = taught(data, tmp_path)
    before = weights(teacher)
    recipe = quick(objective="distillation", teacher=spec, paste=0.5, ema=0.9, crop=(32, 32))
    whole = trained(data, tmp_path / "whole", recipe)
    killed(data, tmp_path / "parts", recipe, monkeypatch, after=7)
    path = trained(data, tmp_path / "parts", recipe)
    assert same(weights(path), weights(whole))
    assert same(weights(teacher), before)
    card = read_card(path)
    assert card == read_card(whole)
    assert card.objective == "distillation"
    assert card.data == f"toys/train (6 scenes), taught by {load_teacher(spec)[1]}"
    assert set(read_log(path.with_name("log.csv"))[-1]) >= {"loss", "cross-entropy", "distillation", "consistency"}
    unpasted = quick(objective="distillation", teacher=spec, ema=0.9, crop=(32, 32))
    assert not same(weights(trained(data, tmp_path / "other", unpasted)), weights(whole))


def test_a_run_belongs_to_its_teachers_weights(data, tmp_path, monkeypatch):
    spec, path = taught(data, tmp_path)
    recipe = quick(objective="distillation", teacher=spec, crop=(32, 32))
    killed(data, tmp_path / "out", recipe, monkeypatch, after=5)
    path.write_bytes(taught(data, tmp_path, seed=1)[1].read_bytes())  # another model in the same file
    with pytest.raises(InputError, match=r"belongs to another run: its teacher is 'model.safetensors \(weights "):
        trained(data, tmp_path / "out", recipe)
