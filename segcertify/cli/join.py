"""`segcertify join`: one model of several."""

from pathlib import Path
from typing import Annotated

import typer

from segcertify.cli.options import Half, Json, Out, Quiet
from segcertify.cli.printing import Printer
from segcertify.errors import InputError
from segcertify.storage.reading import is_folder


def join(
    models: Annotated[list[Path], typer.Argument(help="Files that train wrote, of images and the same classes.")],
    view: Annotated[
        list[str] | None,
        typer.Option(
            help="How each member sees the image: a scale, with m if mirrored, such as 1 or 0.75m. May be repeated."
        ),
    ] = None,
    half: Half = False,
    out: Out[Path] = Path("ensemble.safetensors"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make one model of several, the mean of their logits: noise changes its labels less than those of any member."""
    from segcertify.models import View, join
    from segcertify.models.saved import beside

    printer = Printer(json, quiet)
    if not out.name or is_folder(out):
        raise InputError(f"--out must name a file, but {out} is a folder: write {out / 'ensemble.safetensors'}")
    files = [model_file(model) for model in models]
    path = join(files, out, views=[View.parse(text) for text in view or ["1"]], half=half)
    printer.say(f"joined: use it as trained:{path}", wrap=False)
    printer.files([path, beside(path)])
    printer.result(spec=f"trained:{path}", files=[path, beside(path)])


def model_file(path: Path) -> Path:
    """The file of a trained model, whether its path or its spec (trained:FILE) is given."""
    return Path(str(path).removeprefix("trained:"))
