"""Validation of a model while it trains."""

import numpy as np
import pytest
import torch
from torch import nn
from toys import Recorder, load, small

from segcertify.training.streaming import read_pool
from segcertify.training.validation import validate, validate_denoiser


@pytest.fixture
def data(tmp_path):
    return load(tmp_path / "toys")


@pytest.fixture
def pool(data):
    return read_pool(data, "cpu", progress=False)


def brightest():
    """Labels by the brightest channel: nearly right on the toys."""
    model = nn.Conv2d(3, 3, 1, bias=False)
    nn.init.dirac_(model.weight)
    return model


def test_accuracy_and_iou_are_of_whole_scenes(data, pool):
    found = validate(brightest(), pool, sigma=0.0)
    labels = np.concatenate([scene.x.argmax(0)[scene.valid] for scene in data])
    truth = np.concatenate([scene.target[scene.valid] for scene in data])
    iou = [((labels == k) & (truth == k)).sum() / ((labels == k) | (truth == k)).sum() for k in range(3)]
    assert found == {"accuracy": pytest.approx((labels == truth).mean()), "mIoU": pytest.approx(np.mean(iou))}
    assert found["accuracy"] > 0.99


def test_noise_is_fixed_and_each_scene_has_its_own(data, pool):
    model = Recorder(brightest())
    validate(model, pool, sigma=0.5)
    noises = [x[0] - torch.from_numpy(scene.x) for x, scene in zip(model.seen, data, strict=True)]
    assert torch.cat([noise.flatten() for noise in noises]).std().item() == pytest.approx(
        0.5, rel=0.05
    )  # 7 std. errors
    assert not torch.allclose(noises[0], noises[5])  # of one size
    state = torch.random.get_rng_state()
    assert validate(model, pool, sigma=0.5) == validate(model.model, pool, sigma=0.5)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert validate(brightest(), pool, sigma=2.0)["accuracy"] < 0.8


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_evaluated_and_left_as_it_was(pool, training):
    model = Recorder(small().train(training))
    validate(model, pool, sigma=0.1)
    assert set(model.modes) == {False}
    assert all(module.training is training for module in model.modules())
    assert model.model[2].num_batches_tracked == 0


def test_the_ratio_of_a_denoiser_is_of_whole_images(data, pool):
    class Offset(nn.Module):
        """A denoiser that knows the noise but for a tenth."""

        def forward(self, noisy, sigma):
            x = scenes.pop(0)
            assert sigma.tolist() == [0.5]
            assert (noisy - x).std().item() == pytest.approx(0.5, rel=0.2)
            return torch.where(x > 0.5, x - 0.1, x + 0.1)

    scenes = [x for x, _ in pool.scenes()]
    assert validate_denoiser(Offset(), pool, sigma=0.5) == {"PSNR": pytest.approx(20, abs=1e-3)}
    assert not scenes
