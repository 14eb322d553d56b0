"""Denoisers: networks from a noisy image and the noise's sigma to the clean image. They stand before a segmenter."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad, pixel_shuffle, pixel_unshuffle, relu

from segcertify.errors import InputError, require_integer
from segcertify.models.formats.weights import State, no_such_network, with_weights

WIDTHS = (64, 96, 128)
CENTRE, SPREAD = 0.5, 0.25  # about the mean and the standard deviation of colours in [0, 1]
LAYERS = 20  # of FDnCNN


class Denoiser(nn.Module):
    """A small U-shaped network on blocks of 2 x 2 pixels [Zhang2018], with the preconditioning of [Karras2022].

    Its output is the best linear estimate from the pixel alone, corrected by the network, whose input and output then
    have about unit variance at every sigma. A new network, whose last layer is 0, is that estimate.

    >>> Denoiser().eval()(torch.rand(2, 3, 21, 30), torch.tensor([0.25, 0.5])).shape
    torch.Size([2, 3, 21, 30])
    """

    def __init__(self, widths: Sequence[int] = WIDTHS, blocks: int = 1) -> None:
        super().__init__()
        self.widths = tuple(require_integer("widths", width) for width in widths)
        if not self.widths:
            raise InputError("a denoiser needs at least one width, such as widths=(64, 96, 128)")
        self.blocks = require_integer("blocks", blocks)
        first, steps = self.widths[0], [*pairwise(self.widths)]
        self.head = nn.Conv2d(4 * 3 + 1, first, 3, padding=1)
        self.down = nn.ModuleList(nn.Conv2d(fine, coarse, 2, stride=2) for fine, coarse in steps)
        self.up = nn.ModuleList(nn.Conv2d(coarse, fine, 1) for fine, coarse in steps)
        self.encoder_blocks = nn.ModuleList(_blocks(width, blocks) for width in self.widths[:-1])
        self.middle = _blocks(self.widths[-1], 2 * blocks)
        self.decoder_blocks = nn.ModuleList(_blocks(width, blocks) for width in self.widths[:-1])
        self.tail = nn.Conv2d(first, 4 * 3, 3, padding=1)
        with torch.no_grad():
            self.tail.weight.zero_()
            self.tail.bias.zero_()  # type: ignore[union-attr]

    def forward(self, noisy: Tensor, sigma: Tensor) -> Tensor:
        """The clean images of noisy ones (B, 3, H, W), in [0, 1] before the noise of ``sigma`` (B,) was added."""
        require_images(noisy)
        height, width = noisy.shape[2:]
        square, step = sigma.view(-1, 1, 1, 1) ** 2, 2 ** len(self.widths)
        total = square + SPREAD**2
        centred = noisy - CENTRE
        padded = pad(centred / total.sqrt(), (0, -width % step, 0, -height % step), mode="replicate")
        correction = self._network(padded, sigma)[..., :height, :width].to(noisy.dtype)
        return CENTRE + SPREAD**2 / total * centred + SPREAD * (square / total).sqrt() * correction

    def _network(self, x: Tensor, sigma: Tensor) -> Tensor:
        """The correction, in units of the linear estimate's error."""
        x = pixel_unshuffle(x, 2)
        level = (sigma.log() / 4).view(-1, 1, 1, 1).to(x.dtype).expand(-1, 1, *x.shape[2:])
        x = self.head(torch.cat([x, level], 1))
        skips = []
        for blocks, down in zip(self.encoder_blocks, self.down, strict=True):
            skips.append(blocks(x))
            x = down(skips[-1])
        x = self.middle(x)
        for blocks, up in reversed([*zip(self.decoder_blocks, self.up, strict=True)]):
            x = blocks(skips.pop() + interpolate(up(x), scale_factor=2.0, mode="nearest"))
        return pixel_shuffle(self.tail(x), 2)


class Residual(nn.Module):
    """Two convolutions around a ReLU, added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """The sum, at the same resolution."""
        return x + self.second(relu(self.first(x)))  # type: ignore[no-any-return]


class FDnCNN(nn.Sequential):
    """The public colour denoiser FDnCNN [Zhang2017]: 20 convolutions of 3 x 3 with ReLU between them."""

    def __init__(self, width: int = 64) -> None:
        channels = [4, *[width] * (LAYERS - 1), 3]
        layers = [nn.Conv2d(*pair, 3, padding=1) for pair in pairwise(channels)]
        super().__init__(*[part for layer in layers for part in (layer, nn.ReLU(inplace=True))][:-1])

    def forward(self, noisy: Tensor, sigma: Tensor) -> Tensor:  # type: ignore[override]
        """The clean images of noisy ones (B, 3, H, W), in [0, 1] before the noise of ``sigma`` (B,) was added."""
        require_images(noisy)
        level = sigma.to(noisy.dtype).view(-1, 1, 1, 1).expand(-1, 1, *noisy.shape[2:])
        clean: Tensor = super().forward(torch.cat([noisy, level], 1))  # type: ignore[no-untyped-call]
        return clean


def fdncnn_from(state: State) -> FDnCNN:
    """The FDnCNN whose weights are in a checkpoint, under the keys ``0.weight`` to ``38.bias``."""
    first = state.tensors.get("0.weight")
    if first is None or first.ndim != 4 or first.shape[1] != 4:
        cure = "Expected a file that segcertify train --objective denoising wrote, or FDnCNN's public colour weights"
        raise no_such_network(state.tensors, "denoiser", "0.weight of 4 input channels", source=state.path, cure=cure)
    return with_weights(lambda: FDnCNN(first.shape[0]), state)


def require_images(batch: Tensor) -> None:
    """Raise `InputError` unless the batch holds RGB images."""
    if batch.ndim != 4 or batch.shape[1] != 3:
        raise InputError(f"a denoiser takes RGB images (B, 3, H, W), but got shape {tuple(batch.shape)}")


def _blocks(width: int, count: int) -> nn.Sequential:
    return nn.Sequential(*(Residual(width) for _ in range(count)))
