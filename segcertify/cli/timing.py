"""A model and an input of some size, whose draws `plan` and `bench` time on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from segcertify.cli import options as opt
from segcertify.errors import InputError
from segcertify.storage import limits

if TYPE_CHECKING:
    from torch import Tensor

    from segcertify.noise import Noise
    from segcertify.sampling.segmenter import Segmenter
    from segcertify.sampling.smooth import Smooth
    from segcertify.sampling.timing import Timing


def timed(
    model: str | None, noise: Noise, *, input: Path | None, size: str | None, batch_size: int | None,
    device: str | None, trust_code: bool,
) -> Timing | None:  # fmt: skip
    """The time of a model's draws at an input, or at an image or cloud of a size; None without a model."""
    if model is None:
        if input is not None or size is not None:
            raise InputError(
                "--input and --size are for the time of a model's draws: add --model, such as --model pets"
            )
        return None
    if (input is None) == (size is None):
        raise InputError("to time a model's draws, give one of --input FILE and --size 360x480")
    from segcertify.sampling.timing import time_draws

    device = opt.chosen_device(device)
    sides = None if size is None else require_sides(size)  # refused before the model is loaded
    segmenter = opt.ready_model(model, device, trust_code=trust_code)
    smooth, x = smoothed(segmenter, noise, input=input, sides=sides, batch_size=batch_size, device=device)
    return time_draws(smooth, x)


def smoothed(
    segmenter: Segmenter, noise: Noise, *, input: Path | None, sides: tuple[int, int] | None, batch_size: int | None,
    device: str,
) -> tuple[Smooth, Tensor]:  # fmt: skip
    """The model smoothed by the noise, and the input of a file, or an image or a cloud of these sides."""
    import torch

    from segcertify.cli.inputs import read
    from segcertify.data.domain import CLOUD, IMAGE
    from segcertify.models import card_of
    from segcertify.sampling.smooth import Smooth

    if sides is None:
        found = read(Path(input or ""), segmenter)
        x, domain = torch.from_numpy(found.x), found.domain
    elif (card := card_of(segmenter)) is not None and card.of_clouds:
        x, domain = torch.rand(sides, generator=torch.Generator().manual_seed(0)), CLOUD
    else:
        x, domain = torch.full((3, *sides), 0.5), IMAGE
    drawn = domain.noise(noise, tuple(x.shape))
    return Smooth(segmenter, drawn, seed=0, batch_size=batch_size, device=device), x


def require_sides(text: str) -> tuple[int, int]:
    """Two numbers, such as 360x480."""
    first, _, second = text.partition("x")
    try:
        sides = int(first), int(second)
    except ValueError:
        sides = 0, 0
    if min(sides) < 1 or sides[0] * sides[1] > limits.PIXELS:
        most = f"of at most {limits.PIXELS:,} pixels"
        raise InputError(f"--size takes height and width such as 360x480, {most}, but got {text!r:.40}")
    return sides
