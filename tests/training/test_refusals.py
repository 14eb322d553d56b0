"""What is refused before anything is read, trained or written."""

import sys
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from toys import load, quick, small, trained

import segcertify as sc
from segcertify import InputError
from segcertify.training import Every, loop
from segcertify.training.distributed import Ranks

pytestmark = pytest.mark.usefixtures("no_pictures")


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)

    def forward(self, batch):
        return [self.layer(batch)]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (small(classes=4), r"logits \(B, 3, height, width\) for toys/train, but gave \(1, 4, 8, 8\)"),
        (nn.Sequential(small(), nn.Flatten()), r"logits \(B, 3, .*but gave \(1, 192\)"),
        (nn.Sequential(small(), nn.Upsample(scale_factor=4)), r"\(32, 32\) are finer than the input's \(16, 16\)"),
        (Two(), r"logits \(B, 3, .*but gave list"),
        (nn.Identity(), "Identity has no weights to train"),
        (small().requires_grad_(False), "Sequential has no weights to train"),
    ],
)
def test_models_that_do_not_fit(data, tmp_path, model, message):
    with pytest.raises(InputError, match=message):
        trained(data, tmp_path / "out", model=model)
    assert not (tmp_path / "out").exists()
    assert all(module.training for module in model.modules())  # as it was


class OneSize(nn.Module):
    """A network for pictures of one size, as those with an embedding of places are."""

    def __init__(self, size):
        super().__init__()
        self.places, self.layer = nn.Parameter(torch.zeros(3, *size)), nn.Conv2d(3, 3, 1)

    def forward(self, batch):
        return self.layer(batch + self.places)


def test_a_model_of_one_size_takes_crops_of_that_size(data, tmp_path):
    assert trained(data, tmp_path / "out", quick(steps=1, crop=(20, 24)), OneSize((20, 24))).exists()
    with pytest.raises(InputError, match=r"cannot take inputs \(1, 3, 16, 16\), as of toys/train .*crop"):
        trained(data, tmp_path / "other", model=OneSize((20, 24)))
    assert not (tmp_path / "other").exists()


def test_a_model_that_cannot_be_measured_is_found_before_it_trains(data, tmp_path):
    others = load(tmp_path / "toys", split="val", sizes=[(20, 24)])
    with pytest.raises(InputError, match=r"cannot take inputs \(1, 3, 20, 24\), as of toys/val"):
        trained(data, tmp_path / "out", model=OneSize((16, 16)), validation=others)
    assert not (tmp_path / "out").exists()


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
        patch.setattr(loop, "ranks", lambda device: nullcontext(Ranks(0, 3, torch.device("cpu"))))
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


def test_other_scenes_are_refused(data, tmp_path):
    trained(data, tmp_path / "out", quick(steps=1))
    with pytest.raises(InputError, match="with scenes = 6, but now scenes = 4"):
        trained(data.limit(4), tmp_path / "out", quick(steps=1))
    with pytest.raises(InputError, match=r"with data = 'toys/train', but now data = 'toys/val'"):
        trained(load(tmp_path / "toys", split="val"), tmp_path / "out", quick(steps=1))


def test_folders_of_something_else(data, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match="holds a model of another run"):
        trained(data, tmp_path)
    (tmp_path / "recipe.json").write_text("[1]")
    with pytest.raises(InputError, match=r"recipe\.json is not a recipe that segcertify wrote"):
        trained(data, tmp_path)


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


def test_intervals():
    for name in ("log", "save", "validate"):
        with pytest.raises(InputError, match=rf"the steps of {name}-every must be an integer not less than 1"):
            Every(**{name: 0})
    for name in ("save", "validate"):
        with pytest.raises(InputError, match=rf"{name}-every must be a multiple of log-every, 2, but is 7: use 8"):
            Every(**{"log": 2, "save": 4, "validate": 4, name: 7})
