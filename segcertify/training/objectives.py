"""Objectives: what a training step minimises. Noise is added to x in [0, 1], before the model normalises it."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax

from segcertify.attacks.balls import L2, TINY, per_entry
from segcertify.data.augmentation import UNLABELLED
from segcertify.models.networks.denoiser import SPREAD
from segcertify.sampling.segmenter import upsampled
from segcertify.training.recipe import DENOISING, Recipe

Losses = dict[str, torch.Tensor]
"""The terms of a loss by name; ``loss`` is what is minimised."""


Objective = Callable[[nn.Module, torch.Tensor, torch.Tensor], Losses]
"""The losses of a model on a batch: images (B, 3, H, W) in [0, 1] and targets (B, H, W)."""


@dataclass(frozen=True, eq=False)
class PixelLoss:
    """Cross-entropy over labelled pixels, weighted by class; only the ``hardest`` part of them counts."""

    weights: torch.Tensor | None = None
    hardest: float = 1.0

    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss of logits (B, classes, H, W); 0 where no pixel is labelled."""
        losses = cross_entropy(logits, target, self.weights, ignore_index=UNLABELLED, reduction="none").flatten()
        valid = target.flatten() != UNLABELLED
        weight = valid.float() if self.weights is None else self.weights[target.flatten() * valid] * valid
        if self.hardest < 1:
            losses, chosen = losses.topk(math.ceil(self.hardest * len(losses)))
            counts = torch.arange(len(losses), device=losses.device) < self.hardest * valid.sum()
            losses, weight = losses * counts, weight[chosen] * counts
        return losses.sum() / weight.sum().clamp(min=1e-6)


def objective(
    recipe: Recipe, pixel_loss: PixelLoss, device: torch.device | str, *, noised: int | None = None,
    teacher: nn.Module | None = None,
) -> Objective:  # fmt: skip
    """The objective that a recipe names; with ``noised``, noise goes on that many leading columns of clouds alone."""
    sigma = torch.tensor(recipe.drawn, device=device)
    if teacher is not None:
        return Distillation(pixel_loss, sigma, teacher, recipe.teacher_weight, recipe.m, recipe.lam, noised)
    if recipe.objective == "consistency":
        return Consistency(pixel_loss, sigma, recipe.m, recipe.lam, recipe.eta, noised)
    if recipe.objective == DENOISING:
        return Denoising(sigma)
    if recipe.objective == "smoothadv":
        return SmoothAdv(pixel_loss, sigma, recipe.m, recipe.epsilon, recipe.attack_steps, noised)
    return NoiseObjective(pixel_loss, sigma, noised)


