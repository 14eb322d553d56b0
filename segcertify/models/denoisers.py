"""Denoisers by name or file, and from a diffusion model that a user brings."""

import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import as_file
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from segcertify.errors import InputError
from segcertify.models.families import build
from segcertify.models.formats.weights import FilePath, set_weights
from segcertify.models.networks.denoiser import fdncnn_from, require_images
from segcertify.models.saved import FOLDER, read_weights

DEFAULT = "default"
FILE = FOLDER / "denoisers" / f"{DEFAULT}.safetensors"
TRAINED_BY = "train --model denoiser --objective denoising --data 'pets:FOLDER?split=train' ..."
"""How the default denoiser was made."""


def load_denoiser(name: FilePath) -> nn.Module:
    """The denoiser that ships (``default``), or that of a file, in evaluation mode.

    The file is one that ``segcertify train --objective denoising`` wrote, or holds the public colour weights of FDnCNN.
    """
    if str(name) == DEFAULT:
        if not FILE.is_file():
            raise InputError(
                f"the default denoiser is not in this copy of segcertify: make one with segcertify {TRAINED_BY} (whole "
                "in docs/training.md), and write denoiser=FILE"
            )
        with as_file(FILE) as path:
            return load_denoiser(path)
    state, card = read_weights(name)
    if card is None:
        return fdncnn_from(state)
    if not card.is_denoiser:
        family = card.architecture["family"]
        raise InputError(f"{name} holds a segmenter ({family}), not a denoiser: load it as trained:{name}")
    with torch.device("meta"):
        denoiser = build(card.architecture)
    set_weights(denoiser, state)
    return denoiser.eval()


class OneStep(nn.Module):
    """A diffusion model as a denoiser, in one step [Carlini2022]: see `from_diffusion`."""

    def __init__(self, model: Callable[..., Any], alphas_cumprod: Sequence[float] | Tensor, prediction: str) -> None:
        super().__init__()
        self.model, self.prediction = model, prediction
        self.training = model.training if isinstance(model, nn.Module) else False
        self.alphas = np.asarray(torch.as_tensor(alphas_cumprod, dtype=torch.float64).cpu()).ravel()
        falls = len(self.alphas) > 1 and bool((np.diff(self.alphas) < 0).all())
        if not falls or not 0 < self.alphas[-1] < self.alphas[0] <= 1:
            raise InputError("alphas_cumprod must fall from at most 1 to above 0, one number for each time step")
        self.ratios = np.sqrt((1 - self.alphas) / self.alphas)  # of noise to signal

    def identity(self) -> dict[str, Any]:
        """What the model predicts, and a digest of the schedule."""
        return {"prediction": self.prediction, "schedule": hashlib.sha256(self.alphas.tobytes()).hexdigest()[:16]}

    def time(self, sigma: float) -> int:
        """The time step whose noise, relative to its signal, is nearest to noise of ``sigma`` on images in [0, 1]."""
        wanted = 2 * sigma  # diffusion models take images in [-1, 1], twice as wide
        if wanted > self.ratios[-1]:
            raise InputError(f"sigma must be at most {self.ratios[-1] / 2:g}, the model's last step, but got {sigma:g}")
        return int(np.abs(self.ratios - wanted).argmin())

    def forward(self, noisy: Tensor, sigma: Tensor) -> Tensor:
        """The clean images (B, 3, H, W) in [0, 1] that the model predicts at the time step of ``sigma``."""
        require_images(noisy)
        steps = [self.time(each) for each in sigma.tolist()]
        alphas = torch.from_numpy(self.alphas[steps]).to(noisy).view(-1, 1, 1, 1)
        signal, noise = alphas.sqrt(), (1 - alphas).sqrt()
        x = signal * (2 * noisy - 1)
        said = self.model(x, torch.tensor(steps, device=x.device))
        output: Tensor = getattr(said, "sample", said)[:, :3]  # a learned variance has channels of its own
        if self.prediction == "noise":
            output = (x - noise * output) / signal
        return ((output + 1) / 2).to(noisy.dtype)


def from_diffusion(
    model: Callable[..., Any], alphas_cumprod: Sequence[float] | Tensor, *, prediction: str = "noise"
) -> OneStep:
    """A denoiser from a diffusion model, which predicts the clean image in one step [Carlini2022].

    ``model(x, t)`` takes images in [-1, 1], noised as sqrt(a_t) x0 + sqrt(1 - a_t) e, and the time steps (B,); a_t are
    ``alphas_cumprod``. It predicts e (``prediction="noise"``) or x0 (``"image"``); further output channels (a learned
    variance) are dropped. Noise of sigma on images in [0, 1] is 2 sigma on those in [-1, 1]: t is the step with
    sqrt((1 - a_t) / a_t) nearest to that, and the noisy image is scaled by sqrt(a_t). No noise is added.

    >>> betas = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
    >>> denoiser = from_diffusion(lambda x, t: torch.zeros_like(x), (1 - betas).cumprod(0))
    >>> denoiser.time(0.25), denoiser(torch.full((1, 3, 2, 2), 0.75), torch.tensor([0.25])).unique()
    (144, tensor([0.7500]))
    """
    if prediction not in ("noise", "image"):
        raise InputError(
            f"prediction must be noise or image, what the diffusion model predicts, but got {prediction!r}"
        )
    return OneStep(model, alphas_cumprod, prediction)
