"""Scene: one image with its ground truth. DataSet: scenes that are read when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt
from PIL import Image

from segcertify.arrays import BoolArray
from segcertify.data.images import Pair, Size, image_size, read_image, read_label
from segcertify.errors import InputError, require_integer

IGNORE = -1
"""What a value in a label file stands for where the ground truth says nothing."""

Target = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Scene:
    """An image and its ground truth.

    ``x`` (3, height, width) holds floats in [0, 1]; ``target`` (height, width)
    a class for each pixel; ``valid`` is False where the ground truth says
    "ignore" (``target`` is 0 there, and metrics leave the pixel out).
    """

    id: str
    x: npt.NDArray[np.float32]
    target: Target
    valid: BoolArray

    def __post_init__(self) -> None:
        if self.x.ndim != 3 or not self.x.shape[1:] == self.target.shape == self.valid.shape:
            raise InputError(
                f"scene {self.id!r}: x must be (3, height, width), target and valid (height, width), "
                f"but got {self.x.shape}, {self.target.shape} and {self.valid.shape}"
            )

    def __repr__(self) -> str:
        height, width = self.target.shape
        return f"Scene({self.id!r}: {height} x {width} pixels, {self.valid.mean():.1%} with ground truth)"


@dataclass(frozen=True, eq=False)
class DataSet:
    """Images with ground truth, in a fixed order, each read from its files when asked for.

    That the files are there was checked when this was made; what is in them is
    checked when a scene is read, or for all of them by `check`.

    Parameters
    ----------
    name : str
        What it is called in reports, with its split and choice: ``"camvid/train without 0006R0*"``.
    classes : tuple of str
        Names of the classes 0 .. C - 1.
    colours : array (C, 3)
        A colour per class, 0 .. 255.
    pairs : tuple of Pair
        Image and label files.
    codes : mapping
        The class, or IGNORE, for each value that a label file may hold. Any other value is an error.
    resize : (height, width), optional
        Images are resized bilinearly, labels to the nearest pixel (both by Pillow).
    """

    name: str
    classes: tuple[str, ...]
    colours: Bytes
    pairs: tuple[Pair, ...]
    codes: Mapping[int, int]
    resize: Size | None = None

    def __post_init__(self) -> None:
        if self.colours.shape != (len(self.classes), 3):
            raise InputError(f"{self.name}: {len(self.classes)} classes, but colours of shape {self.colours.shape}")
        if not self.pairs:
            raise InputError(f"{self.name} holds no images: check the split")
        if len(set(self.ids)) < len(self.pairs):
            twice = sorted({name for name in self.ids if self.ids.count(name) > 1})[0]
            raise InputError(f"{self.name} holds {twice!r} more than once: every image needs its own name")
        wrong = [code for code in self.codes.values() if not IGNORE <= code < len(self.classes)]
        if wrong or min(self.codes, default=-1) < 0:
            raise InputError(
                f"{self.name}: label values must map to 0 .. {len(self.classes) - 1}, but got {self.codes}"
            )

    @property
    def ids(self) -> tuple[str, ...]:
        """The scenes' names, in order."""
        return tuple(pair.id for pair in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Scene:
        """Read one scene; an error names the file that is wrong and what to do."""
        pair = self.pairs[index]
        target = self._target(pair)
        if self.resize is not None:
            target = np.asarray(Image.fromarray(target).resize(self.resize[::-1], Image.Resampling.NEAREST))
        valid = target != IGNORE
        return Scene(pair.id, read_image(pair.image, resize=self.resize), np.where(valid, target, 0), valid)

    def __iter__(self) -> Iterator[Scene]:
        return (self[index] for index in range(len(self)))

    def every(self, k: int) -> DataSet:
        """Scenes 0, k, 2k, ...: the paper takes every 5th of Cityscapes, every 51st of Pascal Context."""
        return replace(self, pairs=self.pairs[:: require_integer("every", k)])

    def limit(self, m: int) -> DataSet:
        """The first m scenes, or all if there are fewer."""
        return replace(self, pairs=self.pairs[: require_integer("limit", m)])

    def only(self, *globs: str) -> DataSet:
        """The scenes whose id fits at least one of the globs, such as ``"0006R0*"``, in the order they had.

        ``*`` stands for any text (also with ``/`` in it), ``?`` for one
        character, ``[ab]`` for one of these; upper and lower case differ. Every
        glob must fit a scene.
        """
        return self._chosen("only", globs, fits=True)

    def without(self, *globs: str) -> DataSet:
        """The scenes whose id fits none of the globs: what `only` leaves out."""
        return self._chosen("without", globs, fits=False)

    def joined(self, *others: DataSet) -> DataSet:
        """These scenes, then those of the others, which must mean the same by a label and have other ids."""
        for other in others:
            for what in ("classes", "codes", "resize"):
                mine, theirs = getattr(self, what), getattr(other, what)
                if mine != theirs:
                    raise InputError(
                        f"{self.name} and {other.name} cannot be joined, for their {what} differ: "
                        f"{mine} and {theirs}; use them one by one"
                    )
        kind = self.name.partition("/")[0]
        return replace(
            self,
            name="+".join([self.name, *(other.name.removeprefix(f"{kind}/") for other in others)]),
            pairs=sum((other.pairs for other in others), self.pairs),
        )

    def check(self) -> None:
        """Read every label and every image's header; an error names the first bad file.

        Images are not decoded: one that is cut off is found when its scene is read.
        """
        for pair in self.pairs:
            self._target(pair)

    def _chosen(self, choice: str, globs: tuple[str, ...], *, fits: bool) -> DataSet:
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
        pairs = tuple(pair for pair in self.pairs if any(fnmatchcase(pair.id, glob) for glob in globs) == fits)
        name = f"{self.name} {choice} {','.join(globs)}"
        if not pairs:
            raise InputError(
                f"{name} leaves none of the {len(self)} scenes, whose ids are such as {some}: take less away"
            )
        return replace(self, name=name, pairs=pairs)

    def _target(self, pair: Pair) -> Target:
        """The classes in a label file, at its own size, IGNORE where it says nothing."""
        raw = read_label(pair.label)
        size = image_size(pair.image)
        if raw.shape != size:
            raise InputError(
                f"{pair.label} is {raw.shape[0]} x {raw.shape[1]} pixels, but {pair.image} is {size[0]} x {size[1]}: "
                "a label needs its image's size"
            )
        return _classes(raw, self.codes, where=f"{pair.label}")

    def __repr__(self) -> str:
        size = f", resized to {self.resize[0]} x {self.resize[1]}" if self.resize else ""
        return f"DataSet({self.name}: {len(self)} scenes, {len(self.classes)} classes{size}; first {self.ids[0]!r})"


def voc_colours(classes: int) -> Bytes:
    """The PASCAL VOC development kit's colours (classes, 3): the bits of the number, spread over three channels.

    >>> voc_colours(4).tolist()
    [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0]]
    """
    number = np.arange(classes)[:, None] >> np.arange(3)  # bit 0, 3, 6 make red; 1, 4, 7 green; 2, 5, 8 blue
    return sum(((number >> 3 * bit & 1) << 7 - bit for bit in range(3)), np.zeros((classes, 3), int)).astype(np.uint8)


def _classes(raw: npt.NDArray[np.int32], codes: Mapping[int, int], *, where: str) -> Target:
    """Each value's class, by one look into a table."""
    unknown = IGNORE - 1
    table = np.full(max(codes) + 2, unknown, np.int32)  # the last entry is for everything larger,
    for value, code in codes.items():
        table[value] = code
    target = table[np.clip(raw, -1, len(table) - 1)]  # as is everything negative
    if (target == unknown).any():
        bad = sorted(int(value) for value in np.unique(raw) if value not in codes)
        raise InputError(
            f"{where} holds the value {bad[0]}, which is neither a class nor ignored (allowed: {_ranges(codes)}): "
            "correct the file, or say what the value means"
        )
    return target


def _ranges(values: Mapping[int, int]) -> str:
    """Numbers in words: 0 .. 10, 255."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(a) if a == b else f"{a} .. {b}" for a, b in runs)
