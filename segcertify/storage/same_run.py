"""Whether a file or a folder belongs to this run: what was stored when it began is compared with what is wanted now."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segcertify.errors import InputError


def require_same_run(
    found: Mapping[str, Any], wanted: Mapping[str, Any], *, where: Path, notes: Mapping[str, str] | None = None
) -> None:
    """Raise `InputError` if ``where`` holds a run with other settings than those wanted now.

    Both are plain values, as JSON has them (a tuple equals a list). ``notes`` says in words what another value
    means, for settings whose values say nothing to a reader, such as digests.

    >>> require_same_run({"sigma": 0.5, "n": 100}, {"sigma": 0.25}, where=Path("run"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    segcertify.errors.InputError: run belongs to another run: its sigma is 0.5, now it is 0.25. To resume, ...
    """
    differences = difference(found, wanted)
    if not differences:
        return
    name, (old, new) = next(iter(differences.items()))
    many = name.endswith(("s", "radii")) and not name.endswith("ss")  # its settings are, its loss is
    own = f"are {old}, now they are {new}" if many else f"is {old}, now it is {new}"
    words = (notes or {}).get(name.partition(".")[0], f"its {name} {own}")
    raise InputError(
        f"{where} belongs to another run: {words}. To resume, give the same settings, model and input; "
        "to start anew, choose another path or delete this one."
    )


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The wanted settings that were stored with another value or not at all: the old and the new one, by name.

    The name of a setting inside another has a dot. What was stored and is not wanted counts only there.
    """
    found, wanted = json.loads(json.dumps(dict(found))), json.loads(json.dumps(dict(wanted)))
    differences: dict[str, tuple[str, str]] = {}
    for name, value in wanted.items():
        other = found.get(name)
        if isinstance(other, dict) and isinstance(value, dict):
            inner = difference(other, {key: value.get(key) for key in {**value, **other}})
            differences |= {f"{name}.{key}": values for key, values in inner.items()}
        elif other != value:
            differences[name] = repr(other), repr(value)
    return differences
