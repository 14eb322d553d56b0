"""Image files: images as floats, label images as whole numbers, and which label belongs to which image."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError
from PIL.Image import Transpose

from segcertify.data.files import find_files, require_folder
from segcertify.data.images.resize import Resize, Size
from segcertify.data.label_codes import Target, decode
from segcertify.errors import InputError
from segcertify.storage import limits
from segcertify.storage.reading import readable

_GREY_STEP = {"L;2": 85, "L;4": 17}
"""Pillow stretches greys of 2 and 4 bits to 0 .. 255; a label must not be stretched."""

_UPRIGHT = {
    2: Transpose.FLIP_LEFT_RIGHT, 3: Transpose.ROTATE_180, 4: Transpose.FLIP_TOP_BOTTOM, 5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270, 7: Transpose.TRANSVERSE, 8: Transpose.ROTATE_90,
}  # fmt: skip
"""What brings a photograph of each EXIF orientation upright; from 5 on its sides change places."""


FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""The forms of image files that are read, by Pillow's names: others can start programs, or have decoders that hang."""


class ImageFiles(NamedTuple):
    """An image, its label image, and the name they share."""

    id: str
    image: Path
    label: Path


def read_image(path: Path, *, resize: Resize | None = None, upright: bool = False) -> npt.NDArray[np.float32]:
    """An image as RGB (3, height, width) in [0, 1], resized if ``resize`` says how.

    ``upright`` turns a photograph as its camera says (EXIF).
    """
    with _opened(path) as image:
        if image.mode.startswith(("I", "F")):
            raise InputError(
                f"{path} has more than 8 bits a channel (mode {image.mode!r}): save it as an 8-bit image, "
                "or as a .npy array of floats in [0, 1]"
            )
        change = _UPRIGHT.get(_orientation(image)) if upright else None
        pixels = np.asarray((image if change is None else image.transpose(change)).convert("RGB"))
    if resize is not None and resize.before != resize.after:
        return resize.image(pixels)
    x = np.empty((3, *pixels.shape[:2]), np.float32)
    for channel, colours in enumerate(x):  # one at a time takes the least memory
        np.divide(pixels[..., channel], np.float32(255), out=colours, dtype=np.float32)
    return x


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


def read_target(path: Path, codes: Mapping[int, int], *, image: Path, size: tuple[int, ...]) -> Target:
    """The classes in a label image, IGNORE where it says nothing. It must have the size of its image."""
    raw = read_label(path)
    require_size(path, raw.shape, image=image, size=size)
    return decode(raw, codes, where=lambda pixel: f"{path}, pixel {divmod(pixel, size[1])},")


def require_size(path: Path, found: tuple[int, ...], *, image: Path, size: tuple[int, ...]) -> None:
    """Refuse a label image whose size is not its image's."""
    if found != size:
        is_now, expected = (" x ".join(map(str, sides)) for sides in (found, size))
        raise InputError(f"{path} is {is_now} pixels, but {image} is {expected}: a label needs its image's size")


def image_size(path: Path, *, upright: bool = False) -> Size:
    """Height and width from an image's header; its pixels are not read."""
    with _opened(path) as image:
        sideways = upright and _orientation(image) in range(5, 9)
        return (image.width, image.height) if sideways else (image.height, image.width)


def lies_upright(label: Path, image: Path) -> bool:
    """Whether a label image fits its photograph upright, as its camera says (EXIF), and not as it is stored."""
    size = image_size(label)
    return size != image_size(image) and size == image_size(image, upright=True)


def _orientation(image: Image.Image) -> Any:
    return image.getexif().get(ExifTags.Base.Orientation)


def pair_files(
    images: Path, labels: Path, *, image_suffix: str | Sequence[str] = (".jpg", ".png"), label_suffix: str = ".png",
    ids: Sequence[str] | None = None,
) -> tuple[ImageFiles, ...]:  # fmt: skip
    """Every image with its label: ``images/ID + image_suffix`` and ``labels/ID + label_suffix``, sorted by ID.

    Subfolders are part of the ID; hidden files are passed over. Without ``ids``
    each image must have a label and each label an image. With ``ids`` only those
    are taken, in their order, and other files may lie beside them. Pixels are not read.
    """
    suffixes = (image_suffix,) if isinstance(image_suffix, str) else tuple(image_suffix)
    shared = require_folder(images).samefile(require_folder(labels))
    found_images = find_files(images, suffixes, others=(label_suffix,) if shared else ())
    found_labels = find_files(labels, (label_suffix,), others=suffixes if shared else ())
    expected = f"ending in {' or '.join(suffixes)}, in {images}"
    if not found_images and ids is None:
        beside = next((path.name for path in sorted(images.iterdir()) if not path.name.startswith(".")), None)
        hint = f"it holds {beside!r}" if beside else "it is empty"
        raise InputError(f"no image {expected} ({hint}): check the path, the split and the suffix")
    wanted, unlisted = (sorted(found_images), sorted(found_labels)) if ids is None else (list(ids), [])
    for names, found, message in [
        (wanted, found_images, "no image {name!r}, {expected}: add it or take it off the list"),
        (wanted, found_labels, "{image} has no label: expected {label}; add it or remove the image"),
        (unlisted, found_images, "{label} has no image {expected}: add it or remove the label"),
    ]:
        if missing := [name for name in names if name not in found]:
            name, more = missing[0], f" ({len(missing) - 1} more like it)" if len(missing) > 1 else ""
            label = found_labels.get(name, labels / (name + label_suffix))
            text = message.format(name=name, expected=expected, image=found_images.get(name), label=label)
            raise InputError(f"{text}{more}")
    return tuple(ImageFiles(name, found_images[name], found_labels[name]) for name in wanted)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """An open image file. Whatever Pillow says of a bad one becomes an InputError that names it."""
    readable(path, most=limits.IMAGE_BYTES)
    try:
        with Image.open(path, formats=FORMATS) as image:
            _require_moderate(path, image)
            yield image
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(
            f"{path} is not an image that is read ({', '.join(FORMATS)}; arrays are .npy, volumes .nii, "
            "clouds .txt, .xyz, .csv, .ply or .pcd)"
        ) from None
    except Exception as error:  # Pillow's decoders raise whatever damaged numbers lead to
        raise InputError(f"{path} cannot be read ({error!s:.200}): is it truncated?") from None


def _require_moderate(path: Path, image: Image.Image) -> None:
    """Refuse an image that would take too much memory or time, by its header."""
    pixels, size = image.width * image.height, f"{image.height:,} x {image.width:,} pixels"
    if pixels > limits.PIXELS or max(image.size) > limits.SIDE:
        most = f"at most {limits.PIXELS:,} pixels, and {limits.SIDE:,} on a side"
        raise InputError(f"{path} has {size}, but {most} are read: crop it, or make it smaller")
    if image.format == "PNG" and pixels > limits.PIXELS_A_BYTE * (held := path.stat().st_size):
        raise InputError(f"{path} cannot hold the {size} that it names in {held:,} bytes: is it truncated?")
    if image.format in ("JPEG", "MPO") and (scans := path.read_bytes().count(b"\xff\xda")) > limits.SCANS:
        raise InputError(f"{path} has {scans} scans, but at most {limits.SCANS} are read: save it again")
