"""Models that do not fit their data are refused before anything is read, trained or written."""

import pytest
import torch
from torch import nn
from toys import load, quick, small, trained

from segcertify import InputError
from segcertify.models import Denoiser

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


@pytest.mark.parametrize(
    ("model", "objective", "message"),
    [
        (small(), "denoising", "denoising is for the model denoiser, .* the objective denoising for a Sequential"),
        (Denoiser((4,)), "noise", "denoising is for the model denoiser, .* the objective noise for a Denoiser"),
    ],
)
def test_denoisers_and_segmenters_have_their_own_objectives(data, tmp_path, model, objective, message):
    with pytest.raises(InputError, match=message):
        trained(data, tmp_path / "out", quick(objective=objective), model=model)


class OneSize(nn.Module):
    """A network for pictures of one size, as those with an embedding of positions are."""

    def __init__(self, size):
        super().__init__()
        self.positions, self.layer = nn.Parameter(torch.zeros(3, *size)), nn.Conv2d(3, 3, 1)

    def forward(self, batch):
        return self.layer(batch + self.positions)


def test_a_model_of_one_size_takes_crops_of_that_size(data, tmp_path):
    assert trained(data, tmp_path / "out", quick(iterations=1, crop=(20, 24)), OneSize((20, 24))).exists()
    with pytest.raises(InputError, match=r"cannot take inputs \(1, 3, 16, 16\), as of toys/train .*crop"):
        trained(data, tmp_path / "other", model=OneSize((20, 24)))
    assert not (tmp_path / "other").exists()


def test_a_model_that_cannot_be_measured_is_found_before_it_trains(data, tmp_path):
    others = load(tmp_path / "toys", split="val", sizes=[(20, 24)])
    with pytest.raises(InputError, match=r"cannot take inputs \(1, 3, 20, 24\), as of toys/val"):
        trained(data, tmp_path / "out", model=OneSize((16, 16)), validation=others)
    assert not (tmp_path / "out").exists()
