"""The re-created released pipeline: right labels, independent draws, its own steps, and what it refuses."""

import numpy as np
import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify.bench import released
from segcertify.models import MultiScale, adapt
from segcertify.models.wrappers.normalisation import Normalise
from segcertify.sampling.segmenter import base_labels

IMAGE = torch.rand(3, 32, 64, generator=torch.Generator().manual_seed(0))
SETTINGS = {"n": 80, "n0": 6, "processes": 1}


class Threshold(nn.Module):
    """Class 1 where the first channel exceeds 0.5, in the units of the image, whatever the normalisation."""

    def __init__(self):
        super().__init__()
        self.normalise = Normalise([0.5, 0.4, 0.3], [0.25, 0.2, 0.1])

    def forward(self, batch):
        above = self.normalise(batch)[:, :1]
        return torch.cat([-above, above], 1)


class Coarse(nn.Module):
    """Random logits of five classes, at half the resolution."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.normalise, self.layer = Normalise([0.5, 0.4, 0.3], [0.25, 0.2, 0.1]), nn.Conv2d(3, 5, 3, 2, padding=1)

    def forward(self, batch):
        return self.layer(self.normalise(batch))


def at_scale(network, scale):
    return MultiScale(adapt(network.eval()), [scale]).eval()


def seen(network):
    """The batches that a network of the pipeline gets."""
    batches = []
    network.module.register_forward_pre_hook(lambda module, arguments: batches.append(arguments[0]))
    return batches


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_without_noise_its_labels_are_the_models(scale):
    """All steps but the noise: normalisation, resize, scores, arg-max. Ties that rounding decides are few."""
    model = at_scale(Coarse(), scale)
    found = released.measure(model, IMAGE, 0.0, **SETTINGS)
    own = base_labels(model, IMAGE)
    assert len(np.unique(own)) > 2
    assert (found.labels == own).mean() > 0.998


def test_its_certificate_is_right_and_as_good_as_ours():
    """Labels are certain where the image is far from 1/2, wavering where it is not."""
    image = IMAGE.clone()
    image[0, :, :32], image[0, :, 32:48], image[0, :, 48:] = 0.0, 1.0, 0.5
    found = released.measure(Threshold().eval(), image, 0.2, **SETTINGS)
    ours = sc.certify(Threshold().eval(), image, sigma=0.2, n=80, n0=6, tau=0.75, seed=0)
    assert set(np.unique(found.labels[:, :32])) <= {0, -1}
    assert set(np.unique(found.labels[:, 32:48])) <= {1, -1}
    assert (found.labels[:, 48:] == -1).all()
    assert ((found.labels >= 0)[:, :48].mean(), (~ours.abstained)[:, :48].mean()) > (0.9, 0.9)


def test_every_draw_has_noise_of_its_own():
    """The defect of the released code: one noisy image for a whole batch."""
    network = released.Network.of(Threshold().eval(), IMAGE)
    labels, batch_size = network.labels(IMAGE, 0.25, 10, 0, released._Clock(IMAGE.device))
    assert (batch_size, labels.shape, labels.dtype) == (4, (10, 32, 64), np.int64)
    assert len({draw.tobytes() for draw in labels}) == 10
    agree = (labels == labels[0]).mean((1, 2))[1:]
    assert (agree < 0.95).all()


def test_the_noise_has_the_law_it_should():
    """What the network sees, turned back into the units of the image, is the image and noise of this sigma."""
    model = Threshold().eval()
    network = released.Network.of(model, IMAGE)
    batches = seen(network)
    network.labels(IMAGE, 0.25, 8, 0, released._Clock(IMAGE.device))
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (network.mean, network.std))
    noise = torch.cat(batches[1:]) * std + mean - IMAGE  # the first pass warms up
    assert noise.shape == (8, 3, 32, 64)
    assert abs(float(noise.mean())) < 5 * 0.25 / noise.numel() ** 0.5
    assert float(noise.std()) == pytest.approx(0.25, rel=0.02)
    assert isinstance(model.normalise, Normalise)  # the model itself is as it was


@pytest.mark.parametrize(("scale", "batch_size"), [(0.25, 24), (0.5, 12), (1.0, 4), (0.75, 4)])
def test_batches_are_those_of_the_paper(scale, batch_size):
    network = released.Network.of(at_scale(Threshold(), scale), IMAGE)
    batches = seen(network)
    assert network.labels(IMAGE, 0.25, 50, 0, released._Clock(IMAGE.device))[1] == batch_size
    sizes = {tuple(batch.shape[2:]) for batch in batches}
    assert sizes == {(32 * scale, 64 * scale)}
    assert [len(batch) for batch in batches[1:]] == [batch_size] * (50 // batch_size) + [50 % batch_size]


def test_some_pixels_stand_for_all():
    whole = released.measure(Threshold().eval(), IMAGE, 0.25, **SETTINGS)
    part = released.measure(Threshold().eval(), IMAGE, 0.25, pixels=100, **SETTINGS)
    assert (whole.extrapolated, part.extrapolated, part.pixels_tested) == (False, True, 100)
    assert np.array_equal(whole.labels, part.labels)
    assert list(part.stages) == [*released.SAMPLING, *released.TESTS]
    assert part.total == sum(part.stages.values())
    assert part.stored_gib == 86 * 32 * 64 * 8 / 2**30


def test_some_draws_stand_for_all(monkeypatch):
    """Each stage takes one second whenever the clock is read: 2 of 10 draws in a batch stand for five such seconds."""
    now = iter(range(10_000))
    monkeypatch.setattr(released.time, "perf_counter", lambda: float(next(now)))
    found = released.measure(Threshold().eval(), IMAGE, 0.25, n=7, n0=3, draws=2, processes=1)
    assert (found.labels, found.extrapolated, found.draws, found.draws_made) == (None, True, 10, 2)
    assert found.stored_gib == 10 * 32 * 64 * 8 / 2**30
    assert {found.stages[name] for name in released.SAMPLING[:-1]} == {5.0}
    assert found.stages[released.SAMPLING[-1]] == 10.0  # a batch, and all together
    assert {found.stages[name] for name in released.TESTS} == {1.0}


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (MultiScale(adapt(Threshold()), [0.5, 1.0]), IMAGE, "one scale of at most 1"),
        (MultiScale(adapt(Threshold()), [0.5], flip=True), IMAGE, "no flips"),
        (MultiScale(adapt(Threshold()), [2.0]), IMAGE, "one scale of at most 1"),
        (Threshold(), torch.rand(100, 3), r"is for images \(3, H, W\), but the input has shape \(100, 3\)"),
    ],
)
def test_what_it_cannot_do_is_refused(model, x, message):
    with pytest.raises(sc.InputError, match=message):
        released.measure(model, x, 0.25)