@dataclass(frozen=True, eq=False)
class NoiseObjective:
    """Cross-entropy under Gaussian noise [Cohen2019], as the paper trains [Fischer2021, sec. 6.2]; sigma 0 for none."""

    pixel_loss: PixelLoss
    sigma: torch.Tensor
    noised: int | None = None

    def __call__(self, model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> Losses:
        """The cross-entropy."""
        noisy = x + gaussian_noise(x, self.sigma, columns=self.noised)
        return {"loss": self.pixel_loss(full_size(model, noisy), target)}


@dataclass(frozen=True, eq=False)
class Consistency:
    """Cross-entropy of m noisy copies + lam * consistency + eta * entropy [Jeong2020], for every pixel.

    The copies' class probabilities are p_1 .. p_m, and p is their mean. Consistency is the mean of KL(p || p_i),
    entropy is that of p. The paper's appendix B has m = 2, lam = 1, eta = 0.5.
    """

    pixel_loss: PixelLoss
    sigma: torch.Tensor
    m: int = 2
    lam: float = 1.0
    eta: float = 0.5
    noised: int | None = None

    def __call__(self, model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> Losses:
        """The sum and its three terms."""
        noisy = repeat_batch(x, self.m) + gaussian_noise(x, self.sigma, m=self.m, columns=self.noised)
        logits = full_size(model, noisy)
        natural = self.pixel_loss(logits, repeat_batch(target, self.m))
        consistency, entropy = disagreement(logits.view(self.m, -1, *logits.shape[1:]))
        loss = natural + self.lam * consistency + self.eta * entropy
        return {"loss": loss, "cross-entropy": natural, "consistency": consistency, "entropy": entropy}


@dataclass(frozen=True, eq=False)
class Distillation:
    """KL(q || p_i) of m noisy copies, mixed with cross-entropy, + lam * consistency [Hinton2015], for every pixel.

    The student's class probabilities of the copies are p_1 .. p_m. The target q is the mean of the teacher's, of the
    same copies: it varies less with the noise than any one of them, and so does a student that learns it. All copies
    have one target, and the loss without labels (``weight`` 1) is least, 0, where every p_i equals it.
    """

    pixel_loss: PixelLoss
    sigma: torch.Tensor
    teacher: nn.Module
    weight: float = 0.8
    m: int = 2
    lam: float = 1.0
    noised: int | None = None

    def __call__(self, model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> Losses:
        """The sum and its three terms."""
        noisy = repeat_batch(x, self.m) + gaussian_noise(x, self.sigma, m=self.m, columns=self.noised)
        with torch.no_grad():
            taught = full_size(self.teacher, noisy).softmax(1)
            taught = taught.view(self.m, -1, *taught.shape[1:]).mean(0)
        logits = full_size(model, noisy)
        copies = logits.view(self.m, -1, *logits.shape[1:])
        distillation = (taught * (taught.clamp(min=1e-20).log() - log_softmax(copies, 2))).sum(2).mean()
        natural, (consistency, _) = self.pixel_loss(logits, repeat_batch(target, self.m)), disagreement(copies)
        loss = self.weight * distillation + (1 - self.weight) * natural + self.lam * consistency
        return {"loss": loss, "cross-entropy": natural, "distillation": distillation, "consistency": consistency}


@dataclass(frozen=True, eq=False)
class SmoothAdv:
    """Cross-entropy on noisy copies of an input moved against the smoothed model [Salman2019].

    The attack ascends, in the l2 ball of radius epsilon, the cross-entropy of the mean probability of m noisy
    copies. The loss is the cross-entropy of the same copies at the attacked input.
    """

    pixel_loss: PixelLoss
    sigma: torch.Tensor
    m: int = 2
    epsilon: float = 0.25
    steps: int = 2
    noised: int | None = None

    def __call__(self, model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> Losses:
        """The cross-entropy at the attacked input."""
        noise = gaussian_noise(x, self.sigma, m=self.m, columns=self.noised)
        noisy = repeat_batch(x + self._attack(model, x, target, noise), self.m) + noise
        return {"loss": self.pixel_loss(full_size(model, noisy), repeat_batch(target, self.m))}

    def _attack(self, model: nn.Module, x: torch.Tensor, target: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """The shift that projected gradient ascent finds, with the model in evaluation mode, as it is in use."""
        training, ball, size = model.training, L2(self.epsilon), 2 * self.epsilon / self.steps
        model.eval()
        shift = torch.zeros_like(x)
        for _ in range(self.steps):
            shift.requires_grad_(True)
            logits = full_size(model, repeat_batch(x + shift, self.m) + noise)
            logs = log_softmax(logits, 1).view(self.m, -1, *logits.shape[1:])
            mean = logs.logsumexp(0)  # up to a constant
            (slope,) = torch.autograd.grad(self.pixel_loss(mean, target), shift)
            with torch.no_grad():
                slope = on_columns(slope, self.noised)
                shift = ball.project(shift + size * slope / per_entry(ball.norm(slope), slope).clamp(min=TINY))
        model.train(training)
        return shift.detach()


@dataclass(frozen=True, eq=False)
class OwnLabels:
    """Another objective, with the labels that a fixed model gives the images without noise. It needs no annotation.

    Components without ground truth, such as the surroundings of a crop, stay without.
    """

    objective: Objective
    labeller: nn.Module

    def __call__(self, model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> Losses:
        """The objective's losses."""
        with torch.no_grad():
            own = full_size(self.labeller, x).argmax(1)
        return self.objective(model, x, torch.where(target == UNLABELLED, target, own))


@dataclass(frozen=True, eq=False)
class Denoising:
    """The squared error of a denoiser, in units of the error of the best linear estimate from the pixel alone.

    These units let every sigma count alike. Labels are not used.
    """

    sigma: torch.Tensor

    def __call__(self, model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> Losses:
        """The relative error, and the squared error itself."""
        scales = drawn_scales(x, self.sigma)
        clean = model(x + per_entry(scales, x) * torch.randn_like(x), scales).float()
        error = (clean - x).square().mean((1, 2, 3))
        linear = scales**2 * SPREAD**2 / (scales**2 + SPREAD**2)
        return {"loss": (error / linear).mean(), "squared error": error.mean()}


def disagreement(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean KL(p || p_i) and mean entropy of p, over pixels, from logits (m, B, classes, ...) [Jeong2020, eq. 9]."""
    logs = log_softmax(logits, 2)
    mean = logs.exp().mean(0)
    log_mean = mean.clamp(min=1e-20).log()
    consistency = (mean * (log_mean - logs)).sum(2).mean()
    return consistency, -(mean * log_mean).sum(1).mean()


def full_size(model: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """The model's logits in single precision at the resolution of x, upsampled as the sampler does."""
    return upsampled(model(x), x).float()


def gaussian_noise(x: torch.Tensor, sigma: torch.Tensor, *, m: int = 1, columns: int | None = None) -> torch.Tensor:
    """Noise for m copies of a batch, (m B, ...); each input draws one of the sigmas, the same for all its copies."""
    scales = drawn_scales(x, sigma)
    noise = torch.randn(m * len(x), *x.shape[1:], device=x.device)
    return on_columns(per_entry(repeat_batch(scales, m), x) * noise, columns)


def drawn_scales(x: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
    """One of the sigmas for each input of a batch."""
    return sigma[torch.randint(len(sigma), (len(x),), device=x.device)]


def on_columns(shift: torch.Tensor, columns: int | None) -> torch.Tensor:
    """The shift, overwritten with 0 beyond the leading ``columns`` of clouds; None keeps all of it, as for images."""
    if columns is not None:
        shift[..., columns:] = 0
    return shift


def repeat_batch(batch: torch.Tensor, m: int) -> torch.Tensor:
    """The whole batch m times in a row."""
    return batch.repeat(m, *[1] * (batch.ndim - 1))
