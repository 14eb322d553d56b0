"""One input from a file: an image as floats in [0, 1], or an array as it is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from segcertify.arrays import Array
from segcertify.errors import InputError


def read_input(path: str | os.PathLike[str]) -> Array:
    """An image as RGB (3, height, width) in [0, 1], or the float array in a ``.npy`` file as it is."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no file at {path}")
    return _read_array(path) if path.suffix == ".npy" else _read_image(path)


def _read_image(path: Path) -> npt.NDArray[np.float32]:
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"), np.float32)
    except UnidentifiedImageError:
        raise InputError(f"{path} is not an image that Pillow can read, nor a .npy file") from None
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read ({error}): is it truncated?") from None
    return np.ascontiguousarray(pixels.transpose(2, 0, 1) / np.float32(255))


def _read_array(path: Path) -> Array:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} is not a readable .npy file of numbers ({error})") from None
    if not isinstance(array, np.ndarray) or not np.issubdtype(array.dtype, np.floating):
        raise InputError(
            f"{path} must hold one array of floats, but holds {getattr(array, 'dtype', type(array).__name__)}"
        )
    return array
