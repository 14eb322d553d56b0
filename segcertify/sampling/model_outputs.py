"""The tensor of scores or labels in whatever a model of any library returns.

torchvision returns a dict with ``out``, Hugging Face an object or dict with ``logits``, networks with several heads a
tuple or list, JAX and NumPy arrays. What has one clear choice is taken; what has several is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segcertify.errors import InputError

KEYS = ("out", "logits")
"""Under which names libraries give their scores."""
CURE = "say which holds the scores, output=..., as in segcertify.models.adapt(model, output={which!r})"


def scores_in(output: Any, which: int | str | None = None) -> Tensor:
    """The scores, or labels, in a model's output: the entry ``which``, or the only one that can be meant.

    >>> scores_in({"out": np.zeros((1, 2)), "aux": None}).shape
    torch.Size([1, 2])
    """
    if which is not None:
        output = _entry(output, which)
    elif isinstance(output, Mapping) and (keys := [key for key in KEYS if key in output]):
        if len(keys) > 1:
            raise InputError(f"the model returned a dict with {_keys(output)}: {CURE.format(which=keys[0])}")
        output = output[keys[0]]
    elif isinstance(output, Mapping | tuple | list) and output and not hasattr(output, "logits"):
        output = _only(output)
    scores = as_tensor(getattr(output, "logits", output))
    if scores is None:
        raise InputError(
            f"the model's scores are {type(output).__name__}, not a tensor: expected a tensor, an array, a dict with "
            f"{' or '.join(KEYS)}, an object with .logits, or a tuple or list with one tensor. Otherwise name the "
            "entry that holds them, as in segcertify.models.adapt(model, output=0)"
        )
    return scores


def as_tensor(value: Any) -> Tensor | None:
    """A tensor, or an array of NumPy, JAX or another library (``__dlpack__``, ``__array__``) as one; otherwise None."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, type) or not (hasattr(value, "__array__") or hasattr(value, "__dlpack__")):
        return None
    if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
        try:
            return torch.utils.dlpack.from_dlpack(value)
        except (BufferError, TypeError, ValueError, RuntimeError):  # types or devices that are not exchanged
            pass
    array = np.array(value)  # in memory of its own: theirs may be read-only
    if array.dtype.kind in "iu":
        return torch.from_numpy(array.astype(np.int64))
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64))
    return torch.from_numpy(array) if array.dtype.kind == "b" else None


def _only(output: Mapping[Any, Any] | Sequence[Any]) -> Any:
    """The only entry that can hold scores: a tensor with more than one number for each input.

    Losses and the scores of whole images are thus passed over.
    """
    entries = dict(output) if isinstance(output, Mapping) else dict(enumerate(output))
    tensors = {key: as_tensor(getattr(entry, "logits", entry)) for key, entry in entries.items()}
    shapes = {key: tuple(tensor.shape) for key, tensor in tensors.items() if tensor is not None and tensor.ndim > 1}
    if len(shapes) == 1:
        return entries[next(iter(shapes))]
    found = f"a dict with {_keys(entries)}" if isinstance(output, Mapping) else f"a {type(output).__name__}"
    if not shapes and not isinstance(output, Mapping):
        return entries[0]
    several = f" and tensors of the shapes {', '.join(map(str, shapes.values()))}" if shapes else ""
    raise InputError(f"the model returned {found}{several}: {CURE.format(which=next(iter(shapes or entries)))}")


def _entry(output: Any, which: int | str) -> Any:
    """The entry of an output that the user named."""
    try:
        return output[which]
    except (KeyError, IndexError, TypeError):
        has = _keys(output) if isinstance(output, Mapping) else type(output).__name__
        size = f" of {len(output)}" if isinstance(output, tuple | list) else ""
        raise InputError(f"the model's output has no entry {which!r}: it is {has}{size}") from None


def _keys(output: Mapping[Any, Any]) -> str:
    return "the keys " + ", ".join(repr(key) for key in output)
