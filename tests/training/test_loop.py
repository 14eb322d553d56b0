"""A whole run: stopped and resumed, its randomness, its steps, and what it keeps."""

import random
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from toys import AS_IT_IS, Recorder, killed, load, quick, same, small, trained, weights

import segcertify as sc
from segcertify import InputError
from segcertify.models import read_card
from segcertify.training import Intervals, loop
from segcertify.training.distributed import Processes
from segcertify.training.log import TIMES, read_log

pytestmark = pytest.mark.usefixtures("no_pictures")


def log(path):
    """The rows without what differs from run to run."""
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_log(path.with_name("log.csv"))]


# Stopped and resumed


@pytest.mark.parametrize(
    "how",
    [
        {"optimiser": "adamw", "ema": 0.9, "objective": "consistency", "rotate": 20.0},
        {"optimiser": "sgd", "ema": 0, "sigma": (0.1, 0.5), "schedule": "cosine", "class_weights": "log"},
        {"optimiser": "adamw", "ema": 0.99, "objective": "smoothadv", "ohem": 0.5, "precision": "bf16"},
        {"optimiser": "adam", "epochs": 11, "schedule": "step", "decay_every": 3, "bn_momentum": (0.1, 0.01), "ema": 0},
    ],
)
def test_a_run_that_was_killed_twice_ends_as_one_that_was_not(data, tmp_path, monkeypatch, how):
    recipe, others = quick(**how), load(tmp_path / "toys", split="val", sizes=[(20, 24)] * 2)
    whole = trained(data, tmp_path / "whole", recipe, validation=others)
    out = tmp_path / "parts"
    killed(data, out, recipe, monkeypatch, after=7, validation=others)  # saved after 4, logged after 6
    assert [row["step"] for row in read_log(out / "log.csv")] == [2, 4, 6]
    killed(data, out, recipe, monkeypatch, after=5, validation=others)  # from 4 on: saved after 8
    assert not (out / "model.safetensors").exists()
    torch.manual_seed(5)  # the global seed is of no importance, nor are the weights that it goes on with
    path = trained(data, out, recipe, model=small(seed=3), validation=others)
    assert same(weights(path), weights(whole))
    assert log(path) == log(whole)
    assert [row["step"] for row in log(path)] == [2, 4, 6, 8, 10, 11]
    assert read_card(path) == read_card(whole)
    assert {file.name for file in out.iterdir()} == {
        "model.safetensors", "model.md", "recipe.json", "log.csv", "loss.png"
    }  # fmt: skip


def test_a_denoiser_is_trained_measured_and_resumed(data, tmp_path, monkeypatch):
    def denoiser(seed):
        torch.manual_seed(seed)
        return sc.models.new(spec, classes=3)

    spec, recipe = "denoiser?widths=4,8", quick(objective="denoising", sigma=(0.25, 0.5))
    settings = {"spec": spec, "validation": load(tmp_path / "toys", split="val", sizes=[(20, 24)] * 2), "half": True}
    whole = trained(data, tmp_path / "whole", recipe, model=denoiser(0), **settings)
    out = tmp_path / "parts"
    killed(data, out, recipe, monkeypatch, after=7, model=denoiser(0), **settings)
    path = trained(data, out, recipe, model=denoiser(1), **settings)
    assert same(weights(path), weights(whole))
    assert log(path) == log(whole)
    card = read_card(path)
    assert (card.classes, card.is_denoiser) == (("red", "green", "blue"), True)
    assert card.metrics["PSNR at sigma 0.25 on other scenes"] > 12
    assert card.spec("FILE") == "MODEL?denoiser=FILE"
    assert "# model: a denoiser of images\n" in (out / "model.md").read_text()


def test_a_run_of_the_first_version_is_resumed(data, tmp_path):
    """A run killed in its eighth step, before torch's AveragedModel and LambdaLR were used, and how it should end."""
    before = Path(__file__).with_name("unfinished")
    recipe = quick(optimiser="adamw", ema=0.9, objective="consistency", rotate=20.0, encoder_lr=0.3)
    for name in ("recipe.json", "log.csv", "resume.safetensors"):
        shutil.copy(before / name, tmp_path / name)
    found, expected = weights(trained(data, tmp_path, recipe)), weights(before / "expected.safetensors")
    assert found.keys() == expected.keys()
    differences = torch.cat([(found[name] - value).abs().double().flatten() for name, value in expected.items()])
    assert differences.mean() < 1e-3  # exact on one CPU; on another, four steps of AdamW amplified rounding to 0.004
    assert differences.max() < 0.02
    assert not torch.allclose(found["5.weight"], small()[5].weight, atol=1e-2)


