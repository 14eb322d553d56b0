"""One file at a time: images as floats, label images as whole numbers, and which label belongs to which image."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from segcertify.arrays import Array
from segcertify.data.files import find_files, read_npy
from segcertify.errors import InputError

Size = tuple[int, int]
"""Height and width."""

_GREY_STEP = {"L;2": 85, "L;4": 17}
"""Pillow stretches greys of 2 and 4 bits to 0 .. 255; a label must not be stretched."""


TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What EXIF's orientations ask for."""

SIDEWAYS = tuple(TURNS[number] for number in (5, 6, 7, 8))


class Pair(NamedTuple):
    """An image, its label image, and the name they share."""

    id: str
    image: Path
    label: Path


def read_input(path: str | os.PathLike[str], *, upright: bool = True) -> Array:
    """An image as RGB (3, height, width) in [0, 1], or the float array in a ``.npy`` file as it is."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no file at {path}")
    return _read_floats(path) if path.suffix == ".npy" else read_image(path, upright=upright)


def read_image(
    path: str | os.PathLike[str], *, resize: Size | None = None, upright: bool = False
) -> npt.NDArray[np.float32]:
    """An image as RGB (3, height, width) in [0, 1], resized bilinearly by Pillow if asked.

    ``upright`` turns a photograph as its camera says (EXIF); label images are of the pixels as they are stored.
    """
    with _opened(Path(path)) as image:
        if image.mode.startswith(("I", "F")):
            raise InputError(
                f"{path} has more than 8 bits a channel (mode {image.mode!r}): save it as an 8-bit image, "
                "or as a .npy array of floats in [0, 1]"
            )
        turn = _turn(image) if upright else None
        rgb = (image if turn is None else image.transpose(turn)).convert("RGB")
        if resize is not None:
            rgb = rgb.resize(resize[::-1], Image.Resampling.BILINEAR)
        pixels = np.asarray(rgb, np.float32)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1) / np.float32(255))


def read_label(path: str | os.PathLike[str]) -> npt.NDArray[np.int32]:
    """A label image (height, width) as the numbers in the file: palette indices or greys, never colours."""
    with _opened(Path(path)) as image:
        if image.format == "JPEG":
            raise InputError(f"{path} is a JPEG, which changes label values: save labels as PNG")
        if image.mode not in ("1", "L", "P", "I") and not image.mode.startswith("I;16"):
            raise InputError(
                f"{path} must hold one class number per pixel (a greyscale or palette PNG), but has mode "
                f"{image.mode!r}: turn its colours into class numbers and save it again"
            )
        raw_mode = image.tile[0].args if isinstance(image, ImageFile.ImageFile) and image.tile else None
        step = _GREY_STEP.get(raw_mode, 1) if isinstance(raw_mode, str) else 1
        return np.asarray(image).astype(np.int32) // step


def image_size(path: str | os.PathLike[str], *, upright: bool = False) -> Size:
    """Height and width from an image's header; its pixels are not read."""
    with _opened(Path(path)) as image:
        sideways = upright and _turn(image) in SIDEWAYS
        return (image.width, image.height) if sideways else (image.height, image.width)


def _turn(image: Image.Image) -> Image.Transpose | None:
    """What brings a photograph upright, as its camera says (EXIF)."""
    return TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))


def pair(
    images: Path,
    labels: Path,
    *,
    image_suffix: str | Sequence[str],
    label_suffix: str,
    ids: Sequence[str] | None = None,
) -> tuple[Pair, ...]:
    """Every image with its label: ``images/ID + image_suffix`` and ``labels/ID + label_suffix``, sorted by ID.

    Subfolders are part of the ID; hidden files are passed over. Without ``ids``
    each image must have a label and each label an image. With ``ids`` only those
    are taken, in their order, and other files may lie beside them. Pixels are not read.
    """
    suffixes = (image_suffix,) if isinstance(image_suffix, str) else tuple(image_suffix)
    shared = images.resolve() == labels.resolve()
    found_images = find_files(images, suffixes, others=(label_suffix,) if shared else ())
    found_labels = find_files(labels, (label_suffix,), others=suffixes if shared else ())
    expected_image = f"ending in {' or '.join(suffixes)}, in {images}"
    if not found_images and ids is None:
        beside = next((path.name for path in sorted(images.iterdir()) if not path.name.startswith(".")), None)
        hint = f"it holds {beside!r}" if beside else "it is empty"
        raise InputError(f"no image {expected_image} ({hint}): check the path, the split and the suffix")
    wanted = sorted(found_images) if ids is None else list(ids)
    _require_all(
        wanted, found_images, lambda name: f"no image {name!r}, {expected_image}: add it or take it off the list"
    )
    _require_all(
        wanted,
        found_labels,
        lambda name: (
            f"{found_images[name]} has no label: expected {labels / (name + label_suffix)}; add it or remove the image"
        ),
    )
    if ids is None:
        _require_all(
            sorted(found_labels),
            found_images,
            lambda name: f"{found_labels[name]} has no image {expected_image}: add it or remove the label",
        )
    return tuple(Pair(name, found_images[name], found_labels[name]) for name in wanted)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """An image file, opened; whatever Pillow says of a bad one becomes an InputError that names it."""
    if not path.is_file():
        raise InputError(f"no file at {path}")
    try:
        with Image.open(path) as image:
            yield image
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(
            f"{path} is not an image that Pillow can read (arrays are .npy files, clouds .txt or .ply)"
        ) from None
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read ({error}): is it truncated?") from None


def _require_all(wanted: Sequence[str], found: dict[str, Path], message: Callable[[str], str]) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        more = f" ({len(missing) - 1} more like it)" if len(missing) > 1 else ""
        raise InputError(f"{message(missing[0])}{more}")


def _read_floats(path: Path) -> Array:
    array = read_npy(path)
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(f"{path} must hold one array of floats, but holds {array.dtype}")
    return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64)  # of this machine's byte order
