"""Denoised smoothing [Salman2020]: a denoiser before a model that was never trained on noise.

The pair is just another base model. Noise is drawn and added as always, and certificates are about the pair.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from segcertify.errors import InputError, require_positive
from segcertify.models.wrappers.wrapper import Wrapper

Denoise = Callable[[Tensor, Tensor], Tensor]
"""From noisy images (B, 3, H, W) and the sigma of each (B,) to clean images; a module or any function."""


class Denoised(Wrapper):
    """``model`` behind ``denoiser``, which is told that the noise has ``sigma``, in the units of x ([0, 1]).

    The denoised image is clipped to [0, 1], as the model knows images. Certify with Gaussian noise of the same sigma:
    another one gives certificates that hold, but cover less. The denoiser's weights, its class or function, and sigma
    are part of the certificate's identity of the model.

    >>> def halve(noisy, sigma):
    ...     return noisy / 2
    >>> Denoised(lambda batch: batch, halve, 0.25)(torch.tensor([1.0, 4.0]))
    tensor([0.5000, 1.0000])
    """

    def __init__(self, model: Callable[..., Any], denoiser: Denoise, sigma: float) -> None:
        super().__init__(model)
        for name, part in (("model", model), ("denoiser", denoiser)):
            if not callable(part):
                raise InputError(f"{name} must be callable on a batch, but got {type(part).__name__}")
        self.denoiser = denoiser
        self.sigma = require_positive("sigma", sigma)

    def identity(self) -> dict[str, Any]:
        """The sigma that the denoiser is told, and its class or function: a function has no weights to tell it by."""
        kind = getattr(self.denoiser, "__qualname__", type(self.denoiser).__qualname__)
        return {"denoiser": kind, "sigma": self.sigma}

    def forward(self, batch: Tensor, seeds: Sequence[int] | None = None) -> Any:
        """The model's output for the denoised batch."""
        clean = self.denoise(batch)
        return self.model(clean) if seeds is None else self.model(clean, seeds=seeds)

    def denoise(self, batch: Tensor) -> Tensor:
        """The clean images that the model sees: computed in the denoiser's precision, given back in the batch's."""
        weights = self.denoiser.parameters() if isinstance(self.denoiser, nn.Module) else ()
        dtype = next((weight.dtype for weight in weights if weight.is_floating_point()), batch.dtype)
        noisy = batch.to(dtype)
        clean = self.denoiser(noisy, torch.full((len(batch),), self.sigma, dtype=dtype, device=batch.device))
        if not isinstance(clean, Tensor) or clean.shape != batch.shape:
            got = tuple(clean.shape) if isinstance(clean, Tensor) else type(clean).__name__
            raise InputError(f"the denoiser must give images of shape {tuple(batch.shape)}, but gave {got}")
        return clean.to(batch.dtype).clamp(0, 1)

    def extra_repr(self) -> str:
        """The sigma."""
        return f"sigma={self.sigma:g}"


def sigma_note(model: object, *sigmas: float) -> str | None:
    """One sentence if a denoiser before the model was told another sigma than one of the noises has."""
    while isinstance(model, nn.Module) and not isinstance(model, Denoised):
        model = getattr(model, "model", None)
    if not isinstance(model, Denoised) or all(sigma == model.sigma for sigma in sigmas):
        return None
    other = next(sigma for sigma in sigmas if sigma != model.sigma)
    return (
        f"the denoiser expects noise of sigma {model.sigma:g}, but noise of {other:g} is drawn: certificates hold, "
        f"but more can be certified with denoiser_sigma={other:g}"
    )
