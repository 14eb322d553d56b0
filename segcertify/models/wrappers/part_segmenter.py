"""PartSegmenter: a network for shapes of many categories as a segmenter of one category's parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from segcertify.errors import InputError, require_integer, unknown
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES
from segcertify.models.networks.pointnet2 import PointNet2, hashed

BELOW = 20.0  # scores of other categories' parts lie this far below the lowest own one, so that they are never chosen


class PartSegmenter(nn.Module):
    """A `PointNet2` for shapes of one ShapeNet-Part category: labels are that category's parts alone.

    Its scores are the mean log-probabilities of ``runs`` runs, each with its own sampling of points, as in the paper.
    It is itself random: the sampler gives a seed per draw. ``category`` is a name such as "Chair", or its number;
    without one, use `for_category` before the first call.

    >>> import torch
    >>> model = PartSegmenter(PointNet2(normals=False).eval(), "Mug", runs=1)
    >>> bool(set(model(torch.rand(1, 512, 3)).argmax(1).flatten().tolist()) <= {36, 37})
    True
    """

    random = True
    fast = False
    """Whether the sampler runs a faster copy on a CPU, as of models that were loaded."""

    def __init__(self, model: PointNet2, category: str | int | None = None, runs: int = 3) -> None:
        super().__init__()
        if (model.categories, model.parts) != (len(CATEGORIES), len(PART_NAMES)):
            raise InputError(
                f"the network has {model.categories} categories and {model.parts} parts, but ShapeNet-Part has "
                f"{len(CATEGORIES)} and {len(PART_NAMES)}: only their parts are known by category"
            )
        self.model, self.runs = model, require_integer("runs", runs)
        self.category = None if category is None else category_name(category)
        self.training = model.training

    def for_category(self, category: str | int) -> PartSegmenter:
        """The same network for shapes of another category."""
        other = PartSegmenter(self.model, category, self.runs)
        other.fast = self.fast
        return other

    def for_sampling(self) -> PartSegmenter:
        """What the sampler runs: on a CPU a faster copy where that is wanted. CUDA has kernels for the network."""
        if not self.fast or next(self.parameters()).device.type != "cpu":
            return self
        from segcertify.models.fast_copy import for_sampling

        return for_sampling(self)

    def forward(self, batch: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Mean log-probabilities (B, 50, N) of clouds (B, N, 3 or 6); parts of other categories lie below all.

        Without ``seeds``, one per cloud, all are 0.
        """
        if self.category is None:
            cure = "use model.for_category('Chair'), or write ?category=Chair in its spec"
            raise InputError(f"this model must know which category its shapes are of: {cure}")
        seeds = [0] * len(batch) if seeds is None else seeds
        number = [list(CATEGORIES).index(self.category)] * len(batch)
        runs = ([hashed("run", run, int(seed)) for seed in seeds] for run in range(self.runs))
        mean: Tensor = sum(self.model(batch, number, seeds=run) for run in runs) / self.runs
        own = mean[:, list(CATEGORIES[self.category])]
        scores = (own.amin(1, keepdim=True) - BELOW).repeat(1, mean.shape[1], 1)
        scores[:, list(CATEGORIES[self.category])] = own
        return scores

    def extra_repr(self) -> str:
        """The category and the number of runs."""
        return f"category={self.category!r}, runs={self.runs}"

    def identity(self) -> dict[str, Any]:
        """What decides its labels, beside the network."""
        return {"category": self.category, "runs": self.runs}


def category_name(category: str | int) -> str:
    """The category of ShapeNet-Part that a name, in whatever case, or a number means.

    >>> category_name("chair"), category_name(4)
    ('Chair', 'Chair')
    """
    names = list(CATEGORIES)
    if isinstance(category, str):
        found = [name for i, name in enumerate(names) if category.lower() in (name.lower(), str(i))]
    else:
        found = names[category : category + 1] if require_integer("category", category, at_least=0) < len(names) else []
    if not found:
        raise unknown("category", category, names, forms=(*names, f"its number, 0 to {len(names) - 1}"))
    return found[0]
