"""Step: the losses and gradients of one batch. On one CUDA device a step is captured as a graph and replayed."""

import torch
from torch import nn

from segcertify.errors import InputError
from segcertify.training.objectives import Losses, Objective
from segcertify.training.recipe import Recipe

WARMUP = 3
"""Plain steps before a graph is captured: CUDA needs some, to set up its libraries."""


class Step:
    """Losses and gradients of a model on a batch, in the recipe's precision.

    If ``graphed``, a step is captured as a CUDA graph after a few plain steps and replayed from then on. That saves
    the launches of its kernels, but needs batches of one shape and a model without branches on values.
    """

    def __init__(self, model: nn.Module, objective: Objective, recipe: Recipe, *, graphed: bool) -> None:
        self.model, self.objective, self.recipe, self.graphed = model, objective, recipe, graphed
        self._done = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, x: torch.Tensor, target: torch.Tensor) -> Losses:
        """The losses; the gradients stay in the weights' ``grad``."""
        if not self.graphed:
            return self._plain(x, target)
        if self._graph is None and self._done < WARMUP:
            self._done += 1
            return self._on_side_stream(x, target)
        if self._graph is None:
            self._capture(x, target)
        self._x.copy_(x)
        self._target.copy_(target)
        assert self._graph is not None
        self._graph.replay()
        return self._losses

    def forget(self) -> None:
        """Capture the next step anew, because a number changed that the graph keeps."""
        self._graph = None

    def _plain(self, x: torch.Tensor, target: torch.Tensor) -> Losses:
        self.model.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.recipe.precision == "bf16"):
            losses = self.objective(self.model, x, target)
        losses["loss"].backward()  # type: ignore[no-untyped-call]
        return {name: value.detach() for name, value in losses.items()}

    def _on_side_stream(self, x: torch.Tensor, target: torch.Tensor) -> Losses:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            losses = self._plain(x, target)
        torch.cuda.current_stream().wait_stream(stream)
        return losses

    def _capture(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """Capture one step; nothing runs meanwhile, so batch statistics do not change."""
        self._x, self._target = x.clone(), target.clone()
        self._graph = torch.cuda.CUDAGraph()
        self.model.zero_grad(set_to_none=True)
        try:
            with torch.cuda.graph(self._graph):
                self._losses = self._plain(self._x, self._target)
        except RuntimeError as error:
            raise InputError(
                "a step could not be captured as a CUDA graph: if the model reads values, as .item() and branches on "
                f"values do, give it the attribute graphable = False. CUDA said: {error}"
            ) from error
