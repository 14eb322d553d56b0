"""The names of noises: one vocabulary for commands, run folders and tables, in the grammar of `segcertify.specs`.

- ``gaussian``, ``laplace``, ``uniform``: on every entry
- ``gaussian?channels=0,1,2&axis=1``: on some channels only
- ``rotation``: in three dimensions, about any axis
- ``rotation:z``, ``rotation:1,1,0``: about one axis
- ``rotation?vectors=1``: of the first three columns only
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from segcertify.errors import InputError, unknown
from segcertify.noise.additive import Gaussian, Laplace, Uniform
from segcertify.noise.base import Noise
from segcertify.noise.rotation import AxisRotation, Rotation
from segcertify.specs import INTEGER, Option
from segcertify.specs import parse as parse_spec


class Family(NamedTuple):
    """A class of noises: its name, a usual scale, its options, and its scale for a `ScaledNoise.factor`."""

    noise: type[Any]
    name: str
    usual: float
    options: Mapping[str, Option] = MappingProxyType({})
    scale: Callable[[float], float] = float


_CHANNELS = Option("0,1,2", lambda text: tuple(int(number) for number in text.split(",")))
_VECTORS = {"vectors": INTEGER}

FAMILIES: dict[str, Family] = {
    family.noise.__name__: family
    for family in (
        Family(Gaussian, "gaussian", 0.25, {"channels": _CHANNELS, "axis": INTEGER}),
        Family(Laplace, "laplace", 0.25),
        Family(Uniform, "uniform", 0.5),
        Family(AxisRotation, "rotation:z", 0.25, _VECTORS),
        Family(Rotation, "rotation", 0.25, _VECTORS, scale=lambda factor: math.sqrt(2 * math.log1p(factor**2 / 2))),
    )
}
"""The one table of noises, by the name of their class."""

NAMES = tuple(family.name for family in FAMILIES.values())
"""A name of each family, for help and for errors."""

EXAMPLES: tuple[Noise, ...] = tuple(family.noise(family.usual) for family in FAMILIES.values())
"""A noise of each family, at a usual scale."""


@dataclass(frozen=True)
class NoiseName:
    """A noise without its scale: call it with a scale for the noise, or take its text.

    >>> rotation = parse("rotation:z")
    >>> rotation(0.1), str(rotation)
    (AxisRotation(sigma=0.1), 'rotation:z')
    """

    noise: type[Any]
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, scale: float) -> Noise:
        noise: Noise = self.noise(scale, **dict(self.options))
        return noise

    def __str__(self) -> str:
        name, options = FAMILIES[self.noise.__name__].name, dict(self.options)
        if self.noise is AxisRotation:
            name = f"rotation:{_text(options.pop('axis', 'z'))}"
        return name + "".join(f"{'&' if i else '?'}{key}={_text(v)}" for i, (key, v) in enumerate(options.items()))


def parse(text: str) -> NoiseName:
    """The noise that a text names. Raises `InputError` for an unknown name or option, or a value out of range."""
    spec = parse_spec(text)
    if spec.scheme not in NAMES:
        raise unknown("noise", text, NAMES)
    if spec.target and spec.scheme != "rotation":
        raise InputError(f"{spec.scheme} noise has no axis of rotation, but got {text!r}: write {spec.scheme}")
    about = {"axis": _axis(spec.target)} if spec.target else {}
    family = next(f for f in FAMILIES.values() if f.name == ("rotation:z" if about else spec.scheme))
    return name_of(family.noise(family.usual, **about, **spec.read(family.options)))


def name_of(noise: Noise) -> NoiseName:
    """The name of a noise, without what is at its default. Raises `InputError` for a noise that has none."""
    family = require_family(type(noise))
    _, *fields = dataclasses.fields(noise)  # the first is the scale
    options = ((field.name, getattr(noise, field.name), field.default) for field in fields)
    return NoiseName(family.noise, tuple((name, value) for name, value, default in options if value != default))


def require_family(noise: object) -> Family:
    """The family of a class of noises."""
    family = FAMILIES.get(getattr(noise, "__name__", ""))
    if family is None or family.noise is not noise:
        raise InputError(f"noise must be one of the classes {', '.join(FAMILIES)}, but got {noise!r}")
    return family


def is_proven(noise: Noise) -> bool:
    """Whether it is one of our noises, whose radius has a proof. A class derived from one may draw something else."""
    return any(type(noise) is family.noise for family in FAMILIES.values())


def described(noise: Noise) -> str:
    """A noise by its class and all its parameters: of ours as Python would write it, of others with the module."""
    if is_proven(noise):
        return repr(noise)
    fields = ", ".join(f"{field.name}={getattr(noise, field.name)!r}" for field in dataclasses.fields(noise))
    return f"{type(noise).__module__}.{type(noise).__qualname__}({fields})"


def common_name(made: Mapping[float, Noise]) -> str:
    """The name of noises that are made for several scales; if they have none in common, what each scale gives.

    >>> common_name({0.25: Gaussian(0.25), 0.5: Gaussian(0.5)}), common_name({0.25: Gaussian(6.25)})
    ('gaussian', 'Gaussian(sigma=6.25) at sigma=0.25')
    """
    names = {name_of(noise) if is_proven(noise) else None for noise in made.values()}
    name = names.pop() if len(names) == 1 else None
    if name is not None and all(name(scale) == noise for scale, noise in made.items()):
        return str(name)
    return ", ".join(f"{described(noise)} at sigma={scale}" for scale, noise in made.items())


def identified(noise: Noise) -> dict[str, Any]:
    """A noise's class and all its parameters as plain values: of ours `to_plain`, of others with the module's name.

    Raises `InputError` if a parameter is no plain value, so that two different noises could look alike.
    """
    if is_proven(noise):
        return to_plain(noise)
    values = {field.name: getattr(noise, field.name) for field in dataclasses.fields(noise)}
    for name, value in values.items():
        if not _is_plain(value):
            raise InputError(
                f"the noise {type(noise).__qualname__} has a parameter {name} of the type {type(value).__name__}, by "
                "which it cannot be identified: use numbers, texts and tuples of these"
            )
    return {"type": f"{type(noise).__module__}.{type(noise).__qualname__}", **values}


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def to_plain(noise: Noise) -> dict[str, Any]:
    """The noise as plain values, for a file's header."""
    if not is_proven(noise):
        raise InputError(f"{noise!r} cannot be written to a file: only {', '.join(FAMILIES)} can be read back")
    return {"type": type(noise).__name__, **dataclasses.asdict(noise)}


def from_plain(values: Mapping[str, Any]) -> Noise:
    """The noise that `to_plain` wrote down."""
    if not isinstance(values, Mapping):
        raise InputError(f"a noise must be its class and parameters by name, but got {values!r:.100}")
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    name = fields.pop("type", None)
    if not isinstance(name, str) or name not in FAMILIES:
        raise unknown("noise", name, FAMILIES)
    try:
        noise: Noise = FAMILIES[name].noise(**fields)
    except TypeError as error:
        raise InputError(f"unreadable noise {values!r}: {error}") from None
    return noise


def _axis(text: str) -> str | tuple[float, ...]:
    """An axis by name, or by three numbers."""
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        return text


def _text(value: Any) -> str:
    """A value in a name: numbers without the point that they do not need, several with commas."""
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return str(value).removesuffix(".0")
