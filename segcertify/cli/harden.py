"""`segcertify harden`: a model of yours, trained further on noise, so that it can be certified."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import typer

from segcertify.cli.options import Data, Device, Half, Json, Model, Out, Quiet, TrustCode, import_from_here
from segcertify.cli.printing import Printer, resumable
from segcertify.cli.train import (
    Licence,
    LogEvery,
    Memory,
    SaveEvery,
    TensorBoard,
    ValidateEvery,
    Validation,
    print_trained,
    recipe_of,
    state_kept,
    was_given,
    with_recipe,
)
from segcertify.training.recipe import HARDENING


@partial(with_recipe, recipe=HARDENING)
def harden(
    context: typer.Context,
    model: Model[str],
    data: Data[str],
    validation: Validation = None,
    log_every: LogEvery = 50,
    save_every: SaveEvery = 500,
    validate_every: ValidateEvery = 1000,
    tensorboard: TensorBoard = False,
    device: Device = None,
    memory: Memory = None,
    trust_code: TrustCode = False,
    out: Out[Path] = Path("hardened"),
    half: Half = False,
    licence: Licence = "not stated",
    json: Json = False,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Train a model of yours further, on noise, so that it can be certified. Run again to resume.

    --data may be a folder of images without labels: the model's own predictions are then learned.
    """
    from segcertify.data import load
    from segcertify.sampling.draws import require_device
    from segcertify.training import Intervals, train
    from segcertify.training.hardening import trainable, training_data

    first, printer = os.environ.get("RANK", "0") == "0", Printer(json, quiet)
    import_from_here(model, settings["teacher"])
    network, spec, start = trainable(model, trust_code=trust_code)
    labels = settings["labels"] if was_given(context, "labels") else None
    scenes, settings["labels"] = training_data(data, network, labels=labels)
    if first:
        of = "the ground truth's" if settings["labels"] == "truth" else "its own, without noise"
        printer.note(f"{model} learns on {len(scenes)} images; the labels are {of}")
    with resumable(lambda: state_kept(out)):
        path = train(
            network, scenes, recipe_of(settings), out=out, spec=spec, start=start,
            validation=None if validation is None else load(validation), licence=licence, half=half,
            device=None if device is None else require_device(device), tensorboard=tensorboard, memory=memory,
            intervals=Intervals(log_every, save_every, validate_every), trust_code=trust_code,
            progress=printer.progress,
        )  # fmt: skip
    if first:
        print_trained(printer, path)