def test_a_run_that_goes_on_with_other_intervals_logs_true_means(data, tmp_path, monkeypatch):
    killed(data, tmp_path / "a", quick(), monkeypatch, after=7)
    path = trained(data, tmp_path / "a", intervals=Intervals(3, 3, 3))  # from 4 on
    each = log(trained(data, tmp_path / "b", intervals=Intervals(1, 1, 1)))
    rows = {row["step"]: row["loss"] for row in log(path)}
    assert list(rows) == [2, 4, 6, 9, 11]
    assert rows[6] == pytest.approx(np.mean([row["loss"] for row in each[4:6]]), rel=1e-6)
    assert rows[9] == pytest.approx(np.mean([row["loss"] for row in each[6:9]]), rel=1e-6)


# Randomness


def test_global_seeds_are_neither_used_nor_touched(data, tmp_path, monkeypatch):
    paths = []
    monkeypatch.setattr("torch.cuda.manual_seed_all", None)  # another device's seed, never put back
    for seed in (1, 2):
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        before = torch.random.get_rng_state(), np.random.get_state()[1], random.getstate()  # noqa: NPY002
        paths.append(trained(data, tmp_path / str(seed)))
        after = torch.random.get_rng_state(), np.random.get_state()[1], random.getstate()  # noqa: NPY002
        assert torch.equal(before[0], after[0])
        assert np.array_equal(before[1], after[1])
        assert before[2] == after[2]
    assert same(weights(paths[0]), weights(paths[1]))
    other = trained(data, tmp_path / "3", quick(seed=1))
    assert not same(weights(other), weights(paths[0]))


