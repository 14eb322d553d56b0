"""Single files that hold arrays and a header, with a format and a version: safetensors underneath.

Nothing is unpickled. A file appears whole or not at all.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from segcertify.arrays import Array
from segcertify.errors import InputError
from segcertify.storage import atomic


def write(
    path: str | os.PathLike[str], *, kind: str, version: int, header: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write arrays and a header of plain values to one file, atomically."""
    about = {"format": f"segcertify.{kind}", "version": version, "header": dict(header)}
    metadata = {"segcertify": json.dumps(about)}  # a single entry: the order of several would differ from run to run
    content = save({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)
    atomic.write_bytes(path, content)


Migration = Callable[[dict[str, Any]], dict[str, Any]]
"""From the header of an older version to that of the newest."""


def read(
    path: str | os.PathLike[str], *, kind: str, version: int, migrations: Mapping[int, Migration] | None = None
) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays of a file that `write` made, also in the older versions that ``migrations`` has."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no {kind} file at {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} is not a {kind} file, or is truncated ({error}): make it again") from None
    try:
        about = json.loads(metadata["segcertify"])
        form, found, header = about["format"], about["version"], dict(about["header"])
    except (KeyError, ValueError, TypeError):
        raise InputError(f"{path} is not a file that segcertify wrote: its header is missing or unreadable") from None
    if form != f"segcertify.{kind}":
        raise InputError(f"{path} holds {form!r}, not segcertify.{kind}")
    if migrations and found in migrations:
        return migrations[found](header), arrays
    if found != version:
        raise InputError(
            f"{path} has format version {found}, but this segcertify reads version {version}: "
            "use the segcertify that wrote it, or make it again"
        )
    return header, arrays


def smallest_integers(array: Array) -> Array:
    """The same integers in the smallest signed type that holds them."""
    largest = int(np.abs(array).max(initial=0))
    return array.astype(next(t for t in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(t).max))
