"""Whether a file or a folder belongs to this run: what was stored when it began is compared with what is wanted now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from segcertify.errors import InputError

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Difference(NamedTuple):
    """The first setting in which two runs differ; the name of a setting inside another has a dot."""

    name: str
    found: Any
    wanted: Any


def require_same_run(
    found: Mapping[str, Any], wanted: Mapping[str, Any], *, where: Path, notes: Mapping[str, str] = _NOTHING
) -> None:
    """Raise `InputError` if ``where`` holds a run with other settings than those wanted now.

    Both are plain values, as JSON has them (a tuple equals a list). ``notes`` says in words what another value
    means, for settings whose values say nothing to a reader, such as digests.

    >>> require_same_run({"sigma": 0.5, "n": 100}, {"sigma": 0.25}, where=Path("run"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    segcertify.errors.InputError: run belongs to another run: its sigma is 0.5, now it is 0.25. To resume, ...
    """
    other = difference(found, wanted)
    if other is None:
        return
    plainly = f"its {other.name} is {other.found!r}, now it is {other.wanted!r}"
    raise InputError(
        f"{where} belongs to another run: {notes.get(other.name.partition('.')[0], plainly)}. "
        "To resume, give the same settings, model and input; to start anew, choose another path or delete this one."
    )


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Difference | None:
    """The first wanted setting that was stored with another value or not at all; None if there is none.

    What was stored and is not wanted counts only inside a setting that is a mapping itself.
    """
    found, wanted = json.loads(json.dumps(dict(found))), json.loads(json.dumps(dict(wanted)))
    for name, value in wanted.items():
        other = found.get(name)
        if isinstance(other, dict) and isinstance(value, dict):
            inner = difference(other, {key: value.get(key) for key in {**value, **other}})
            if inner is not None:
                return Difference(f"{name}.{inner.name}", inner.found, inner.wanted)
        elif other != value:
            return Difference(name, other, value)
    return None
