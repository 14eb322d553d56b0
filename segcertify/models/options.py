"""A spec's parts, as a user writes them: ``scheme:target?name=value&name=value``."""

from __future__ import annotations

from urllib.parse import parse_qsl

from segcertify.errors import InputError

Options = dict[str, str]
NORMALISATION = ("mean", "std")


def parts(spec: str) -> tuple[str, str]:
    """The scheme and the target of a spec, without its options; either can be empty.

    >>> parts("hrnet:a/b.pth?width=48")
    ('hrnet', 'a/b.pth')
    """
    scheme, _, target = spec.partition("?")[0].partition(":")
    return scheme, target


def options_of(spec: str) -> Options:
    """The options after the question mark, each given once; a plus is a plus, as in names of files."""
    pairs = parse_qsl(spec.partition("?")[2].replace("+", "%2B"), keep_blank_values=True)
    options = dict(pairs)
    if len(options) != len(pairs):
        raise InputError(f"{spec} gives an option twice")
    return options


def plain(text: str) -> bool | int | float | str:
    """An option's value: true or false, a number, or the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def integer(options: Options, name: str) -> int | None:
    """Take out an option that must be an integer."""
    value = options.pop(name, None)
    if value is not None and not value.isdecimal():
        raise InputError(f"{name} must be a positive integer, but got {value!r}")
    return None if value is None else int(value)


def normalisation(options: Options) -> tuple[list[float] | None, list[float] | None]:
    """Take out mean and std, both or neither."""
    mean, std = (_numbers(options, name) for name in NORMALISATION)
    if (mean is None) != (std is None):
        raise InputError("a normalisation needs both mean and std, for example ?mean=0.5,0.5,0.5&std=0.5,0.5,0.5")
    return mean, std


def _numbers(options: Options, name: str) -> list[float] | None:
    """Take out an option that must be a comma-separated list of numbers."""
    value = options.pop(name, None)
    try:
        return None if value is None else [float(entry) for entry in value.split(",")]
    except ValueError:
        raise InputError(f"{name} must list numbers, one per channel, such as 0.5,0.5,0.5, but got {value!r}") from None
