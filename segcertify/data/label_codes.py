"""Label codes: which class a value in a label file stands for."""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby

import numpy as np
import numpy.typing as npt

from segcertify.arrays import Array
from segcertify.errors import InputError

IGNORE = -1
"""What a value in a label file stands for where the ground truth says nothing."""

Target = npt.NDArray[np.int32]


def require_codes(name: str, codes: Mapping[int, int], classes: int, *, smallest: int = 0) -> None:
    """Refuse codes of a data set that stand for no class, and values below the smallest that its files can hold."""
    wrong = [code for code in codes.values() if not IGNORE <= code < classes]
    if wrong or not codes or min(codes) < smallest:
        raise InputError(f"{name}: label values must map to 0 .. {classes - 1}, but got {dict(codes)}")


def decode(raw: Array, codes: Mapping[int, int], *, where: Callable[[int], str], kind: str = "a class") -> Target:
    """The class of each whole number, or IGNORE; any other number is an error.

    ``where`` names the file, and the line or pixel in it, of the number at an index.
    """
    unknown, low, high = IGNORE - 1, min(codes), max(codes)
    table = np.full(high - low + 2, unknown, np.int32)  # the last entry is for everything larger,
    for value, code in codes.items():
        table[value - low] = code
    target = table[np.clip(raw, low - 1, high + 1).astype(np.intp) - low]  # as is everything smaller
    if (target == unknown).any():
        first = int((target == unknown).argmax())
        value = int(raw.flat[first])
        raise InputError(
            f"{where(first)} holds the value {value}, which is neither {kind} nor ignored (allowed: {ranges(codes)}): "
            f"correct the file, or ignore the value (ignore={value}, in certify --ignore {value}) if it stands for no "
            "ground truth"
        )
    return target


def ranges(values: Iterable[int]) -> str:
    """Whole numbers in words.

    >>> ranges([255, 1, 0, 2])
    '0 .. 2, 255'
    """
    numbered = groupby(enumerate(sorted(values)), lambda pair: pair[1] - pair[0])  # constant along a run
    runs = [[value for _, value in run] for _, run in numbered]
    return ", ".join(f"{run[0]} .. {run[-1]}" if run[1:] else str(run[0]) for run in runs)
