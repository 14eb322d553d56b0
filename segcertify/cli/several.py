"""Several inputs of a command that takes one: files, and folders of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from segcertify.cli.printing import Printer
from segcertify.errors import InputError
from segcertify.names import file_name


def for_each_input(command: Callable[..., None]) -> Callable[..., None]:
    """A command for one input, its first parameter, as one for several. Each has a folder of its own in ``--out``."""
    signature = inspect.signature(command, eval_str=True)
    first, *others = signature.parameters.values()
    argument = get_args(first.annotation)[1]
    several = typer.Argument(help=f"{argument.help} Several files, or folders of them, each get their own folder.")

    @wraps(command)
    def of_all(**options: Any) -> None:
        given = options.pop(first.name)
        inputs = _files(given)
        if [*given] == inputs and len(inputs) == 1:
            command(inputs[0], **options)
            return
        if options.get("label") is not None:
            raise InputError(
                f"--label is the ground truth of one image, but there are {len(inputs)} inputs: certify them one "
                "by one, or use segcertify evaluate"
            )
        printer = Printer(options["json"], options["quiet"])
        for input, out in _folders(inputs, options.pop("out", None)).items():
            printer.say(f"{input}:", wrap=False)
            command(input, **options, out=out)
        _say_all_together(printer, len(inputs), options)

    listed = first.replace(annotation=Annotated[list[Path], several])
    of_all.__signature__ = signature.replace(parameters=[listed, *others])  # type: ignore[attr-defined]
    of_all.__annotations__ = {each.name: each.annotation for each in (listed, *others)}
    return of_all


def _files(given: Sequence[Path]) -> list[Path]:
    """The files that were named, and those in the folders that were."""
    from segcertify.data.images.unlabelled import SUFFIXES
    from segcertify.data.reading import ARRAY_SUFFIXES, CLOUD_SUFFIXES

    known, files = (*SUFFIXES, *CLOUD_SUFFIXES, *ARRAY_SUFFIXES), list[Path]()
    for path in given:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(each for each in path.iterdir() if each.name.lower().endswith(known) and each.is_file())
        if not inside:
            raise InputError(f"{path} holds no inputs: expected files that end in {', '.join(known)}")
        files += inside
    return files


def _folders(inputs: Sequence[Path], out: Path | None) -> dict[Path, Path]:
    """Where the results of each input go: a folder of its name, which only one of them may have."""
    from segcertify.data.reading import input_name

    folders: dict[Path, Path] = {}
    for input in inputs:
        folder = (out or Path("certified")) / file_name(input_name(input))
        if (other := next((each for each, taken in folders.items() if taken == folder), None)) is not None:
            raise InputError(f"{other} and {input} would both write to {folder}: rename one, or certify it by itself")
        folders[input] = folder
    return folders


def _say_all_together(printer: Printer, inputs: int, options: dict[str, Any]) -> None:
    """Print what holds of all the claims at once, where each is about all labels of its input."""
    from segcertify.numerals import exact, union_bound
    from segcertify.stats.correction import PROCEDURES

    if options["correction"] in PROCEDURES and PROCEDURES[options["correction"]].guarantee == "fdr":
        return
    claims = inputs * (len(options["metric"] or ["labels"]) + bool(options["sets"]) + (options["cap"] is not None))
    printer.say(
        f"Each of these {claims} claims is false with probability at most {exact(options['alpha'])}, any of them "
        f"with at most {union_bound(options['alpha'], claims)}."
    )
