"""Denoisers from files and from diffusion models."""

import re

import pytest
import torch
from torch import nn
from toys import load, quick, small, trained

import segcertify as sc
from segcertify import InputError, models
from segcertify.demo import photograph
from segcertify.models import denoisers
from segcertify.models.networks.denoiser import FDnCNN

BETAS = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
ALPHAS = (1 - BETAS).cumprod(0)  # the usual schedule [Ho2020]
RATIOS = ((1 - ALPHAS) / ALPHAS).sqrt()


@pytest.fixture
def ours(tmp_path, no_pictures):
    """A file that training wrote."""
    data = load(tmp_path / "toys")
    recipe = quick(objective="denoising", iterations=2)
    return trained(
        data, tmp_path / "denoiser", recipe, model=models.new("denoiser?widths=4", classes=3), spec="denoiser"
    )


@pytest.fixture
def base(tmp_path, no_pictures):
    """A segmenter's file."""
    data = load(tmp_path / "toys")
    return trained(data, tmp_path / "base", quick(iterations=2), model=models.new("lite?width=8&stride=16", classes=3))


def test_a_file_of_ours_stands_before_a_model(ours, base, image):
    model = models.load(f"trained:{base}?denoiser={ours}&denoiser_sigma=0.5")
    assert isinstance(model, models.Denoised)
    assert isinstance(model.denoiser, models.Denoiser)
    assert (model.sigma, model.training, model.denoiser.training) == (0.5, False, False)
    assert models.card_of(model).classes == load(ours.parents[1] / "toys").classes
    assert models.load(f"trained:{base}?denoiser={ours}").sigma == 0.25
    certificate = sc.certify(model, image, sigma=0.5, tau=0.6, n=60, n0=5, alpha=0.1, seed=0)
    assert certificate.model["settings"][""]["sigma"] == 0.5


def test_the_denoiser_comes_before_the_change_of_scale(ours, base):
    model = models.load(f"trained:{base}?denoiser={ours}&scale=0.5")
    assert isinstance(model.model, models.MultiScale)


def test_the_public_one_loads_from_its_file(tmp_path):
    torch.manual_seed(0)
    network = FDnCNN(4).eval()
    file = tmp_path / "fdncnn.pth"
    torch.save(network.state_dict(), file)
    again = models.load_denoiser(file)
    x, sigma = torch.rand(1, 3, 8, 8), torch.tensor([0.25])
    assert torch.equal(again(x, sigma), network(x, sigma))
    torch.save({f"model.{name}": value for name, value in network.state_dict().items()}, file)
    assert torch.equal(models.load_denoiser(file)(x, sigma), network(x, sigma))


def test_files_in_each_others_place_are_refused(ours, base):
    cure = re.escape(f"MODEL?denoiser={ours}")
    with pytest.raises(InputError, match=f"holds a denoiser, not a segmenter: .*{cure}"):
        models.load(f"trained:{ours}")
    with pytest.raises(InputError, match=r"holds a segmenter \(lite\), not a denoiser: load it as trained:"):
        models.load_denoiser(base)
    with pytest.raises(InputError, match="denoiser_sigma is for a denoiser: write denoiser=default too"):
        models.load(f"trained:{base}?denoiser_sigma=0.25")
    with pytest.raises(InputError, match="sigma must be positive"):
        models.load(f"trained:{base}?denoiser={ours}&denoiser_sigma=-1")
    with pytest.raises(InputError, match="denoiser are for images, but this model takes clouds"):
        models.load(f"parts?denoiser={ours}")


def test_the_denoiser_that_ships_removes_noise():
    """At the sigma of the documents it takes away nine tenths of the squared error, from a photograph it never saw."""
    x = photograph()
    noisy = x + 0.25 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = models.load_denoiser("default")(noisy[None], torch.tensor([0.25]))[0].clamp(0, 1)
    assert ((found - x) ** 2).mean() < ((noisy - x) ** 2).mean() / 10


def test_the_default(monkeypatch, tmp_path, ours):
    monkeypatch.setattr(denoisers, "FILE", ours)
    assert isinstance(models.load_denoiser("default"), models.Denoiser)
    monkeypatch.setattr(denoisers, "FILE", tmp_path / "none")
    with pytest.raises(InputError, match=r"default denoiser is not in this copy .* train --model denoiser"):
        models.load_denoiser("default")


