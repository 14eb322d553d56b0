"""The command that trains a model; its options are the fields of a `Recipe`."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from segcertify.cli.options import Device
from segcertify.cli.printing import console, escape, print_files, resumable


def _with_recipe(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of a `Recipe`, in place of its ``**settings``."""
    from segcertify.training.recipe import Recipe

    hints = get_type_hints(Recipe) | {"sigma": list[float]}
    defaults = Recipe().to_plain()
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]
    added = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults[field.name],
            annotation=Annotated[
                hints[field.name], typer.Option(help=field.metadata["help"], rich_help_panel="Recipe")
            ],
        )
        for field in fields(Recipe)
    ]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    command.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
    return command


@_with_recipe
def train(
    data: Annotated[list[str], typer.Option(help="A data set's spec, as for evaluate; several are mixed.")],
    times: Annotated[
        list[int] | None, typer.Option(help="How often each of several data sets is taken, in their order.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="The architecture: lite, hrnet:w18-small-v2, pointnet2, python:module:factory, ...")
    ] = "lite",
    start: Annotated[
        Path | None,
        typer.Option(help="Weights to start from: EfficientNet-Lite0's for lite, or a model of this architecture."),
    ] = None,
    validation: Annotated[
        str | None, typer.Option(help="A data set's spec, to measure the model on while it trains.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The run's folder; the same command goes on with it.")] = Path("trained"),
    half: Annotated[bool, typer.Option("--half", help="Write the weights in half precision.")] = False,
    licence: Annotated[
        str, typer.Option(help="Licences of the data and the start, for the model card.")
    ] = "not stated",
    log_every: Annotated[int, typer.Option(help="Steps between rows of the log.")] = 50,
    save_every: Annotated[int, typer.Option(help="Steps between saved states.")] = 500,
    validate_every: Annotated[int, typer.Option(help="Steps between measurements.")] = 1000,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Log to TensorBoard too.")] = False,
    device: Device = None,
    **settings: Any,
) -> None:
    """Train a model on noise, to be certified. Run again to resume; start with torchrun for several GPUs."""
    import torch

    from segcertify.data import load, mixture
    from segcertify.models import new, start_from
    from segcertify.models.initial_weights import described
    from segcertify.sampling.draws import require_device
    from segcertify.specs import with_option
    from segcertify.training import Intervals, Recipe, train

    recipe = Recipe(**settings | {name: tuple(settings[name]) for name in ("sigma", "crop", "scale")})
    intervals = Intervals(log_every, save_every, validate_every)
    scenes = mixture([load(spec) for spec in data], times or ())
    others = None if validation is None else load(validation)
    sys.path.insert(0, os.getcwd())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = new(model, classes=len(scenes.classes))
    tells = os.environ.get("RANK", "0") == "0"  # one of torchrun's processes
    if start is not None:
        start = _file(start)
        fresh, all_ = start_from(network, start), len(network.state_dict())
        if tells:
            console.print(f"started from {escape(str(start))}: {all_ - len(fresh)} of {all_} weights", soft_wrap=True)
    with resumable():
        path = train(
            network,
            scenes,
            recipe,
            out=out,
            spec=model,
            start="" if start is None else described(start),
            validation=others,
            licence=licence,
            half=half,
            device=None if device is None else require_device(device),
            intervals=intervals,
            tensorboard=tensorboard,
        )
    if not tells:
        return
    spec = with_option(model, "weights", str(path)) if model.startswith("python:") else f"trained:{path}"
    console.print(f"trained: use it as [bold]{escape(spec)}[/]", soft_wrap=True)
    print_files([path, *(out / name for name in ("model.md", "log.csv", "loss.png"))])


def _file(path: Path) -> Path:
    """The file that a path or a spec, trained:FILE, names."""
    return Path(str(path).removeprefix("trained:"))


def join(
    models: Annotated[list[Path], typer.Argument(help="Files that train wrote, of images and the same classes.")],
    view: Annotated[
        list[str] | None,
        typer.Option(help="How each member sees the image: a scale, with m if mirrored, such as 1 or 0.75m; several."),
    ] = None,
    half: Annotated[bool, typer.Option("--half", help="Write the weights in half precision.")] = False,
    out: Annotated[Path, typer.Option(help="The ensemble's file.")] = Path("ensemble.safetensors"),
) -> None:
    """Make one model of several, the mean of their logits: noise moves it less than any of them."""
    from segcertify.models import View, join
    from segcertify.models.saved import beside

    path = join([_file(model) for model in models], out, views=[View.parse(text) for text in view or ["1"]], half=half)
    console.print(f"joined: use it as [bold]trained:{escape(str(path))}[/]", soft_wrap=True)
    print_files([path, beside(path)])
