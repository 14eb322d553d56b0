"""The folder of a training run: its files, and whose run it is."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segcertify.errors import InputError
from segcertify.models.card import renamed_recipe
from segcertify.storage.atomic import require_writable, write_text
from segcertify.storage.same_run import difference, require_same_run
from segcertify.training.log import LOG, read_log
from segcertify.training.recipe import EARLIER

MODEL, RECIPE, STATE = "model.safetensors", "recipe.json", "resume.safetensors"
"""The finished model, the run's settings, and the state of an unfinished run."""


def claim(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Take a folder for the run with these settings; returns whether that run is finished.

    Raises `InputError` if the folder belongs to a run with other settings. A run that failed before its log's
    first row does not keep its folder.
    """
    file, model, log = require_writable(folder / RECIPE), folder / MODEL, folder / LOG
    if file.exists():
        try:
            found = EARLIER | renamed_recipe(dict(json.loads(file.read_text(encoding="utf-8"))))
        except (ValueError, TypeError):
            raise InputError(f"{file} is not a recipe that segcertify wrote: choose another folder") from None
        if not difference(found, settings):
            return model.exists()
        if model.exists() or (folder / STATE).exists() or (log.exists() and read_log(log)):
            require_same_run(found, settings, where=folder)
    elif model.exists():
        raise InputError(f"{folder} holds a model of another run: choose another folder")
    write_text(file, json.dumps(settings, indent=2) + "\n")
    return False
