"""Spec: what ``NAME:PATH?OPTION=VALUE&...`` says, and what each data set takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from segcertify.data.dataset import DataSet
from segcertify.errors import InputError


class Option(NamedTuple):
    """How an option is written, and what makes its value of the text (or raises a ValueError)."""

    form: str
    read: Callable[[str], Any] = str


@dataclass(frozen=True)
class Source:
    """How a data set is loaded: ``load(root, split, **options)``, or ``load(split, **options)`` if it has no folder."""

    load: Callable[..., DataSet]
    options: Mapping[str, Option] = field(default_factory=dict)
    folder: bool = True


class Spec(NamedTuple):
    """A spec, taken apart: each option of the data set has its value, the common ones beside them."""

    name: str
    path: Path
    options: dict[str, Any]
    common: dict[str, Any]


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _count(text: str) -> int | None:
    return None if text == "all" else int(text)


CATEGORY = Option("category=NAME,NAME,...", _names)
NORMALS = Option("normals=true", _flag)
POINTS = Option("points=NUMBER (or all)", _count)
AVAILABLE = Option("available=true", _flag)

_COMMON = {
    "split": Option("split=NAME (or NAME+NAME)"),
    "only": Option("only=GLOB,GLOB,...", _names),
    "without": Option("without=GLOB,GLOB,...", _names),
}
"""What every data set takes."""


def parse(spec: str, sources: Mapping[str, Source]) -> Spec:
    """A spec of one of the sources, taken apart and checked."""
    name, _, rest = spec.partition(":")
    path, _, query = rest.partition("?")
    if name not in sources or (sources[name].folder and not path):
        forms = ", ".join(f"{known}:PATH" if source.folder else f"{known}:" for known, source in sources.items())
        raise InputError(f"unknown data set {spec!r}: expected one of {forms}, such as camvid:data/camvid?split=val")
    if path and not sources[name].folder:
        raise InputError(f"{name} has no folder, but {spec!r} names {path!r}: leave it out, as in {name}:?OPTION=VALUE")
    own = sources[name].options
    options = _options(spec, query, {**_COMMON, **own})
    return Spec(
        name,
        Path(path).expanduser(),
        {key: value for key, value in options.items() if key in own},
        {key: value for key, value in options.items() if key not in own},
    )


def _options(spec: str, query: str, known: Mapping[str, Option]) -> dict[str, Any]:
    """The options after the question mark, known ones only, where a plus sign is a plus sign."""
    options: dict[str, Any] = {}
    listed = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
    for key, value in listed:
        if key not in known:
            forms = ", ".join(option.form for option in known.values())
            raise InputError(f"unknown option {key!r} in {spec!r}: use {forms}")
        if not value:
            raise InputError(f"{key} has no value in {spec!r}: write {known[key].form}, or leave it out")
        try:
            options[key] = known[key].read(value)
        except (ValueError, KeyError):
            raise InputError(f"{key} cannot be {value!r} in {spec!r}: write {known[key].form}") from None
    if len(options) < len(listed):
        raise InputError(f"{spec!r} gives an option twice: say it once, several splits as A+B, several globs as A,B")
    return options