def test_noise_depends_on_the_seed_and_the_process(tmp_path, monkeypatch):
    data = load(tmp_path / "toys", sizes=[(24, 32)])
    seen = []
    for seed, rank in ((0, 0), (1, 0), (0, 1), (0, 0)):
        model = Recorder(small())
        alone = Processes(rank, 1, torch.device("cpu"))
        monkeypatch.setattr(loop, "join_processes", lambda device, alone=alone: nullcontext(alone))
        trained(data, tmp_path / str(len(seen)), quick(**AS_IT_IS, seed=seed, iterations=1), model)
        seen.append(model.seen[1])
    assert torch.equal(seen[0], seen[3])
    assert all((seen[a] - seen[b]).std() > 0.2 for a, b in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.parametrize("rank", [0, 1])
def test_one_process_shows_how_far_it_is(data, tmp_path, monkeypatch, capsys, rank):
    real, calls, shown = loop.read_pool, [], rank == 0

    def spy(data, device, *, progress, **options):
        calls.append(progress)
        return real(data, device, progress=False, **options)

    monkeypatch.setattr(loop, "read_pool", spy)
    monkeypatch.setattr(loop, "join_processes", lambda device: nullcontext(Processes(rank, 1, torch.device("cpu"))))
    trained(data, tmp_path / "out", quick(iterations=1), validation=data, progress=True)
    assert calls == [shown, shown]
    assert ("loss " in capsys.readouterr().err) == shown


def test_what_the_model_sees_without_noise_is_the_data(data, tmp_path):
    model = Recorder(small())
    data = load(tmp_path / "same", sizes=[(24, 32)] * 4)
    trained(data, tmp_path / "out", quick(**AS_IT_IS, objective="non-robust", iterations=3, batch_size=4), model)
    pictures = sorted(scene.x.mean() for scene in data)
    for x in model.seen[1:]:  # each epoch, every picture once
        assert 0 <= x.min() <= x.max() <= 1
        assert sorted(x.mean((1, 2, 3)).tolist()) == pytest.approx(pictures, abs=1e-5)


def test_the_order_of_the_scenes_depends_on_the_seed(tmp_path):
    data, orders = load(tmp_path / "same", sizes=[(24, 32)] * 8), []
    for seed in (0, 1):
        model = Recorder(small())
        recipe = quick(**AS_IT_IS, objective="non-robust", iterations=1, batch_size=8, seed=seed)
        trained(data, tmp_path / str(seed), recipe, model)
        orders.append([round(float(x.mean()), 4) for x in model.seen[1]])
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


# Steps


def test_the_model_is_trained_in_training_mode(data, tmp_path):
    model = Recorder(small().eval())
    trained(data, tmp_path / "out", quick(iterations=3), model)
    assert model.modes == [False, True, True, True]  # the first is the test whether it fits
    assert model.model[2].num_batches_tracked == 3


def test_it_learns(data, tmp_path):
    recipe = quick(iterations=60, lr=0.03, objective="noise", batch_size=6, ema=0.9)
    path = trained(data, tmp_path / "out", recipe, validation=data, intervals=Intervals(10, 10, 60))
    rows = log(path)
    assert rows[-1]["loss"] < 0.6 * rows[0]["loss"]
    assert rows[-1]["validation accuracy"] > 0.85


@pytest.mark.parametrize(("clip", "moved"), [(1e-3, 1e-3), (1e-2, 1e-2)])
def test_long_gradients_are_clipped(data, tmp_path, clip, moved):
    settings = {"optimiser": "sgd", "momentum": 0, "lr": 1.0, "weight_decay": 0, "warmup": 0, "iterations": 1, "ema": 0}
    model = small()
    before = [weight.detach().clone() for weight in model.parameters()]
    trained(data, tmp_path / "out", quick(**settings, clip=clip), model)
    shifts = [(a - b).flatten() for a, b in zip(model.parameters(), before, strict=True)]
    assert torch.cat(shifts).norm().item() == pytest.approx(moved, rel=1e-3)
    free = small()
    trained(data, tmp_path / "free", quick(**settings, clip=0), free)
    shifts = [(a - b).flatten() for a, b in zip(free.parameters(), before, strict=True)]
    assert torch.cat(shifts).norm().item() > 0.05


def test_the_log_has_the_rate_of_each_step(data, tmp_path):
    recipe = quick(iterations=4, warmup=0.5, power=1.0, lr=0.4)
    rows = log(trained(data, tmp_path / "out", recipe, intervals=Intervals(1, 4, 4)))
    assert [row["lr"] for row in rows] == pytest.approx([0.2, 0.3, 0.2, 0.1])


def test_the_steps_take_the_rate_of_the_schedule(data, tmp_path):
    """With a rate of next to nothing after the first step, the weights stay where that step put them."""
    settings = {"optimiser": "sgd", "momentum": 0, "warmup": 0, "power": 60.0, "ema": 0, "weight_decay": 0}
    models = small(), small()
    trained(data, tmp_path / "1", quick(**settings, iterations=1), models[0])
    trained(data, tmp_path / "2", quick(**settings, iterations=2), models[1])
    assert torch.allclose(models[0][5].weight, models[1][5].weight, atol=1e-7)
    assert not torch.allclose(models[0][5].weight, small()[5].weight, atol=1e-5)


def test_the_average_is_what_is_kept(data, tmp_path):
    models = {ema: small() for ema in (0, 0.9)}
    kept = {ema: weights(trained(data, tmp_path / str(ema), quick(ema=ema), models[ema])) for ema in models}
    last = {ema: model.state_dict() for ema, model in models.items()}
    assert same(last[0], last[0.9])  # averaging leaves the steps alone
    assert same(kept[0], last[0])
    assert not torch.allclose(kept[0.9]["5.weight"], last[0.9]["5.weight"], atol=1e-4)


def test_the_average_knows_how_old_it_is(data, tmp_path, monkeypatch):
    real, steps = AveragedModel.update_parameters, []

    def spy(average, model):
        steps.append(int(average.n_averaged) - 1)
        real(average, model)

    killed(data, tmp_path / "out", quick(), monkeypatch, after=7)
    monkeypatch.setattr(AveragedModel, "update_parameters", spy)
    trained(data, tmp_path / "out")
    assert steps == [4, 5, 6, 7, 8, 9, 10]


def test_class_weights_and_the_hardest_pixels_matter(data, tmp_path):
    losses = {
        log(trained(data, tmp_path / str(i), quick(iterations=1, **how)))[0]["loss"]
        for i, how in enumerate([{}, {"class_weights": "log"}, {"ohem": 0.25}])
    }
    assert len(losses) == 3


def test_frozen_weights_stay_as_they_are(data, tmp_path, monkeypatch):
    def frozen(seed=0):
        model = small(seed=seed)
        model[1].requires_grad_(False)
        return model

    whole = trained(data, tmp_path / "whole", model=frozen())
    assert torch.equal(weights(whole)["1.weight"], small()[1].weight)
    assert not torch.equal(weights(whole)["5.weight"], small()[5].weight)
    killed(data, tmp_path / "parts", quick(), monkeypatch, after=5, model=frozen())
    assert same(weights(trained(data, tmp_path / "parts", model=frozen(seed=3))), weights(whole))


# The result


@pytest.mark.parametrize(
    ("how", "sigma"), [({"sigma": (2.0, 0.5), "ema": 0}, 2.0), ({"objective": "non-robust"}, 0.0), ({}, 0.25)]
)
def test_what_is_kept_is_measured_under_the_noise_of_the_training(data, tmp_path, monkeypatch, how, sigma):
    real, calls, model = loop.validate, [], small()

    def spy(measured, pool, *, sigma):
        calls.append((measured is model, sigma))
        return real(measured, pool, sigma=sigma)

    monkeypatch.setattr(loop, "validate", spy)
    rows = log(trained(data, tmp_path / "out", quick(**how), model, validation=data))
    assert [row["step"] for row in rows if "validation mIoU" in row] == [4, 8, 11]
    assert calls == [(how.get("ema") == 0, sigma)] * 3


# What is refused before anything is read, trained or written


def test_other_refusals_that_come_first(data, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "read_pool", None)  # nothing is read
    with pytest.raises(InputError, match="cannot be described in a file"):
        trained(data, tmp_path / "out", spec="")
    with pytest.raises(InputError, match="licence must be a text"):
        trained(data, tmp_path / "out", licence="")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match="TensorBoard is not installed"):
        trained(data, tmp_path / "out", tensorboard=True)
    with pytest.raises(InputError, match="device must be such as"):
        trained(data, tmp_path / "out", device="gpu")
    with monkeypatch.context() as patch:
        patch.setattr(loop, "join_processes", lambda device: nullcontext(Processes(0, 3, torch.device("cpu"))))
        with pytest.raises(InputError, match="batch_size 4 must be a multiple of the number of processes, 3"):
            trained(data, tmp_path / "out")
    load(tmp_path / "other")
    (tmp_path / "other" / "dataset.toml").write_text(
        (tmp_path / "other" / "dataset.toml").read_text().replace('"red"', '"pink"')
    )
    other = sc.data.load(f"folder:{tmp_path / 'other'}?split=train")
    with pytest.raises(InputError, match="toys/train has other classes than toys/train"):
        trained(data, tmp_path / "out", validation=other)
    assert not (tmp_path / "out").exists()


