"""`segcertify train`: a model for certificates. Its options include the fields of a `Recipe`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import fields
from functools import partial
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


def with_training(command: Callable[..., None], *, out: str, recipe: Recipe | None = None) -> Callable[..., None]:
    """The command with the options of `run_training` and of all fields of a `Recipe`, instead of its ``**settings``.

    ``out`` and the ``recipe`` are the defaults.
    """
    from segcertify.training.recipe import Recipe

    hints = get_type_hints(Recipe) | {"sigma": list[float], "class_weights": str}
    defaults = (recipe or Recipe()).to_plain()
    parameters, panel = [*_training_options(Path(out)).values()], ""
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


def _training_options(out: Path) -> dict[str, inspect.Parameter]:
    """The options that `run_training` takes, by name."""
    parameters = inspect.signature(run_training, eval_str=True).parameters.values()
    options = {each.name: each for each in parameters if each.kind is each.KEYWORD_ONLY}
    return options | {"out": options["out"].replace(default=out)}


def run_training(
    job: Callable[..., Path], *, validation: Validation = None, log_every: LogEvery = 50, save_every: SaveEvery = 500,
    validate_every: ValidateEvery = 1000, tensorboard: TensorBoard = False, device: Device = None,
    memory: Memory = None, trust_code: TrustCode = False, out: Out[Path] = Path("trained"), half: Half = False,
    licence: Licence = "not stated", json: Json = False, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Train, and print the files. ``job`` is `segcertify.training.train` with a network, its data and a recipe."""
    from segcertify.data import load
    from segcertify.sampling.inputs import require_device
    from segcertify.training import Intervals

    printer = Printer(json, quiet)
    with resumable(lambda: state_kept(out)):
        path = job(
            out=out, validation=None if validation is None else load(validation), licence=licence, half=half,
            device=None if device is None else require_device(device), tensorboard=tensorboard, memory=memory,
            intervals=Intervals(log_every, save_every, validate_every), trust_code=trust_code,
            progress=printer.progress,
        )  # fmt: skip
    if is_first():
        print_trained(printer, path)


def is_first() -> bool:
    """Whether this is the first of torchrun's processes: one prints."""
    return os.environ.get("RANK", "0") == "0"


def without_recipe(settings: dict[str, Any]) -> dict[str, Any]:
    """Of a command's ``**settings``, those of `run_training`; they are taken out, which leaves the recipe's."""
    return {name: settings.pop(name) for name in _training_options(Path())}


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


@partial(with_training, out="trained")
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
    **settings: Any,
) -> None:
    """Train a model on noise, so that it can be certified. Run again to resume; use torchrun for several GPUs."""
    import torch

    from segcertify.data import load, mixture
    from segcertify.models import new, start_from
    from segcertify.models.initial_weights import described
    from segcertify.training import train

    run = without_recipe(settings)
    folder(run["out"])
    settings, model = _chosen(context, recipe_name, settings, model)
    recipe = recipe_of(settings)
    scenes = mixture([load(spec) for spec in data], times or ())
    import_from_here(model, recipe.teacher)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = new(model, classes=len(scenes.classes))
    if start is not None:
        start = model_file(start)
        fresh, total = start_from(network, start), len(network.state_dict())
        if is_first():
            printer = Printer(run["json"], run["quiet"])
            printer.note(f"started from {start}: {total - len(fresh)} of {total} weights")
    start_text = "" if start is None else described(start)
    run_training(partial(train, network, scenes, recipe, spec=model, start=start_text), **run)


def print_trained(printer: Printer, path: Path) -> None:
    """Say how to use a trained model, and where its files are."""
    from segcertify.models import read_card

    spec, out = read_card(path).spec(str(path)), path.parent
    files = [path, *(out / name for name in ("model.md", "log.csv", "loss.png"))]
    printer.say(f"trained: use it as {spec}", wrap=False)
    printer.files(files)
    printer.result(spec=spec, files=files)
