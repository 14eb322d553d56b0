"""Recipes in files: the ready ones that ship, by name, and the ``recipe.json`` of any run, by path."""

from __future__ import annotations

import os
from collections.abc import Collection
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from segcertify.errors import InputError, unknown
from segcertify.models.card import renamed_recipe
from segcertify.storage.plain_values import digest_of, read_json
from segcertify.storage.reading import is_there
from segcertify.training.recipe import Recipe

ABOUT_A_RUN = ("about", "start", "data", "scenes", "validation", "licence", "half")
"""What a file may hold beside the settings and the model; it describes the file or its run, and is not taken."""
CODE = ("python", "pt2", "torchscript")
"""The schemes of models that run code."""
FORMAT = 2
"""Of a run's ``recipe.json``: files of format 2 have a digest of their settings."""
_FOLDER = files("segcertify.training") / "recipes"


def ready_recipes() -> tuple[str, ...]:
    """The names of the recipes that ship.

    >>> ready_recipes()
    ('cityscapes-hrnet', 'shapenet-pointnet2')
    """
    return tuple(sorted(Path(file.name).stem for file in _FOLDER.iterdir() if file.name.endswith(".json")))


def read_recipe(
    name: str | os.PathLike[str], *, trust_code: bool = False, replaced: Collection[str] = ()
) -> tuple[Recipe, str]:
    """A recipe that ships, by its name, or one in a JSON file; and the spec of its model, "" if the file names none.

    Settings that the file leaves out have their defaults; the names of version 0.2.0 are read too. Raises `InputError`
    if the file's model or teacher is a spec that runs code, unless ``trust_code``, or unless it is among those to be
    ``replaced``.

    >>> recipe, model = read_recipe("shapenet-pointnet2")
    >>> recipe.optimiser, recipe.epochs, model
    ('adam', 251, 'pointnet2?normals=false')
    """
    values = renamed_recipe(_values(str(name)))
    model = values.pop("model", "")
    if not isinstance(model, str):
        raise InputError(f"{name}: its model must be a spec such as 'hrnet:w48', but is {model!r}")
    for key, spec in (("model", model), ("teacher", values.get("teacher", ""))):
        if not trust_code and key not in replaced and str(spec).partition(":")[0] in CODE:
            raise InputError(
                f"{name} names code to run ({key} {spec!r}): if you trust whoever made the file, add --trust-code (in "
                f"Python: trust_code=True), or give the {key} yourself"
            )
    try:
        return Recipe.from_plain({key: value for key, value in values.items() if key not in ABOUT_A_RUN}), model
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _values(name: str) -> dict[str, Any]:
    """What the file holds."""
    ready = ready_recipes()
    if name in ready:
        with as_file(_FOLDER / f"{name}.json") as path:
            return read_stamped(path, cure="install segcertify again")
    if not is_there(name):
        raise unknown("recipe", name, ready, forms=[*ready, "the path of a recipe.json"])
    return read_stamped(name, cure="a recipe is a file such as a run's recipe.json")


def read_stamped(path: str | os.PathLike[str], *, cure: str) -> dict[str, Any]:
    """The settings in a ``recipe.json``, without format and digest. Raises `InputError` if they do not agree."""
    values = read_json(path, cure=cure)
    digest, intact = values.pop("digest", None), digest_of(values)
    version = values.pop("format", 1)
    if version not in (1, FORMAT):
        raise InputError(f"{path} has format {version!r:.40}, but this segcertify reads formats 1 and {FORMAT}: {cure}")
    if digest != intact and not (digest is None and version == 1):
        raise InputError(
            f"{path} does not agree with its digest: it was changed or damaged after it was written. Restore it from a "
            'copy; or, if you changed it to train with it, delete its lines "format" and "digest"'
        )
    return values
