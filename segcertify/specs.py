"""The grammar of specs, by which users name models, data sets and noises: ``scheme:target?key=value&key=value``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from segcertify.errors import InputError, unknown


class Option(NamedTuple):
    """How an option's value is written, and what reads the text: it raises a ValueError if it cannot."""

    form: str
    read: Callable[[str], Any] = str


@dataclass(frozen=True)
class Spec:
    """A spec taken apart. The target and the options can be empty; the values of options are still texts."""

    text: str
    scheme: str
    target: str
    options: Mapping[str, str]

    def read(self, known: Mapping[str, Option], *, others: Callable[[str], Any] | None = None) -> dict[str, Any]:
        """The values of the options, those that are left out left out.

        Without ``others``, which reads the options that are not ``known``, such options are refused.
        """
        values = {}
        for key, text in self.options.items():
            if key in known:
                values[key] = self._value(key, text, known[key])
            elif others is not None:
                values[key] = others(text)
            else:
                forms = [f"{name}={option.form}" for name, option in known.items()]
                raise unknown("option", key, known, forms=forms, where=f" in {self.text!r}")
        return values

    def _value(self, key: str, text: str, option: Option) -> Any:
        if not text:
            raise InputError(f"{key} has no value in {self.text!r}: write {key}={option.form}, or leave it out")
        try:
            return option.read(text)
        except InputError:
            raise
        except ValueError:
            raise InputError(f"{key} cannot be {text!r} in {self.text!r}: write {key}={option.form}") from None


def parse(text: str) -> Spec:
    """A spec taken apart. A plus sign is a plus sign, as in names of files; %26 is an ampersand.

    >>> parse("hrnet:a/b.pth?width=48")
    Spec(text='hrnet:a/b.pth?width=48', scheme='hrnet', target='a/b.pth', options={'width': '48'})
    """
    before, _, query = text.partition("?")
    scheme, _, target = before.partition(":")
    options: dict[str, str] = {}
    for key, value in parse_qsl(query.replace("+", "%2B"), keep_blank_values=True):
        if key in options:
            raise InputError(f"{text!r} gives the option {key!r} twice: say it once, a list as A,B and splits as A+B")
        options[key] = value
    return Spec(text, scheme, target, options)


def with_option(text: str, key: str, value: str) -> str:
    """A spec with one more option.

    >>> with_option("python:mine:make?depth=3", "weights", "a&b.safetensors")
    'python:mine:make?depth=3&weights=a%26b.safetensors'
    """
    value = value.replace("%", "%25").replace("&", "%26")
    return f"{text}{'&' if '?' in text else '?'}{key}={value}"


def without_option(text: str, key: str) -> str:
    """A spec without one of its options.

    >>> without_option("python:mine:make?weights=a.pth&depth=3", "weights")
    'python:mine:make?depth=3'
    """
    result = text.partition("?")[0]
    for name, value in parse(text).options.items():
        result = result if name == key else with_option(result, name, value)
    return result


def literal(text: str) -> bool | int | float | str:
    """True or false, a number, or the text itself: whatever it looks like.

    >>> literal("true"), literal("3"), literal("1e-3"), literal("bilinear")
    (True, 3, 0.001, 'bilinear')
    """
    for read in (_flag, int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(text)
    return int(text)


FLAG = Option("true (or false)", _flag)
POSITIVE = Option("NUMBER (at least 1)", _positive)
INTEGER = Option("NUMBER", int)
NUMBERS = Option("NUMBER,NUMBER,...", lambda text: [float(entry) for entry in text.split(",")])
NAMES = Option("NAME,NAME,...", lambda text: tuple(text.split(",")))
TEXT = Option("TEXT")
