"""The configuration of an evaluation: all that decides its records, kept in its folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from segcertify import __version__
from segcertify.attacker import Attacker
from segcertify.data import DataSet
from segcertify.errors import InputError, require_integer, require_positive, require_probability
from segcertify.noise import AxisRotation, Gaussian, Noise, Rotation
from segcertify.segmenter import Segmenter


@dataclass(frozen=True)
class Setting:
    """One claim of the paper's tables: noise, draws and threshold."""

    sigma: float
    n: int
    tau: float

    def __post_init__(self) -> None:
        require_positive("sigma", self.sigma)
        require_integer("n", self.n)
        require_probability("tau", self.tau, low=0.5, closed=True)


@dataclass(frozen=True)
class Configuration:
    """All that decides an evaluation's records, in plain values; stored with them.

    ``categories`` are the classes that clouds of each category have, ``scenes`` a digest of them.
    """

    model: str
    weights: str
    data: str
    classes: tuple[str, ...]
    categories: dict[str, tuple[int, ...]]
    scenes: str
    settings: tuple[Setting, ...]
    corrections: tuple[str, ...]
    n0: int
    alpha: float
    seed: int
    noise: str
    precision: str
    device: str
    attack: Attacker | None = None
    version: str = __version__


NOISES: dict[str, Callable[[float], Noise]] = {
    "gaussian": Gaussian,
    "rotation": Rotation,
    **{f"{axis}-rotation": partial(AxisRotation, axis=axis) for axis in "xyz"},
}
"""What sigma is the scale of: noise on a scene's colours or coordinates, or rotations of a cloud."""


def noise_of(noise: str | Callable[[float], Noise], sigma: float, data: DataSet) -> Noise:
    """The noise of a sigma; Gaussian noise goes on the channels that the data set names."""
    if isinstance(noise, str) and noise not in NOISES:
        raise InputError(f"unknown noise {noise!r}: use {', '.join(NOISES)}")
    made = NOISES[noise](sigma) if isinstance(noise, str) else noise(sigma)
    if isinstance(made, Gaussian) and made.channels is None:
        return replace(made, channels=data.noised, axis=data.noise_axis)
    return made


def distinct(settings: Sequence[Setting | tuple[float, int, float]]) -> tuple[Setting, ...]:
    """Settings, refused where one comes twice."""
    claims = tuple(setting if isinstance(setting, Setting) else Setting(*setting) for setting in settings)
    if len(set(claims)) != len(claims):
        raise InputError(f"settings must all be different, but got {list(settings)}")
    return claims


def scenes_digest(data: DataSet) -> str:
    """A short digest of the scenes' ids and of the first scene: other sizes or labels are other data."""
    words = list(data.ids)
    for scene in data.limit(1):
        arrays = (scene.x, scene.target, scene.valid)
        words += [hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in arrays]
        words.append(str(scene.x.shape))
    return text_digest("\n".join(words))


def text_digest(text: str) -> str:
    """A short digest of a text; of names of files too, in whatever encoding."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def weights_digest(model: Segmenter) -> str:
    """A short digest of a network's weights, so that a run does not go on with other ones.

    Also of buffers that no file holds, and of what modules that are not torch's say of themselves
    (`extra_repr`), such as a normalisation, an ensemble's views and the scales of `MultiScale`.
    """
    if not isinstance(model, nn.Module):
        return ""
    digest = hashlib.sha256()
    for name, tensor in sorted(_tensors(model).items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    for name, module in model.named_modules():
        if not type(module).__module__.startswith("torch.") and (said := module.extra_repr()):
            digest.update(f"{name}({re.sub(' at 0x[0-9a-f]+', '', said)})".encode())  # no addresses in memory
    return digest.hexdigest()[:16]


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """A model's weights and all its buffers, by name."""
    weights = dict(model.named_parameters(remove_duplicate=False))
    return {**weights, **dict(model.named_buffers(remove_duplicate=False))}


def claim_folder(out: Path, configuration: Configuration) -> None:
    """Make the run's folder, or check that it is this run's."""
    path = out / "config.json"
    text = json.dumps(asdict(configuration), indent=2) + "\n"
    if not path.exists():
        try:
            out.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write to the folder {out}: {error.strerror}") from None
        return
    found = _read(path)
    for name, value in json.loads(text).items():
        if found.get(name) != value:
            other = _OTHER.get(name) or f"its {name} is {found.get(name)!r}, this one's is {value!r}"
            raise InputError(
                f"{out} holds another evaluation: {other}. Use another folder, or the same configuration to resume."
            )


_OTHER = {
    "weights": "it is of another network (weights, or settings such as scales, views?), or of an earlier segcertify",
    "scenes": "it is of other scenes (another limit, every k-th, size or labels?), or of an earlier segcertify",
}
"""What digests cannot say."""


def configuration_of(out: str | os.PathLike[str]) -> dict[str, Any]:
    """The stored configuration of a run's folder; the oldest were of images under Gaussian noise, without attacks."""
    path = Path(out) / "config.json"
    if not path.is_file():
        raise InputError(f"no evaluation at {out}: it has no config.json")
    return {"noise": "gaussian", "categories": {}, "attack": None, **_read(path)}


def _read(path: Path) -> dict[str, Any]:
    """A configuration as it was written."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    needed = ("model", "weights", "data", "scenes", "settings")
    if not isinstance(found, dict) or not all(name in found for name in needed):
        raise InputError(f"{path} is no evaluation's configuration: use another folder, or delete it")
    return found
