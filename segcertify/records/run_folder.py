"""A run's folder: whose it is, and what its run was asked."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from segcertify.errors import InputError
from segcertify.records.settings import Configuration


def claim_folder(out: Path, configuration: Configuration) -> None:
    """Make the run's folder, or check that it is this run's."""
    path = out / "config.json"
    text = json.dumps(asdict(configuration), indent=2) + "\n"
    if not path.exists():
        try:
            out.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write to the folder {out}: {error.strerror}") from None
        return
    found = _read(path)
    for name, value in json.loads(text).items():
        if found.get(name) != value:
            other = _OTHER.get(name) or f"its {name} is {found.get(name)!r}, this one's is {value!r}"
            raise InputError(
                f"{out} holds another evaluation: {other}. Use another folder, or the same configuration to resume."
            )


_OTHER = {
    "weights": "it is of another network (weights, or settings such as scales, views?), or of an earlier segcertify",
    "scenes": "it is of other scenes (another limit, every k-th, size or labels?), or of an earlier segcertify",
}
"""What digests cannot say."""


def configuration_of(out: str | os.PathLike[str]) -> dict[str, Any]:
    """The stored configuration of a run's folder; the oldest were of images under Gaussian noise, without attacks."""
    path = Path(out) / "config.json"
    if not path.is_file():
        raise InputError(f"no evaluation at {out}: it has no config.json")
    return {"noise": "gaussian", "categories": {}, "attack": None, **_read(path)}


def _read(path: Path) -> dict[str, Any]:
    """A configuration as it was written."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    needed = ("model", "weights", "data", "scenes", "settings")
    if not isinstance(found, dict) or not all(name in found for name in needed):
        raise InputError(f"{path} is no evaluation's configuration: use another folder, or delete it")
    return found
