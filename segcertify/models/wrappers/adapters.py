"""Any library's model as a segmenter: the scores are found in whatever it returns.

Works for torchvision (a dict with ``out``), Hugging Face (an object or dict with
``logits``), segmentation_models_pytorch and mmsegmentation (a tensor) and for
networks with several heads (a tuple or list), without importing any of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from segcertify.errors import InputError
from segcertify.models.wrappers.normalisation import Normalise
from segcertify.models.wrappers.wrapper import Wrapper
from segcertify.sampling.model_outputs import scores_in

Model = Callable[..., Any]
Numbers = Sequence[float] | None


def adapt(model: Model, *, mean: Numbers = None, std: Numbers = None, output: int | str | None = None) -> Adapted:
    """A segmenter from a model of any library.

    The model gives a tensor, an array, a dict with ``out`` or ``logits``, an object with ``.logits``, or a tuple or
    list whose first entry is a tensor; ``output`` says which entry of a tuple, list or dict holds the scores (-1 for
    HRNet-OCR, whose first is auxiliary). ``mean`` and ``std``, per channel, put a normalisation inside.

    >>> import torch
    >>> adapt(lambda batch: {"out": batch, "aux": None})(torch.zeros(1, 2)).shape
    torch.Size([1, 2])
    """
    if isinstance(model, Adapted) and mean is None and std is None and output is None:
        return model
    return Adapted(model, mean=mean, std=std, output=output)


class Adapted(Wrapper):
    """A model whose output is the tensor of scores alone; its parameters, mode and device are the model's."""

    def __init__(self, model: Model, *, mean: Numbers, std: Numbers, output: int | str | None) -> None:
        super().__init__(model)
        if not callable(model):
            raise InputError(f"model must be callable on a batch, but got {type(model).__name__}")
        if (mean is None) != (std is None):
            raise InputError("a normalisation needs both mean and std, for example mean=0.5,0.5,0.5 std=0.5,0.5,0.5")
        self.normalise = None if mean is None or std is None else Normalise(mean, std)
        self.output, self._warned = output, False
        if self.normalise is not None:
            self.normalise.training = self.training

    @property
    def plain(self) -> bool:
        """Whether it does nothing to a model that gives a tensor."""
        return self.normalise is None and self.output is None

    def identity(self) -> dict[str, Any] | None:
        """Which entry of the model's output holds the scores, if one was chosen."""
        return None if self.output is None else {"output": self.output}

    def forward(self, batch: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """The model's scores for the batch."""
        if self.normalise is not None:
            batch = self.normalise(batch)
        return self._scores(self.model(batch) if seeds is None else self.model(batch, seeds=seeds))

    def _scores(self, output: Any) -> Tensor:
        """The tensor of scores in a model's output: of a tuple or list the first, unless one was chosen."""
        which = self.output
        if which is None and isinstance(output, tuple | list) and output:
            self._warn_of_choice(output)
            which = 0
        return scores_in(output, which)

    def _warn_of_choice(self, output: Sequence[Any]) -> None:
        """Say once that the first of several score maps was taken."""
        maps = [entry for entry in output if isinstance(entry, Tensor) and entry.ndim == 4]
        if len(maps) > 1 and maps[0].shape[1] == maps[1].shape[1] and not self._warned:
            self._warned = True
            warnings.warn(
                f"the model returned {len(maps)} score maps and the first is taken: if it is an auxiliary head (as in "
                "HRNet-OCR), use adapt(model, output=-1)",
                stacklevel=2,
            )
