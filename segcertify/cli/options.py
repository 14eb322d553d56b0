"""Options that several commands share, and what they become."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segcertify.errors import InputError

if TYPE_CHECKING:
    from segcertify.sampling.segmenter import Segmenter

Tau = Annotated[float, typer.Option(help="Threshold in [0.5, 1) on a label's probability; sets the radius.")]
Alpha = Annotated[float, typer.Option(help="Allowed probability of any false certificate.")]
CorrectionName = Annotated[str, typer.Option(help="holm, bonferroni, k-fwer, bh or by.")]
Budget = Annotated[int | None, typer.Option("--b", help="Error budget for k-fwer (k = b + 1).")]
Candidates = Annotated[int, typer.Option("--n0", help="Draws that choose the candidates.")]
Seed = Annotated[int, typer.Option(help="Fixes all noise.")]
Model = Annotated[
    str,
    typer.Option(
        help="A model's spec: pets, camvid, parts, trained:FILE, hrnet:FILE, hf:NAME, python:module:factory, ..."
    ),
]
Data = Annotated[
    str,
    typer.Option(
        help="A data set's spec: camvid:FOLDER, folder:FOLDER?split=train+val, "
        "'camvid:FOLDER?split=train&without=0006R0*' (or only=...; mind the quotes), ..."
    ),
]
BatchSize = Annotated[int | None, typer.Option(help="Found automatically by default.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, ...; CUDA where there is one by default.")]
Precision = Annotated[str, typer.Option(help="fp32, bf16 or fp16 (autocast) for the network; noise stays in fp32.")]
ShortSide = Annotated[int | None, typer.Option(help="Resize images to this many pixels on their shorter side.")]
Every = Annotated[int, typer.Option(help="Take every k-th scene.")]
Limit = Annotated[int | None, typer.Option(help="Take at most so many scenes.")]


def folder(path: Path) -> Path:
    """A folder that can be made, or an error before the long work; what writes to it makes it."""
    try:
        nearest = next(each for each in (path, *path.absolute().parents) if each.exists())
    except OSError as error:
        raise InputError(f"cannot write to the folder {path}: {error.strerror}") from None
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        reason = "may not be written to" if nearest.is_dir() else "is a file"
        raise InputError(f"cannot write to the folder {path}: {nearest} {reason}")
    return path


def chosen_device(device: str | None) -> str:
    """The device asked for, checked, else CUDA where there is one."""
    import torch

    from segcertify.sampling.draws import require_device

    return str(require_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))


def ready_model(spec: str, device: str, *, precision: str = "fp32") -> Segmenter:
    """The model of a spec, on the device; modules in this folder can be imported."""
    from torch import nn

    from segcertify.models import load, with_precision

    sys.path.insert(0, os.getcwd())
    model = load(spec)
    if isinstance(model, nn.Module):
        model = model.to(device)
    return with_precision(model, precision)
