"""`segcertify train`: a model for certificates. Its options include the fields of a `Recipe`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

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
    folder,
    import_from_here,
    with_options,
)
from segcertify.cli.printing import Printer, resumable
from segcertify.errors import InputError

if TYPE_CHECKING:
    from segcertify.training.recipe import Recipe

PANELS = {"objective": "Objective", "iterations": "Optimiser", "crop": "Augmentation", "class_weights": "Loss"}
"""The group of options that begins with each of these fields of a `Recipe`."""
SHARED: dict[str, Any] = {"sigma": Sigma, "batch_size": BatchSize, "precision": Precision, "seed": Seed}
"""The fields of a `Recipe` that are options of other commands too."""
LOG = "Log"


Times = Annotated[
    list[int] | None, typer.Option("--times", help="How often each of several data sets is taken, in their order.")
]
Validation = Annotated[
    str | None, typer.Option("--validation", help="Spec of a data set on which to measure the model while it trains.")
]
LogEvery = Annotated[int, typer.Option("--log-every", help="Steps between lines of the log.", rich_help_panel=LOG)]
SaveEvery = Annotated[int, typer.Option("--save-every", help="Steps between saved states.", rich_help_panel=LOG)]
ValidateEvery = Annotated[
    int, typer.Option("--validate-every", help="Steps between measurements.", rich_help_panel=LOG)
]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Log to TensorBoard too.", rich_help_panel=LOG)]
Memory = Annotated[
    float | None,
    typer.Option(
        "--memory",
        help="GB that a data set may take on the device; by default half of what is free. A larger one is "
        "streamed from disk.",
        rich_help_panel=MACHINE,
    ),
]
Licence = Annotated[
    str,
    typer.Option(
        "--licence", help="Licences of the data and of the start, for the model card.", rich_help_panel=OUTPUT
    ),
]


def with_recipe(command: Callable[..., None], recipe: Recipe | None = None) -> Callable[..., None]:
    """The command with an option for each field of a `Recipe`, instead of its ``**settings``."""
    from segcertify.training.recipe import Recipe

    hints = get_type_hints(Recipe) | {"sigma": list[float], "class_weights": str}
    defaults = (recipe or Recipe()).to_plain()
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

    given = {key for key in [*settings, "model"] if was_given(context, key)}
    if name is not None:
        recipe, own = read_recipe(name, trust_code=context.params["trust_code"], replaced=given)
        settings = recipe.to_plain() | {key: value for key, value in settings.items() if key in given}
        model = model if "model" in given else own or model
    if "iterations" in given and settings["epochs"]:
        raise InputError("epochs set the number of iterations here: give --epochs instead of --iterations")
    return settings, model


def was_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, rather than left at its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def recipe_of(settings: dict[str, Any]) -> Recipe:
    """The recipe that the options of a command make."""
    from segcertify.training.recipe import Recipe

    weights = settings["class_weights"]
    if isinstance(weights, str) and "," in weights:
        settings = settings | {"class_weights": _numbers(weights)}
    return Recipe(**settings | {name: tuple(settings[name]) for name in ("sigma", "crop", "rescale")})


def _numbers(text: str) -> tuple[float, ...]:
    """The numbers between commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"class_weights must be numbers between commas, such as 0.8,1,1.2, but got {text!r}") from None


def state_kept(out: Path) -> str:
    """What a stopped run left to go on from, in words."""
    from segcertify.storage import archive
    from segcertify.training.folder import STATE

    if not (state := out / STATE).is_file():
        return "no state is kept yet"
    return f"the state after {archive.read_content(state).header['step']} steps is kept in {state}"


@with_recipe
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
    times: Times = None,
    model: Model[str] = "lite",
    start: Annotated[
        Path | None,
        typer.Option(help="Weights to start from: EfficientNet-Lite's for lite, or a model of this architecture."),
    ] = None,
    validation: Validation = None,
    log_every: LogEvery = 50,
    save_every: SaveEvery = 500,
    validate_every: ValidateEvery = 1000,
    tensorboard: TensorBoard = False,
    device: Device = None,
    memory: Memory = None,
    trust_code: TrustCode = False,
    out: Out[Path] = Path("trained"),
    half: Half = False,
    licence: Licence = "not stated",
    json: Json = False,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Train a model on noise, so that it can be certified. Run again to resume; use torchrun for several GPUs."""
    import torch

    from segcertify.data import load, mixture
    from segcertify.models import new, start_from
    from segcertify.models.initial_weights import described
    from segcertify.sampling.draws import require_device
    from segcertify.training import Intervals, train

    first = os.environ.get("RANK", "0") == "0"  # of torchrun's processes, one prints
    printer, out = Printer(json, quiet), folder(out)
    settings, model = _chosen(context, recipe_name, settings, model)
    recipe = recipe_of(settings)
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
    with resumable(lambda: state_kept(out)):
        path = train(
            network, scenes, recipe, out=out, spec=model, start="" if start is None else described(start),
            validation=others, licence=licence, half=half, device=None if device is None else require_device(device),
            intervals=intervals, tensorboard=tensorboard, memory=memory, trust_code=trust_code,
            progress=printer.progress,
        )  # fmt: skip
    if first:
        print_trained(printer, path)


def print_trained(printer: Printer, path: Path) -> None:
    """Say how to use a trained model, and where its files are."""
    from segcertify.models import read_card

    spec, out = read_card(path).spec(str(path)), path.parent
    files = [path, *(out / name for name in ("model.md", "log.csv", "loss.png"))]
    printer.say(f"trained: use it as {spec}", wrap=False)
    printer.files(files)
    printer.result(spec=spec, files=files)
