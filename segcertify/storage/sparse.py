"""Counts of many classes in a file: most are zero, so a bit says which are not, and only those are stored."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from segcertify.arrays import Array
from segcertify.errors import InputError
from segcertify.storage.archive import smallest_integers

_BITS, _VALUES = "{}_above_zero", "{}_values"


def packed(name: str, planes: Iterable[Array]) -> dict[str, Array]:
    """The arrays of a file that hold ``planes``, integers of one shape: a bit for each, and those above zero.

    >>> {key: array.tolist() for key, array in packed("counts", [np.array([0, 3]), np.array([0, 0])]).items()}
    {'counts_above_zero': [[64], [0]], 'counts_values': [3]}
    """
    bits, values = [], []
    for plane in planes:
        bits.append(np.packbits(plane > 0))
        values.append(smallest_integers(plane[plane > 0]))
    return {_BITS.format(name): np.stack(bits), _VALUES.format(name): np.concatenate(values)}


def packed_planes(name: str, arrays: Mapping[str, Array]) -> int:
    """How many planes of that name a file holds; 0 if it has none."""
    shape = arrays[_BITS.format(name)].shape if _BITS.format(name) in arrays else ()
    return shape[0] if shape else 0


def unpacked(name: str, arrays: Mapping[str, Array], shape: tuple[int, ...]) -> Iterator[Array]:
    """The planes that `packed` took, one by one; raises `InputError` if the arrays do not fit the shape."""
    bits, values = (arrays.get(key.format(name), np.zeros(0, np.uint8)) for key in (_BITS, _VALUES))
    size, start = int(np.prod(shape)), 0
    fits = bits.dtype == np.uint8 and bits.ndim == 2 and bits.shape[1] == -(-size // 8) and values.ndim == 1
    for row in bits if fits else ():
        above = np.unpackbits(row, count=size).view(bool).reshape(shape)
        stop = start + int(np.count_nonzero(above))
        if stop > values.size:
            fits = False
            break
        plane = np.zeros(shape, values.dtype)
        plane[above] = values[start:stop]
        start = stop
        yield plane
    if not fits or start != values.size:
        raise InputError(f"the file's {name} are not of components of shape {shape}: make it again")