def test_a_batch_norm_with_one_value_is_a_clear_error(data, tmp_path):
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1)

        def forward(self, x):
            return x + self.head(self.norm(x.mean((2, 3), keepdim=True)))

    with pytest.raises(InputError, match=r"1 of the batch_size 1 with crops of \(16, 16\).*use a larger batch_size"):
        trained(data, tmp_path / "out", quick(batch_size=1), model=Pooled())


def test_a_state_that_was_cut_says_how_to_go_on(data, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "resume.safetensors").write_bytes(b"cut")
    with pytest.raises(InputError, match=r"truncated.*unfinished run: delete it to begin the run again"):
        trained(data, out)


def test_a_picture_that_failed_is_drawn_by_the_next_call(data, tmp_path):
    """A full disk at the end of the training left a folder without it for ever."""
    path = trained(data, tmp_path / "run")
    content = path.read_bytes()
    (tmp_path / "run" / "loss.png").unlink()
    trained(data, tmp_path / "run")
    assert (tmp_path / "run" / "loss.png").exists()
    assert path.read_bytes() == content


def test_a_state_that_a_kill_left_beside_the_model_goes_with_the_next_call(data, tmp_path):
    path = trained(data, tmp_path / "run")
    content = path.read_bytes()
    (tmp_path / "run" / "resume.safetensors").write_bytes(b"left over")
    trained(data, tmp_path / "run")
    assert not (tmp_path / "run" / "resume.safetensors").exists()
    assert path.read_bytes() == content
