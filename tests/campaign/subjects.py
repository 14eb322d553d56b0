"""A subject of the campaign: a kind of file, a tiny good one, and all that is done with a file of its kind."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.campaign.mutations import Mutation


@dataclass(frozen=True)
class Subject:
    """One kind of file.

    ``make`` writes a good file into a folder and returns its path; ``read`` reads it, uses it and returns what it
    held. With ``digest``, a file that was changed by one of ``changes`` must be refused, or hold the ``same``. One that
    is ``unsigned`` is not: it may be written by hand, and has no sign that it had a digest. The digest of a file that
    was changed by ``forgeries`` is right. ``share`` is its part of the attempts, beside others.
    """

    name: str
    make: Callable[[Path], Path]
    read: Callable[[Path], object]
    changes: tuple[Mutation, ...]
    forgeries: tuple[Mutation, ...] = ()
    digest: bool = False
    share: int = 20
    same: Callable[[Any, Any], bool] = operator.eq
    unsigned: Callable[[bytes], bool] = lambda content: False


def held(value: Any) -> str:
    """All that something holds, as one text."""
    if isinstance(value, np.ndarray | torch.Tensor):
        array = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
        return f"{array.dtype}{array.shape}{array.tobytes().hex()}"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key!r}:{held(each)}' for key, each in sorted(value.items(), key=str))}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(held, value))}]"
    return held(dict(vars(value))) if hasattr(value, "__dict__") else repr(value)
