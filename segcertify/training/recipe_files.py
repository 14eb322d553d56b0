"""Recipes in files: the ready ones that ship, by name, and the ``recipe.json`` of any run, by path."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from importlib.resources import files
from pathlib import Path
from typing import Any

from segcertify.errors import InputError, unknown
from segcertify.models.card import renamed_recipe
from segcertify.training.recipe import Recipe

ABOUT_A_RUN = ("about", "start", "data", "scenes", "validation", "licence", "half")
"""What a file may hold beside the settings and the model; it describes the file or its run, and is not taken."""
CODE = ("python", "pt2", "torchscript")
"""The schemes of models that run code."""
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
    path = _FOLDER / f"{name}.json" if name in ready else Path(name)
    if not path.is_file():
        raise unknown("recipe", name, ready, forms=[*ready, "the path of a recipe.json"])
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{name} is not JSON ({error}): a recipe is a file such as a run's recipe.json") from None
    if not isinstance(values, dict):
        raise InputError(f"{name} must hold settings by name, as a run's recipe.json does, but holds {values!r:.60}")
    return values
