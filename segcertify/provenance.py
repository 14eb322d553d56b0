"""Provenance: what votes and certificates are about, who made them, and what a radius is in the units of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Protocol

from segcertify import __version__
from segcertify.errors import LARGEST_SEED, InputError, require_integer
from segcertify.noise import Noise, from_plain, to_plain
from segcertify.numerals import radius_text
from segcertify.preprocessing import (
    Preprocessing,
    file_pixels,
    file_radius,
    file_words,
    in_words,
    is_resized,
    require_plain,
    require_preprocessing,
)  # fmt: skip
from segcertify.shown import Shown
from segcertify.storage.field_types import require_types


@dataclass(frozen=True, eq=False, kw_only=True)
class Provenance(Shown):
    """Which input, model and seed a sampling run had; votes and all certificates have these fields.

    ``input_digest`` is of the input's bytes; ``input_shape`` belongs to it, and the
    two together also tell single from double precision. ``model`` describes the
    model in plain values (`segcertify.sampling.identity`); an empty one is unknown: of
    counts made elsewhere, or of older files. ``preprocessing`` is what was done to the
    input's file before the noise (`segcertify.preprocessing`).

    ``seed_given`` is False if the operating system drew the seed for these votes. It is
    True in files of earlier versions, and by default for counts made elsewhere, with or
    without a seed: nothing shows that input and model were fixed before their noise.
    """

    seed: int | None = None
    input_id: str = ""
    seed_given: bool = True
    input_shape: tuple[int, ...] | None = None
    input_digest: str = ""
    model: Mapping[str, Any] = field(default_factory=dict)
    preprocessing: Preprocessing | None = None

    def __post_init__(self) -> None:
        _require_texts(self, "input_id", "input_digest")
        if self.seed is not None:
            require_integer("seed", self.seed, at_least=0, at_most=LARGEST_SEED)
        if not isinstance(self.seed_given, bool):
            raise InputError(f"seed_given must be True or False, but got {self.seed_given!r:.100}")
        object.__setattr__(self, "model", require_plain("model", self.model))
        if self.input_shape is not None:
            object.__setattr__(self, "input_shape", tuple(require_integer("a side", side) for side in self.input_shape))
        if self.preprocessing is not None:
            object.__setattr__(self, "preprocessing", require_preprocessing(self.preprocessing))

    @property
    def provenance(self) -> dict[str, Any]:
        """These fields, for whatever is made from the same run."""
        return {each.name: getattr(self, each.name) for each in fields(Provenance)}

    @property
    def before(self) -> str:
        """What input and model must precede, if the caller chose the seed."""
        return "the noise was drawn" if self.seed is None else "the seed was chosen"


class Bounded(Protocol):
    """A claim within a radius."""

    @property
    def radius(self) -> float:
        """In the units of the input that the noise went on."""

    @property
    def norm(self) -> str:
        """In what the radius is measured."""

    @property
    def noise(self) -> Noise:
        """What proves it."""

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        """The shape of the input that the noise went on."""

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What became of the file before."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Issued(Provenance):
    """The fields and words that all certificates share: provenance, issue, and the radius in the file's units.

    ``version`` is that of the segcertify that made it, ``date`` the time (UTC), ``command`` the command line, empty in
    Python.
    """

    version: str = __version__
    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    command: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_texts(self, "version", "date", "command")

    @property
    def threat(self: Bounded) -> str:
        """The perturbations that the claim is about, in words."""
        return f"{self.noise.threat(self.norm)} at most {radius_text(self.radius)}"

    @property
    def input_radius(self: Bounded) -> float | None:
        """The radius in the units of the file that the input was read from (an image's own pixels, in [0, 1]).

        Every perturbation of the file within it is one of the input within ``radius``. None where that is not known:
        without ``preprocessing``, or where no bound exists.
        """
        return _input_radius(self)

    @property
    def file_radius(self: Bounded) -> float | None:
        """`input_radius` where it differs from the radius, as records keep it."""
        found = _input_radius(self)
        return None if found == self.radius else found

    @property
    def claimed_radius(self: Bounded) -> float:
        """The radius that the claim states: of the file of an image that was resized, else of the input."""
        return (_input_radius(self) or 0.0) if _in_file(self) else self.radius

    @property
    def perturbed(self: Bounded) -> str:
        """What the claim's radius is a change of, if that is a file's pixels; empty if it is the input."""
        return file_pixels(self.preprocessing or {}) if _in_file(self) else ""

    @property
    def units(self: Bounded) -> str:
        """What the radius is measured in, in words; empty if the input was not pre-processed."""
        if _in_file(self):
            return file_words(self.preprocessing or {}, self.radius, self.norm)
        said, found = in_words(self.preprocessing), _input_radius(self)
        known = found is not None and found != self.radius
        return f"{said} In the units of the file R is {radius_text(found or 0.0)}." if known else said

    def to_header(self, *left_out: str) -> dict[str, Any]:
        """The fields as a file keeps them, without those ``left_out``, which it keeps elsewhere."""
        kept = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in left_out}
        return {name: to_plain(value) if name == "noise" else value for name, value in kept.items()}


def from_header(header: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The fields that `Issued.to_header` gave, as they were, if each has the type that the class ``kind`` says."""
    require_types(header, kind)
    shape = header["input_shape"]
    return {**header, "input_shape": None if shape is None else tuple(shape), "noise": from_plain(header["noise"])}


def _require_texts(found: object, *names: str) -> None:
    for name in names:
        if not isinstance(getattr(found, name), str):
            raise InputError(f"{name} must be a text, but got {getattr(found, name)!r:.100}")


def _input_radius(claim: Bounded) -> float | None:
    return file_radius(claim.radius, claim.norm, claim.preprocessing) if _reaches_the_file(claim) else None


def _in_file(claim: Bounded) -> bool:
    """Whether the claim is about the file of an image that was resized."""
    return is_resized(claim.preprocessing) and _input_radius(claim) is not None


def _reaches_the_file(claim: Bounded) -> bool:
    """Whether the pre-processing is of this input, with noise on whole colours of an image, or on x, y, z alone."""
    shape, said, additive = claim.input_shape or (), claim.preprocessing or {}, claim.noise.additive
    channels, axis = getattr(claim.noise, "channels", None), getattr(claim.noise, "axis", 0)
    if said.get("kind") == "cloud" and additive:
        points = channels == (0, 1, 2) and axis % 2 == 1
        return len(shape) == 2 and (points or (channels is None and shape[1] == 3))
    if said.get("kind") == "image":
        return len(shape) == 3 and [*shape[1:]] == said.get("after") and (channels is None or axis % 3 == 0)
    return True
