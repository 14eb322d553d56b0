"""The pictures of a run's page: thumbnails inside the page, as many as its size allows, and links to larger files."""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from PIL import Image

from segcertify.errors import InputError
from segcertify.records import RunFolder, Setting
from segcertify.storage.plain_values import read_json
from segcertify.storage.reading import is_file, read_bytes

if TYPE_CHECKING:
    from segcertify.report.run import Run

PICTURE_BYTES = 6_000_000
"""Bytes of all thumbnails inside a page, at most, as the text that it holds."""

SMALLEST_SIDE = 112
"""Pixels of a thumbnail's longer side below which a page rather shows fewer thumbnails."""

_FILE_BYTES, _FILE_SIDE = 500_000, 1024  # of a thumbnail's file that is read
_AS_TEXT = 4 / 3  # characters for each byte

Chosen = tuple[Setting, str] | None
"""A setting and the name of a correction; None of the base model."""


@dataclass(frozen=True)
class Shown:
    """Of each scene under one setting its thumbnail, as text, or "", and its links; and what is to be said of them."""

    pictures: list[str]
    links: list[list[tuple[str, str]]] = field(default_factory=list)
    words: str = ""


def gallery(
    folder: Path | None, run: Run, ids: Sequence[str], claims: Sequence[Chosen], *, order: Sequence[int], beside: Path
) -> list[Shown]:
    """The pictures of all scenes under each of the claims, those of the scenes that come first in ``order`` first.

    Links lead from the folder ``beside`` which the page will lie.
    """
    if folder is None:
        return [Shown([""] * len(ids), [[] for _ in ids]) for _ in claims]
    stored = RunFolder(folder, list(dict.fromkeys(record.id for record in run.records)))
    files = [[stored.thumbnail(each, *(claim or ())) for each in ids] for claim in claims]
    sizes = [[_size(file) for file in row] for row in files]
    texts, full = _texts(files, sizes, order)
    found = []
    for claim, row, size in zip(claims, texts, sizes, strict=True):
        links = [_links(stored, each, claim, beside) for each in ids]
        found.append(Shown(row, links, _words(sum(map(bool, row)), len(ids), kept=any(size), full=full)))
    return found


def legend_colours(folder: Path, classes: int) -> list[str]:
    """The colours of the classes in a run's thumbnails; none if the folder does not tell them all."""
    with suppress(InputError):
        found = read_json(RunFolder(folder).colours, missing="no colours", cure="").get("colours")
        if not isinstance(found, list) or len(found) != classes:
            return []
        if all(isinstance(each, str) and re.fullmatch("#[0-9a-f]{6}", each) for each in found):
            return [*found]
    return []


def _texts(
    files: Sequence[Sequence[Path]], sizes: Sequence[Sequence[int]], order: Sequence[int]
) -> tuple[list[list[str]], bool]:
    """The thumbnails as texts, smaller if all would be too many, and whether even so only the first ones fit."""
    total = sum(map(sum, sizes))
    scale = min(1.0, (PICTURE_BYTES / _AS_TEXT / total) ** 0.5) if total else 1.0
    texts, room = [[""] * len(row) for row in files], float(PICTURE_BYTES)
    for scene, claim in ((scene, claim) for scene in order for claim in range(len(files))):
        if not sizes[claim][scene]:
            continue
        text = _text(files[claim][scene], scale)
        if len(text) > room:
            return texts, True
        texts[claim][scene], room = text, room - len(text)
    return texts, False


def _text(file: Path, scale: float) -> str:
    """A thumbnail's bytes as text; "" if it cannot be read or is no small JPEG."""
    with suppress(InputError, OSError, ValueError, Image.DecompressionBombError):
        content = read_bytes(file, most=_FILE_BYTES)
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
            longest = max(image.size)
            if longest > _FILE_SIDE:
                return ""
            if scale < 1:
                side = max(SMALLEST_SIDE, round(longest * scale * 0.9))  # small pictures take more bytes a pixel
                image.draft("RGB", (side, side))
                image.thumbnail((side, side), Image.Resampling.BOX)
                image.convert("RGB").save(smaller := io.BytesIO(), format="JPEG", quality=72, optimize=True)
                content = smaller.getvalue()
        return base64.b64encode(content).decode()
    return ""


def _size(file: Path) -> int:
    """The bytes of a file that is there; 0 if none is."""
    with suppress(InputError, OSError):
        if is_file(file):
            return min(file.stat().st_size, _FILE_BYTES)
    return 0


def _links(stored: RunFolder, scene: str, claim: Chosen, beside: Path) -> list[tuple[str, str]]:
    """Names and addresses of a certificate's page and picture, where they are kept."""
    if claim is None:
        return []
    stem = stored.pictures(scene, *claim)
    kinds = {"its page": ".html", "its picture": ".png"}
    files = {name: Path(f"{stem}{suffix}") for name, suffix in kinds.items()}
    return [(name, address) for name, file in files.items() if _size(file) for address in _address(file, beside)]


def _address(file: Path, beside: Path) -> Iterator[str]:
    """The relative address of a file; none where there is no way from one to the other."""
    with suppress(ValueError):  # on another drive
        yield quote(os.fsencode(os.path.relpath(file, beside).replace(os.sep, "/")))


def _words(shown: int, scenes: int, *, kept: bool, full: bool) -> str:
    """How many scenes have a picture on the page, where not all have."""
    if shown == scenes:
        return ""
    if not kept:
        return (
            "No thumbnails: this run kept none. An evaluation by this version keeps them; of an older run there are "
            "numbers alone."
        )
    few = "those that come first in any order, since more would make this page too large"
    return f"Pictures of {shown:,} of {scenes:,} scenes: {few if full else 'of the others none can be read'}."
