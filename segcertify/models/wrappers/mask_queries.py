"""Models that give masks and their classes (MaskFormer, Mask2Former, OneFormer), as segmenters."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from segcertify.models.wrappers.wrapper import Wrapper


class MaskQueries(Wrapper):
    """The scores of each class, summed over the masks: semantic inference of the models' papers [Cheng2021].

    Masks are upsampled to the input before they are added. ``task`` are the tokens that tell OneFormer its task.
    """

    task: Tensor | None

    def __init__(self, model: nn.Module, *, task: Tensor | None = None) -> None:
        super().__init__(model)
        self.register_buffer("task", task)

    def forward(self, batch: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Scores (B, classes, H, W) in [0, number of masks]."""
        task = {} if self.task is None else {"task_inputs": self.task.expand(len(batch), -1)}
        said: Any = self.model(pixel_values=batch, **task)
        classes = said.class_queries_logits.softmax(-1)[..., :-1]  # the last one is for no object
        masks = nn.functional.interpolate(
            said.masks_queries_logits, size=batch.shape[2:], mode="bilinear", align_corners=False
        )
        return torch.einsum("bqc,bqhw->bchw", classes, masks.sigmoid())
