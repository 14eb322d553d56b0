"""A model that was trained on BGR images, for RGB ones."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from segcertify.models.wrappers.wrapper import Wrapper


class Reversed(Wrapper):
    """A model that takes blue first, as OpenCV and Caffe do, for RGB images. Inside it all is in the model's order."""

    def forward(self, batch: Tensor, seeds: Sequence[int] | None = None) -> Any:
        """The model's output for the batch with its channels in reverse."""
        return self.model(batch.flip(1)) if seeds is None else self.model(batch.flip(1), seeds=seeds)
