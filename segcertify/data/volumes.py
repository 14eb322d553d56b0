"""Volumes in NIfTI files, through nibabel (the extra ``nifti``): voxels as floats, labels as whole numbers."""

from __future__ import annotations

import gzip
import importlib
import io
import math
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from segcertify.arrays import Array
from segcertify.data.files import read_npy
from segcertify.data.label_codes import Target
from segcertify.errors import InputError
from segcertify.preprocessing import Preprocessing, of_volume
from segcertify.storage import limits
from segcertify.storage.reading import read_bytes

SUFFIXES = (".nii", ".nii.gz")
"""Files that always hold volumes; a ``.npy`` file may."""

_HEADERS = {348: "Nifti1Image", 540: "Nifti2Image"}
"""Which class of nibabel reads a file, by the size of its header."""


class Volume(NamedTuple):
    """Voxels (channels, *axes) as the file means them, in the file's order of axes."""

    x: npt.NDArray[np.float32]
    preprocessing: Preprocessing


def is_nifti(path: Path) -> bool:
    """Whether a file's name says that it is NIfTI."""
    return path.name.lower().endswith(SUFFIXES)


def read_volume(path: Path) -> Volume:
    """The volume in a NIfTI file, with its slope and intercept applied.

    Three axes become (1, X, Y, Z); a fourth, or a fifth after one of length 1, is of channels and comes first.
    """
    values, spacing = _opened(path)
    if not np.issubdtype(values.dtype, np.number) or np.iscomplexobj(values):
        raise InputError(f"{path} must hold real numbers, but holds {values.dtype}: save it as floats")
    if values.ndim == 5 and values.shape[3] == 1:
        values = values[:, :, :, 0]
    if values.ndim not in (3, 4):
        raise InputError(
            f"{path} has the shape {values.shape}, but a volume is (X, Y, Z) or (X, Y, Z, channels): save the part "
            "that the model takes, or a .npy array of it"
        )
    x = values[None] if values.ndim == 3 else np.moveaxis(values, -1, 0)
    return Volume(np.ascontiguousarray(x, np.float32), of_volume(spacing))


def read_volume_labels(path: Path, *, shape: tuple[int, ...]) -> Target:
    """The class numbers of a volume's voxels, in a NIfTI or ``.npy`` file of the volume's own shape."""
    values = _opened(path)[0] if is_nifti(path) else read_npy(path)
    values = values[..., 0] if values.shape == (*shape, 1) else values
    if values.shape != shape:
        raise InputError(
            f"{path} has the shape {values.shape}, but its volume has {shape}: labels need the volume's own voxels"
        )
    if np.iscomplexobj(values) or not (np.abs(values) < 2**31).all() or not (values == np.rint(values)).all():
        raise InputError(f"{path} must hold whole numbers, a class for each voxel: save class numbers, not scores")
    return values.astype(np.int32)


def _opened(path: Path) -> tuple[Array, list[float] | None]:
    """The file's values, if its header promises no more than it holds, and the spacing of its first three axes."""
    content = _content(path)
    try:
        nibabel = importlib.import_module("nibabel")
    except ImportError:
        raise InputError(
            f"{path} is NIfTI, which needs nibabel: pip install 'segcertify[nifti]', or save the voxels as a .npy "
            "array (channels, X, Y, Z) of floats"
        ) from None
    size = int.from_bytes(content[:4], "little"), int.from_bytes(content[:4], "big")
    kind = next((_HEADERS[each] for each in size if each in _HEADERS), None)
    if kind is None:
        raise InputError(f"{path} is no NIfTI file: it does not begin as one")
    try:
        image = getattr(nibabel, kind).from_bytes(content)
        shape, dtype = image.shape, image.get_data_dtype()
        promised = math.prod(int(side) for side in shape) * dtype.itemsize
        if min(shape, default=0) < 1 or promised + int(image.dataobj.offset) > len(content):
            held = f"{len(content):,} bytes"
            raise InputError(f"{path} promises voxels of the shape {shape}, but holds {held}: is it cut?")
        spacing = [float(side) for side in image.header.get_zooms()[:3]]
        known = len(spacing) == 3 and all(0 < side < math.inf for side in spacing)
        return np.asarray(image.dataobj), spacing if known else None
    except InputError:
        raise
    except Exception as error:  # nibabel raises whatever damaged numbers lead to
        raise InputError(f"{path} is not a readable NIfTI file ({error!s:.200})") from None


def _content(path: Path) -> bytes:
    """The bytes of the file, of at most `limits.ARRAY_BYTES` also once they are unpacked."""
    packed = read_bytes(path, most=limits.ARRAY_BYTES)
    if not packed.startswith(b"\x1f\x8b"):
        return packed
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(limits.ARRAY_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be unpacked ({error!s:.200}): is it cut?") from None
    if len(content) > limits.ARRAY_BYTES:
        raise InputError(f"{path} unpacks to more than {limits.ARRAY_BYTES:,} bytes, the most that is read: crop it")
    return content
