"""`segcertify train`: a model for certificates. Its options include the fields of a `Recipe`."""

import inspect
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from segcertify.cli.join import model_file
from segcertify.cli.options import (
    MACHINE,
    OUTPUT,
    BatchSize,
    Data,
    Device,
    Half,
    Json,
    Model,
    Out,
    Precision,
    Quiet,
    Seed,
    Sigma,
    TrustCode,
    import_from_here,
    with_options,
)
from segcertify.cli.printing import Printer, resumable
from segcertify.errors import InputError

PANELS = {"objective": "Objective", "iterations": "Optimiser", "crop": "Augmentation", "class_weights": "Loss"}
"""The group of options that begins with each of these fields of a `Recipe`."""
SHARED: dict[str, Any] = {"sigma": Sigma, "batch_size": BatchSize, "precision": Precision, "seed": Seed}
"""The fields of a `Recipe` that are options of other commands too."""
LOG = "Log"


def _with_recipe(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of a `Recipe`, instead of its ``**settings``."""
    from segcertify.training.recipe import Recipe

    hints = get_type_hints(Recipe) | {"sigma": list[float], "class_weights": str}
    defaults = Recipe().to_plain()
    parameters, panel = [], ""
    for field in fields(Recipe):
        panel = PANELS.get(field.name, panel)
        own_option = typer.Option(help=field.metadata["help"], rich_help_panel=panel)
        option = SHARED[field.name].__metadata__[0] if field.name in SHARED else own_option
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults[field.name],
                annotation=Annotated[hints[field.name], option],
            )
        )
    return with_options(command, parameters)


def _chosen(
    context: typer.Context, name: str | None, settings: dict[str, Any], model: str
) -> tuple[dict[str, Any], str]:
    """The settings and the model of a recipe, changed by the options that were given; without one, all options."""
    from segcertify.training.recipe_files import read_recipe

    weights = settings["class_weights"]
    if "," in weights:
        settings = settings | {"class_weights": _numbers(weights)}
    sources = {key: context.get_parameter_source(key) for key in [*settings, "model"]}
    given = {key for key, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
    if name is not None:
        recipe, own = read_recipe(name, trust_code=context.params["trust_code"], replaced=given)
        settings = recipe.to_plain() | {key: value for key, value in settings.items() if key in given}
        model = model if "model" in given else own or model
    if "iterations" in given and settings["epochs"]:
        raise InputError("epochs set the number of iterations here: give --epochs instead of --iterations")
    return settings, model


def _numbers(text: str) -> tuple[float, ...]:
    """The numbers between commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"class_weights must be numbers between commas, such as 0.8,1,1.2, but got {text!r}") from None


def _kept(out: Path) -> str:
    """What a stopped run left to go on from, in words."""
    from segcertify.storage import archive
    from segcertify.training.folder import STATE

    if not (state := out / STATE).is_file():
        return "no state is kept yet"
    return f"the state after {archive.read_content(state).header['step']} steps is kept in {state}"


@_with_recipe
def train(
    context: typer.Context,
    data: Data[list[str]],
    recipe_name: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            help="A ready recipe (cityscapes-hrnet, shapenet-pointnet2) or a run's recipe.json, which options change.",
        ),
    ] = None,
    times: Annotated[
        list[int] | None, typer.Option(help="How often each of several data sets is taken, in their order.")
    ] = None,
    model: Model[str] = "lite",
    start: Annotated[
        Path | None,
        typer.Option(help="Weights to start from: EfficientNet-Lite's for lite, or a model of this architecture."),
    ] = None,
    validation: Annotated[
        str | None, typer.Option(help="Spec of a data set on which to measure the model while it trains.")
    ] = None,
    log_every: Annotated[int, typer.Option(help="Steps between lines of the log.", rich_help_panel=LOG)] = 50,
    save_every: Annotated[int, typer.Option(help="Steps between saved states.", rich_help_panel=LOG)] = 500,
    validate_every: Annotated[int, typer.Option(help="Steps between measurements.", rich_help_panel=LOG)] = 1000,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Log to TensorBoard too.", rich_help_panel=LOG)
    ] = False,
    device: Device = None,
    memory: Annotated[
        float | None,
        typer.Option(
            help="GB that a data set may take on the device; by default half of what is free. A larger one is "
            "streamed from disk.",
            rich_help_panel=MACHINE,
        ),
    ] = None,
    trust_code: TrustCode = False,
    out: Out[Path] = Path("trained"),
    half: Half = False,
    licence: Annotated[
        str, typer.Option(help="Licences of the data and of the start, for the model card.", rich_help_panel=OUTPUT)
    ] = "not stated",
    json: Json = False,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Train a model on noise, so that it can be certified. Run again to resume; use torchrun for several GPUs."""
    import torch

    from segcertify.data import load, mixture
    from segcertify.models import new, read_card, start_from
    from segcertify.models.initial_weights import described
    from segcertify.sampling.draws import require_device
    from segcertify.training import Intervals, Recipe, train

    first = os.environ.get("RANK", "0") == "0"  # of torchrun's processes, one prints
    printer = Printer(json, quiet)
    settings, model = _chosen(context, recipe_name, settings, model)
    recipe = Recipe(**settings | {name: tuple(settings[name]) for name in ("sigma", "crop", "rescale")})
    intervals = Intervals(log_every, save_every, validate_every)
    scenes = mixture([load(spec) for spec in data], times or ())
    others = None if validation is None else load(validation)
    import_from_here(model, recipe.teacher)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = new(model, classes=len(scenes.classes))
    if start is not None:
        start = model_file(start)
        fresh, total = start_from(network, start), len(network.state_dict())
        if first:
            printer.note(f"started from {start}: {total - len(fresh)} of {total} weights")
    with resumable(lambda: _kept(out)):
        path = train(
            network, scenes, recipe, out=out, spec=model, start="" if start is None else described(start),
            validation=others, licence=licence, half=half, device=None if device is None else require_device(device),
            intervals=intervals, tensorboard=tensorboard, memory=memory, trust_code=trust_code,
            progress=printer.progress,
        )  # fmt: skip
    if first:
        spec = read_card(path).spec(str(path))
        files = [path, *(out / name for name in ("model.md", "log.csv", "loss.png"))]
        printer.say(f"trained: use it as {spec}", wrap=False)
        printer.files(files)
        printer.result(spec=spec, files=files)
