"""`segcertify harden`: a model of yours, trained further on noise, so that it can be certified."""

from functools import partial
from typing import Any

import typer

from segcertify.cli.options import Data, Model, import_from_here
from segcertify.cli.printing import Printer
from segcertify.cli.train import is_first, recipe_of, run_training, was_given, with_training, without_recipe
from segcertify.training.recipe import HARDENING


@partial(with_training, out="hardened", recipe=HARDENING)
def harden(context: typer.Context, model: Model[str], data: Data[str], **settings: Any) -> None:
    """Train a model of yours further, on noise, so that it can be certified. Run again to resume.

    --data may be a folder of images without labels: the model's own predictions are then learned.
    """
    from segcertify.training import train
    from segcertify.training.hardening import trainable, training_data

    run = without_recipe(settings)
    import_from_here(model, settings["teacher"])
    network, spec, start = trainable(model, trust_code=run["trust_code"])
    labels = settings["labels"] if was_given(context, "labels") else None
    scenes, settings["labels"] = training_data(data, network, labels=labels)
    if is_first():
        of = "the ground truth's" if settings["labels"] == "truth" else "its own, without noise"
        note = f"{model} learns on {len(scenes)} images; the labels are {of}"
        Printer(run["json"], run["quiet"]).note(note)
    run_training(partial(train, network, scenes, recipe_of(settings), spec=spec, start=start), **run)