# Diffusion


class Toy:
    """A perfect diffusion model of one image: it knows x0, and so the noise at every step."""

    def __init__(self, x0, predicts):
        self.x0, self.predicts, self.steps = 2 * x0 - 1, predicts, []

    def __call__(self, x, t):
        self.steps.append(t.tolist())
        a = ALPHAS[t].to(x).view(-1, 1, 1, 1)
        noise = (x - a.sqrt() * self.x0) / (1 - a).sqrt()
        return torch.cat([noise if self.predicts == "noise" else self.x0.expand_as(x), 0 * x], 1)  # and a variance


@pytest.mark.parametrize("predicts", ["noise", "image"])
@pytest.mark.parametrize("sigma", [0.05, 0.25, 1.0])
def test_one_step_gives_the_image_of_a_perfect_model(predicts, sigma):
    clean = torch.rand(1, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    toy = Toy(clean, predicts)
    denoiser = models.from_diffusion(toy, ALPHAS, prediction=predicts)
    noisy = clean + sigma * torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(denoiser(noisy, torch.full((2,), sigma)), clean.expand(2, -1, -1, -1), atol=1e-4)
    assert toy.steps == [[int((RATIOS - 2 * sigma).abs().argmin())] * 2]


def test_the_scaled_image_is_as_the_diffusion_has_it():
    """At the step that is chosen, the model gets sqrt(a) x0 + sqrt(1 - a) e: the variance of e tells."""
    seen = []

    def model(x, t):
        seen.append((x, t))
        return torch.zeros_like(x)

    noisy = 0.5 + 0.25 * torch.randn(1, 3, 100, 100, generator=torch.Generator().manual_seed(0))
    models.from_diffusion(model, ALPHAS)(noisy, torch.tensor([0.25]))
    (x, t), a = seen[0], ALPHAS[seen[0][1]]
    assert x.mean().item() == pytest.approx(0, abs=0.02)  # grey is 0 there
    assert x.var().item() == pytest.approx((1 - a).item(), rel=0.06)  # 7 standard errors
    assert t.dtype == torch.int64


def test_a_linear_model_of_gaussian_images_gives_the_best_estimate():
    """x0 ~ N(0, s^2) on [-1, 1]: E[e | x] is linear, and one step is the Wiener filter in the units of [0, 1]."""
    s = 0.5

    def model(x, t):
        a = ALPHAS[t].to(x).view(-1, 1, 1, 1)
        return (1 - a).sqrt() * x / (a * s**2 + 1 - a)

    denoiser = models.from_diffusion(model, ALPHAS)
    sigma = float(RATIOS[300] / 2)
    noisy = torch.rand(1, 3, 4, 4)
    expected = 0.5 + (noisy - 0.5) * (s / 2) ** 2 / ((s / 2) ** 2 + sigma**2)
    assert denoiser.time(sigma) == 300
    assert torch.allclose(denoiser(noisy, torch.tensor([sigma])), expected, atol=1e-5)


def test_diffusion_models_in_wrappers(image):
    network = nn.Conv2d(3, 4, 1).eval()
    denoised = models.Denoised(small(classes=4).eval(), models.from_diffusion(lambda x, t: network(x), ALPHAS), 0.25)
    votes = sc.sample(denoised, image, noise=sc.Gaussian(0.25), n=20, n0=5, seed=0)
    assert {"prediction", "schedule"} < set(votes.model["settings"]["denoiser"])


@pytest.mark.parametrize("alphas", [[0.9], [0.1, 0.9], [1.2, 0.5], [0.5, 0.0], [0.9, float("nan")]])
def test_schedules_that_are_none(alphas):
    with pytest.raises(InputError, match="alphas_cumprod must fall"):
        models.from_diffusion(lambda x, t: x, alphas)


def test_what_else_is_refused():
    with pytest.raises(InputError, match="prediction must be noise or image"):
        models.from_diffusion(lambda x, t: x, ALPHAS, prediction="v")
    with pytest.raises(InputError, match=r"sigma must be at most 0.5, the model's last step, but got 2"):
        models.from_diffusion(lambda x, t: x, [0.9, 0.5]).time(2.0)
