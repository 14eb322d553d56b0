"""The teacher of a distillation: a finished model whose answers another one learns."""

import torch
from torch import nn

from segcertify.data import DataSet
from segcertify.errors import InputError
from segcertify.models import PartSegmenter, card_of, load
from segcertify.sampling.identity import identity
from segcertify.training.fit import require_logits


def load_teacher(spec: str, *, trust_code: bool = False) -> tuple[nn.Module, str]:
    """The model of a spec, fixed and in evaluation mode, and its name with a digest of its weights."""
    model = load(spec, trust_code=trust_code)
    card = card_of(model)
    if isinstance(model, PartSegmenter):
        model = model.model  # batches of training hold each cloud's category
        model.card = card  # type: ignore[assignment]
    model = model.eval().requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model, f"{spec.rpartition('/')[2]} (weights {identity(model)['weights'] or 'unknown'})"


def require_teacher(teacher: nn.Module, data: DataSet, *, crop: tuple[int, int]) -> None:
    """Raise `InputError` unless the teacher takes the inputs and has the classes of a data set."""
    card = card_of(teacher)
    if card is not None and card.classes != data.classes:
        raise InputError(
            f"the teacher knows {', '.join(card.classes)}, but {data.name} has {', '.join(data.classes)}: "
            "choose a teacher of the same classes"
        )
    require_logits(teacher, data, crop=crop)
