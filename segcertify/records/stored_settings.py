"""Stored settings: the configuration of an evaluation as a file holds it, checked before it is used."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from segcertify.errors import LARGEST, LARGEST_SEED, InputError, require_integer, require_probability
from segcertify.numerals import exact
from segcertify.preprocessing import require_preprocessing
from segcertify.records.settings import (
    SETS,
    AttackSettings,
    LookSettings,
    MetricSettings,
    Setting,
    require_cap,
)  # fmt: skip
from segcertify.stats.correction import K_FWER, PROCEDURES
from segcertify.storage import limits
from segcertify.storage.field_types import require_types

_TEXTS = ("model", "data", "scenes", "noise", "precision", "device", "version")


def require_settings(found: Mapping[str, Any]) -> None:
    """Raise `InputError` unless every setting has a value of its type; earlier versions lack some."""
    for name in _TEXTS:
        if not isinstance(found.get(name, ""), str):
            raise InputError(f"{name} must be a text, but is {found[name]!r:.100}")
    if not isinstance(found.get("answers"), str | None):
        raise InputError(f"answers must be a text, but is {found['answers']!r:.100}")
    classes = _texts("classes", found.get("classes", []))
    if len(classes) > limits.CLASSES:
        raise InputError(f"there are {len(classes)} classes, but at most {limits.CLASSES} are evaluated")
    for each in _list("settings", found["settings"]):
        Setting(**_mapping("a setting", each))
    for name in _texts("corrections", found.get("corrections", [])):
        if name not in (*PROCEDURES, K_FWER):
            raise InputError(f"unknown correction {name!r:.100}")
    for category, parts in _mapping("categories", found["categories"]).items():
        if any(require_integer("a part", part, at_least=0) >= len(classes) for part in _list(category, parts)):
            raise InputError(f"the category {category!r:.100} has parts that are no classes")
    if (methods := _texts("sets", found["sets"])) != list(dict.fromkeys(each for each in methods if each in SETS)):
        raise InputError(f"sets must be some of {', '.join(SETS)}, but are {methods!r:.100}")
    _require_numbers(found)
    _require_parts(found)
    for noise in _mapping("noises", found["noises"] or {}).values():
        _mapping("a noise", noise)
    if found["preprocessing"] is not None:
        require_preprocessing(_mapping("preprocessing", found["preprocessing"]))


def _require_parts(found: Mapping[str, Any]) -> None:
    """Attack, metrics and looks, where there are some."""
    for name, kind in (("attack", AttackSettings), ("metrics", MetricSettings)):
        if found[name] is not None:
            _require_whole(name, _mapping(name, found[name]), kind)
    if found["looks"] is not None:
        _require_looks(_mapping("looks", found["looks"]), [Setting(**each) for each in found["settings"]])


def _require_looks(looks: Mapping[str, Any], settings: Sequence[Setting]) -> None:
    """Every setting has looks, the last of them at its n."""
    for times in _mapping("the times of looks", looks.get("times")).values():
        _list("looks", times)
    found = LookSettings(**looks).times
    for each in settings:
        if found.get(exact(each.sigma), (0,))[-1] != each.n:
            raise InputError(f"looks at {found} do not end at n={each.n} for sigma={exact(each.sigma)}")


def _require_whole(name: str, values: dict[str, Any], kind: type[AttackSettings] | type[MetricSettings]) -> None:
    """All settings of a kind, each of its type: reports read them by their names."""
    if lacking := {each.name for each in fields(kind)} - {*values}:
        raise InputError(f"{name} has no {', '.join(sorted(lacking))}")
    require_types(values, kind)
    kind(**values)


def _require_numbers(found: Mapping[str, Any]) -> None:
    """The numbers and the flag."""
    for name, least, most in (
        ("seed", 0, LARGEST_SEED),
        ("n0", 0, LARGEST),
        ("k", 1, LARGEST),
        ("threads", 1, LARGEST),
        ("batch_size", 1, LARGEST),
    ):
        if found.get(name) is not None:
            require_integer(name, found[name], at_least=least, at_most=most)
    if found["settings"]:
        if isinstance(found["alpha"], str):
            raise InputError(f"alpha must be a number, but is {found['alpha']!r:.40}")
        require_probability("alpha", found["alpha"])
    if found["cap"] is not None:
        require_cap(found["cap"])
    if not isinstance(found["seed_given"], bool):
        raise InputError(f"seed_given must be true or false, but is {found['seed_given']!r:.40}")


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name} must hold values by name, but is {value!r:.100}")
    return value


def _list(name: str, values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise InputError(f"{name} must be a list, but is {values!r:.100}")
    return values


def _texts(name: str, values: Any) -> list[str]:
    if not all(isinstance(value, str) for value in _list(name, values)):
        raise InputError(f"{name} must be a list of texts, but is {values!r:.100}")
    return list(values)
