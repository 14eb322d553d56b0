"""Identity: which model a run was made with."""

from __future__ import annotations

import hashlib
import re

import torch
from torch import nn

from segcertify.sampling.segmenter import Segmenter


def weights_digest(model: Segmenter) -> str:
    """A short digest of a network's weights, so that a run does not go on with other ones.

    Also of buffers that no file holds, and of what modules that are not torch's say of themselves
    (`extra_repr`), such as a normalisation, an ensemble's views and the scales of `MultiScale`.
    """
    if not isinstance(model, nn.Module):
        return ""
    digest = hashlib.sha256()
    for name, tensor in sorted(_tensors(model).items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    for name, module in model.named_modules():
        if not type(module).__module__.startswith("torch.") and (said := module.extra_repr()):
            digest.update(f"{name}({re.sub(' at 0x[0-9a-f]+', '', said)})".encode())  # no addresses in memory
    return digest.hexdigest()[:16]


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """A model's weights and all its buffers, by name."""
    weights = dict(model.named_parameters(remove_duplicate=False))
    return {**weights, **dict(model.named_buffers(remove_duplicate=False))}
