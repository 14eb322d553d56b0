"""The folder of a training run: its files, and whose run it is."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segcertify.errors import InputError
from segcertify.models.card import renamed_recipe
from segcertify.storage.atomic import require_writable, write_text
from segcertify.storage.plain_values import digest_of
from segcertify.storage.reading import is_there
from segcertify.storage.same_run import difference, require_same_run
from segcertify.training.log import LOG, read_log
from segcertify.training.recipe import EARLIER
from segcertify.training.recipe_files import FORMAT, read_stamped

MODEL, RECIPE, STATE = "model.safetensors", "recipe.json", "resume.safetensors"
"""The finished model, the run's settings, and the state of an unfinished run."""


def claim(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Take a folder for the run with these settings; returns whether that run is finished.

    Raises `InputError` if the folder belongs to a run with other settings. A run that failed before its log's
    first row does not keep its folder.
    """
    file, model, log = require_writable(folder / RECIPE), folder / MODEL, folder / LOG
    if is_there(file):
        found = EARLIER | renamed_recipe(read_stamped(file, cure="choose another folder"))
        if not difference(found, settings):
            return is_there(model)
        if is_there(model) or is_there(folder / STATE) or (is_there(log) and read_log(log)):
            require_same_run(found, settings, where=folder)
    elif is_there(model):
        raise InputError(f"{folder} holds a model of another run: choose another folder")
    stored = json.loads(json.dumps({"format": FORMAT, **settings}))  # as it will be read
    write_text(file, json.dumps(stored | {"digest": digest_of(stored)}, indent=2) + "\n")
    return False
