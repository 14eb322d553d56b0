"""DataSet: scenes that are read when asked for; images and point clouds derive from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self, cast

from segcertify.data.domain import IMAGE, Domain
from segcertify.data.scene import Scene
from segcertify.errors import InputError, require_integer
from segcertify.figures.palette import Bytes
from segcertify.numerals import counted
from segcertify.preprocessing import Preprocessing


class Item(Protocol):
    """Where a scene comes from: files, or what makes it."""

    @property
    def id(self) -> str:
        """The scene's name."""


@dataclass(frozen=True, eq=False, repr=False)
class DataSet(ABC):
    """Scenes with ground truth, in a fixed order, each read or made when asked for.

    ``name`` is for reports, with split and choice: ``"camvid/train without 0006R0*"``; ``classes`` are the names of
    the classes 0 .. C - 1 and ``colours`` (C, 3), in 0 .. 255, theirs; ``items`` say where each scene comes from.
    """

    domain: ClassVar[Domain] = IMAGE
    """What its scenes are."""
    categories = cast(Mapping[str, tuple[int, ...]], MappingProxyType({}))  # no field, so that some sets can have one
    """The classes that scenes of each category have, in the order of the categories' numbers; none for images."""

    name: str
    classes: tuple[str, ...]
    colours: Bytes
    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        if self.colours.shape != (len(self.classes), 3):
            raise InputError(f"{self.name}: {len(self.classes)} classes, but colours of shape {self.colours.shape}")
        if not self.items:
            raise InputError(f"{self.name} holds no scenes: check the split")
        if len(set(self.ids)) < len(self.items):
            twice = min(name for name, count in Counter(self.ids).items() if count > 1)
            raise InputError(f"{self.name} holds {twice!r} more than once: every scene needs its own name")

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The scenes' names, in order."""
        return tuple(item.id for item in self.items)

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What is done to every scene's file before the noise (`segcertify.preprocessing`); None is nothing."""
        return None

    def __len__(self) -> int:
        return len(self.items)

    @abstractmethod
    def __getitem__(self, index: int) -> Scene:
        """Read one scene; an error names the file that is wrong and what to do."""

    def __iter__(self) -> Iterator[Scene]:
        return (self[index] for index in range(len(self)))

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of a scene's components; sets of image files take it from the headers."""
        return self[index].target.shape

    @abstractmethod
    def check(self) -> None:
        """Check all that is read later; an error names the first bad file."""

    def every(self, k: int) -> Self:
        """Scenes 0, k, 2k, ...: the paper takes every 5th of Cityscapes, 51st of Pascal Context, 28th of ShapeNet."""
        return replace(self, items=self.items[:: require_integer("every", k)])

    def limit(self, m: int) -> Self:
        """The first m scenes, or all if there are fewer."""
        return replace(self, items=self.items[: require_integer("limit", m)])

    def resized(self, short_side: int) -> Self:
        """The same scenes with ``short_side`` pixels on their shorter side."""
        raise InputError(f"short_side={short_side} is for sets of image files, which {self.name} is not: leave it out")

    def only(self, *globs: str) -> Self:
        """The scenes whose id fits at least one of the globs, such as ``"0006R0*"``, in the order they had.

        ``*`` stands for any text (also with ``/`` in it), ``?`` for one character, ``[ab]`` for one of these; upper
        and lower case differ. Every glob must fit a scene.
        """
        return self._chosen("only", globs, fits=True)

    def without(self, *globs: str) -> Self:
        """The scenes whose id fits none of the globs: what `only` leaves out."""
        return self._chosen("without", globs, fits=False)

    def joined(self, *others: DataSet) -> Self:
        """These scenes, then those of the others, which must be made alike, label for label, and have other ids."""
        for other in others:
            theirs = other._making()
            for key, mine in self._making().items():
                if mine != theirs[key]:
                    raise InputError(
                        f"{self.name} and {other.name} cannot be joined, for their {key} differ: "
                        f"{mine} and {theirs[key]}; use them one by one"
                    )
        kind = self.name.partition("/")[0]
        name = "+".join([self.name, *(other.name.removeprefix(f"{kind}/") for other in others)])
        return replace(self, name=name, items=sum((other.items for other in others), self.items))

    def _making(self) -> dict[str, Any]:
        """All that decides how a scene is made from its item."""
        names = [field.name for field in fields(self) if field.name not in ("name", "colours", "items")]
        return {"types": type(self).__name__} | {name: getattr(self, name) for name in names}

    def _chosen(self, choice: str, globs: tuple[str, ...], *, fits: bool) -> Self:
        """The scenes that fit one of the globs, or that fit none; the name says which."""
        if not globs:
            raise InputError(f"{choice} needs at least one glob, such as {self.ids[0]!r}")
        some = ", ".join(self.ids[:: -(-len(self) // 3)])  # at most three, spread over the set
        for glob in globs:
            if not any(fnmatchcase(name, glob) for name in self.ids):
                raise InputError(
                    f"{choice}: {glob!r} fits none of the {len(self)} scenes of {self.name}, "
                    f"whose ids are such as {some}: correct it or leave it out"
                )
        items = tuple(item for item in self.items if any(fnmatchcase(item.id, glob) for glob in globs) == fits)
        name = f"{self.name} {choice} {','.join(globs)}"
        if not items:
            raise InputError(f"{name} leaves none of the {len(self)} scenes, with ids such as {some}: take less away")
        return replace(self, name=name, items=items)

    def _details(self) -> str:
        """What else `repr` says."""
        return ""

    def __repr__(self) -> str:
        kind, counts = type(self).__name__, f"{counted(len(self), 'scene')}, {len(self.classes)} classes"
        return f"{kind}({self.name}: {counts}{self._details()}; first {self.ids[0]!r})"
