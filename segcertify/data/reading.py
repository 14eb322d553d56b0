"""One input from a file: an image, a point cloud, a volume or an array, with its ground truth and its domain."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from segcertify.arrays import Array, IntArray
from segcertify.data.clouds.cloudset import read_cloud
from segcertify.data.domain import ARRAY, CLOUD, IMAGE, VOLUME, Domain, domain_of
from segcertify.data.files import read_npy
from segcertify.data.images.reading import image_size, lies_upright, read_image, read_target
from segcertify.data.images.resize import Resize
from segcertify.data.label_codes import IGNORE, Target, decode
from segcertify.data.volumes import SUFFIXES as VOLUME_SUFFIXES
from segcertify.data.volumes import is_nifti, read_volume, read_volume_labels
from segcertify.errors import InputError
from segcertify.metrics.shapenet import CATEGORIES
from segcertify.preprocessing import Preprocessing, of_image
from segcertify.storage import limits
from segcertify.storage.reading import readable

CLOUD_SUFFIXES = (".txt", ".xyz", ".csv", ".ply", ".pcd")
"""Files that always hold clouds; a ``.npy`` file may."""
ARRAY_SUFFIXES = (".npy", *VOLUME_SUFFIXES)
"""Files that hold arrays or volumes."""
LARGEST_LABEL = np.iinfo(np.int16).max - 1
"""The largest number of a class, where the classes are not known."""


@dataclass(frozen=True, eq=False)
class Input:
    """An input ``x`` (floats), and what is known of it.

    ``target`` is the ground truth of the components, IGNORE where it says nothing,
    or None if there is none; ``resize`` says how an image was resized, ``preprocessing`` all that was done to the
    file's numbers (`segcertify.preprocessing`).
    """

    x: Array
    domain: Domain
    target: IntArray | None = None
    resize: Resize | None = None
    preprocessing: Preprocessing | None = None


def read_input(
    path: str | os.PathLike[str], *, cloud: bool = False, normals: bool | None = None, category: str = "",
    classes: int | None = None, label: str | os.PathLike[str] | None = None, ignore: int | None = None,
    short_side: int | None = None,
) -> Input:  # fmt: skip
    """Read one input.

    An image becomes RGB (3, height, width) in [0, 1], with ``short_side`` pixels on its
    shorter side if given. A cloud, in a file of text (``.txt``, ``.xyz``, ``.csv``), ``.ply`` or
    ``.pcd`` (with ``cloud`` also in a ``.npy`` file), becomes centred and of radius 1, with its ``normals`` or as its
    file has them (`read_cloud`). A volume in a NIfTI file (``.nii``, ``.nii.gz``) becomes (channels, X, Y, Z)
    (`segcertify.data.volumes`). The floats of any other ``.npy`` file stay as they are.

    Ground truth is a number below ``classes``, or a part of ``category`` (of ShapeNet), or ``ignore``, which stands
    for none. Of an image it is a PNG of class numbers, ``label``. A photograph is turned upright as its camera says
    (EXIF), but with a label that fits the pixels as they are stored it stays so. Of a volume ground truth is class
    numbers too, in NIfTI or ``.npy``. Of a cloud it is in the file, and read only if ``ignore`` is given.
    """
    path = readable(path, most=limits.IMAGE_BYTES)
    form = path.suffix.lower()
    is_cloud = form in CLOUD_SUFFIXES or (form == ".npy" and cloud)
    is_image = not (is_cloud or form == ".npy" or is_nifti(path))
    if short_side is not None and not is_image:
        kind = "a cloud" if is_cloud else "a volume" if is_nifti(path) else "an array"
        raise InputError(f"only images are resized, but {path} holds {kind}: leave short_side out")
    if is_cloud and label is not None:
        where = "its property label" if form == ".ply" else "its last column"
        raise InputError(f"label is for images and volumes, but {path} is a cloud: its labels are {where}")
    codes = {value: value for value in (CATEGORIES[category] if category else range(classes or LARGEST_LABEL + 1))}
    codes |= {} if ignore is None else {ignore: IGNORE}
    if is_cloud:
        found = read_cloud(path, None if ignore is None else codes, category=category, normals=normals)
        return Input(found.x, CLOUD, found.target, preprocessing=found.preprocessing)
    if not is_image:
        return _array(path, label=None if label is None else Path(label), codes=codes)
    upright = label is None or lies_upright(Path(label), path)
    size = image_size(path, upright=upright)
    resize = None if short_side is None else Resize.to_short_side(size, short_side)
    x = read_image(path, resize=resize, upright=upright)
    preprocessing = of_image(size) if resize is None else of_image(size, resize.after, resize.method)
    target = None if label is None else read_target(Path(label), codes, image=path, size=size)
    target = target if resize is None or target is None else resize.labels(target)
    return Input(x, IMAGE, target, resize, preprocessing)


def input_name(path: Path) -> str:
    """The name of an input: its file's without the suffix, of which ``.nii.gz`` is one."""
    return path.name[: -len(".nii.gz")] if path.name.lower().endswith(".nii.gz") else path.stem


def _array(path: Path, *, label: Path | None, codes: Mapping[int, int]) -> Input:
    """The floats of a NIfTI or a ``.npy`` file, which may be a volume or an image."""
    preprocessing = None
    if is_nifti(path):
        x, preprocessing = read_volume(path)
    else:
        x = read_npy(path)
        if not np.issubdtype(x.dtype, np.floating):
            raise InputError(
                f"{path} must hold one array of floats, but holds {x.dtype}: save array.astype(numpy.float32), scaled "
                "as the model takes it"
            )
        x = x.astype(np.float32 if x.dtype.itemsize <= 4 else np.float64)  # of this machine's byte order
    known = domain_of(x.shape)
    domain = known if known is VOLUME or (known is IMAGE and len(x) == 3) else ARRAY
    return Input(x, domain, None if label is None else _labels(label, codes, path, x), preprocessing=preprocessing)


def _labels(label: Path, codes: Mapping[int, int], path: Path, x: Array) -> Target:
    """The classes of an array's components, after whose channels they are."""
    shape = x.shape[1:]
    if label.suffix.lower() != ".npy" and not is_nifti(label):
        return read_target(label, codes, image=path, size=shape)
    raw = read_volume_labels(label, shape=shape)

    def where(index: int) -> str:
        return f"{label}, component {tuple(int(place) for place in np.unravel_index(index, shape))},"

    return decode(raw, codes, where=where)
