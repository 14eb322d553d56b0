"""Training draws the noise of its recipe: fresh in every step, before the normalisation, of one sigma an image."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest, norm
from torch import nn
from toys import AS_IT_IS, Recorder, batch, load, quick, small, trained

from segcertify.training.objectives import (
    Consistency,
    NoiseObjective,
    PixelLoss,
    SmoothAdv,
    gaussian_noise,
    repeat_batch,
)

pytestmark = pytest.mark.statistical
SIGMA = torch.tensor([0.25])


def test_noise_is_not_clipped_and_is_added_before_the_normalisation():
    """Kolmogorov-Smirnov on 15,360 numbers for each of four batches: false alarms 4e-6."""
    x, target = batch(size=(32, 40))
    inner = Recorder(nn.Conv2d(3, 3, 1))
    network = small()
    model = Recorder(nn.Sequential(network[0], inner))
    torch.manual_seed(0)
    NoiseObjective(PixelLoss(), SIGMA)(model, x, target)
    Consistency(PixelLoss(), SIGMA, m=2)(model, x, target)
    SmoothAdv(PixelLoss(), SIGMA, m=2, steps=1)(model, x, target)
    for given, normalised in zip(model.seen[:3], inner.seen[:3], strict=True):
        noise = given - repeat_batch(x, len(given) // len(x))
        assert kstest(noise.flatten(), norm(0, 0.25).cdf).pvalue > 1e-6
        assert given.min() < -0.5
        assert given.max() > 1.5
        torch.testing.assert_close(normalised, (given - network[0].mean) / network[0].std)
    assert kstest((inner.seen[0][:, 0] - (x[:, 0] - 0.4) / 0.3).flatten(), norm(0, 0.25 / 0.3).cdf).pvalue > 1e-6


def test_each_image_draws_one_sigma_for_all_its_copies():
    """Three sigmas, 300 images, 48 numbers a copy. Chi-square at 1e-6; the other bounds fail with less than 1e-6."""
    sigma, x = torch.tensor([1e-6, 1.0, 1e6]), torch.zeros(300, 3, 4, 4)
    torch.manual_seed(0)
    noise = gaussian_noise(x, sigma, m=3).view(3, 300, -1)
    which = noise.std(2).log10().div(6).round()  # -1, 0 or 1
    assert (which == which[0]).all()
    counts = [int((which[0] == kind).sum()) for kind in (-1, 0, 1)]
    assert chisquare(counts).pvalue > 1e-6
    ordinary = noise[:, which[0] == 0]
    assert kstest(ordinary.flatten(), norm.cdf).pvalue > 1e-6
    assert abs(np.corrcoef(ordinary.flatten(1))[np.triu_indices(3, 1)]).max() < 5 / np.sqrt(ordinary[0].numel())


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("normalised", [True, False])
def test_every_step_has_its_own_noise_before_the_normalisation(tmp_path, normalised):
    """Kolmogorov-Smirnov on 18,432 numbers, three times, each at 1e-6; correlations within 5.5 standard errors."""
    data = load(tmp_path / "toys", sizes=[(24, 32)])
    clean = torch.from_numpy(data[0].x)
    recipe = quick(**AS_IT_IS, iterations=3, sigma=(0.3,), batch_size=8)
    model = Recorder(small())
    if normalised:  # what the network itself gets, behind a normalisation
        model = Recorder(nn.Conv2d(3, 3, 1))
        network = small()
        trained(data, tmp_path / "out", recipe, nn.Sequential(network[0], model))
        seen = [x * network[0].std + network[0].mean for x in model.seen[1:]]
    else:
        trained(data, tmp_path / "out", recipe, model)
        seen = model.seen[1:]  # the first is grey, to see whether the model fits
    noises = [(x - clean) for x in seen]
    assert len(noises) == 3
    for noise in noises:
        assert kstest(noise.flatten(), norm(0, 0.3).cdf).pvalue > 1e-6
    steps = np.corrcoef([noise.flatten().numpy() for noise in noises])
    assert abs(steps[np.triu_indices(3, 1)]).max() < 5.5 / np.sqrt(noises[0].numel())
    images = np.corrcoef(noises[0].flatten(1).numpy())
    assert abs(images[np.triu_indices(8, 1)]).max() < 5.5 / np.sqrt(clean.numel())
