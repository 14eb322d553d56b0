"""The types of a file's values: each must be of the type that the dataclass gives the field of its name."""

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from segcertify.errors import InputError

_PLAIN = {float: "a number", int: "an integer", str: "a text", bool: "True or False", NoneType: "nothing"}


def require_types(values: Mapping[str, Any], kind: type) -> None:
    """Raise `InputError` unless all plain values, as JSON gives them, have the types of a dataclass's fields.

    Lists stand for tuples, and values by name for whatever is no plain value, such as a noise. Names that the
    dataclass does not have are left to its constructor.
    """
    expected = _types(kind)
    for name, value in values.items():
        if name in expected and not _fits(value, expected[name]):
            raise InputError(f"{name} must be {_words(expected[name])}, but got {value!r:.100}")


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, expected: Any) -> bool:
    """Whether a plain value can be of a type. True is no integer, but an integer is a number."""
    inner, form = get_args(expected), get_origin(expected)
    if form in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if form is Literal:
        return isinstance(value, str)  # which of them, the constructor says better
    if form is tuple:
        expects = [inner[0]] * len(value) if isinstance(value, list) and inner[-1] is ... else inner
        return isinstance(value, list) and len(value) == len(expects) and all(map(_fits, value, expects))
    if expected is float:
        return type(value) in (int, float)
    return type(value) is expected if expected in _PLAIN else isinstance(value, dict)


def _words(expected: Any) -> str:
    inner, form = get_args(expected), get_origin(expected)
    if form in (Union, UnionType):
        return " or ".join(map(_words, inner))
    special = {tuple: "a list", Literal: "a text"}
    return special.get(form) or _PLAIN.get(expected, "values by name")
