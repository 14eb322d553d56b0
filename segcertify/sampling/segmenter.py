"""What a model must be, and how its output becomes labels.

A segmenter is any callable from a float batch (B, *x.shape) to logits
(B, classes, *components) or integer labels (B, *components), also inside a dict, tuple
or array of another library (`segcertify.sampling.model_outputs`). Logits of images
and volumes may be coarser than the input: they are upsampled. A model that is
itself random declares ``random = True`` and is called as
``model(batch, seeds=[...])``, one integer per draw. Equal entries (of random
models, with equal seeds) must get equal answers, wherever in a batch they stand.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from segcertify.arrays import IntArray
from segcertify.errors import InputError, ModelError
from segcertify.sampling.batch_size import out_of_memory
from segcertify.sampling.kernels.fused import like_cuda
from segcertify.sampling.label_rows import first_largest, labels_of
from segcertify.sampling.model_outputs import scores_in
from segcertify.sampling.stages import stage
from segcertify.storage.interruption import Stop

LARGEST_LABEL = 32_766
NOT_FINITE = (
    "the model gave logits that are not finite (NaN or infinity) for a noisy input: a label from them means "
    "nothing. Check its weights and precision; for classes to leave out, use a large finite negative logit."
)
_LOGITS = 2**26
"""How many logits are upsampled at once, at most (but for one class of a batch)."""


class Segmenter(Protocol):
    """A batch of inputs in, logits or labels out."""

    def __call__(self, batch: torch.Tensor, /) -> torch.Tensor:
        """Logits (B, classes, *components) or labels (B, *components)."""


@runtime_checkable
class Resizing(Protocol):
    """A model of images that resizes them first: noise need not be drawn where it does not look."""

    def resized_to(self, size: tuple[int, int]) -> tuple[int, int] | None:
        """The smaller size that images of this size are resized to, bilinearly without antialiasing; None if not so."""

    def log_scores(self, image: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        """Logarithms of the scores (B, classes, h, w) of resized images, whose size they have.

        The model's labels are the arg-max of the bilinear resize of their exponentials to the image's size.
        """


def is_random(model: Segmenter) -> bool:
    """Whether the model says that it is itself random."""
    return bool(getattr(model, "random", False))


def for_category(model: Segmenter, category: str) -> Segmenter:
    """The model for inputs of a category, if it wants to know it: one with a method ``for_category``."""
    bind = getattr(model, "for_category", None)
    if bind is None and category and callable(getattr(model, "given", None)):
        raise InputError("the model has a method given(category), which is now called for_category: rename it")
    return bind(category) if bind is not None and category else model


def for_sampling(model: Segmenter) -> Segmenter:
    """What is run in the model's place: one with a method ``for_sampling`` may give a faster copy of itself."""
    faster = getattr(model, "for_sampling", None)
    return faster() if callable(faster) else model


def require_ready(model: Segmenter, device: torch.device) -> None:
    """Refuse models that are not callable, in training mode, or on another device."""
    if not callable(model):
        raise InputError(f"model must be callable on a batch, but got {type(model).__name__}")
    if not isinstance(model, nn.Module):
        return
    modules = modules_of(model)
    if any(module.training for module in modules):
        training = [name or type(model).__name__ for name, module in model.named_modules() if module.training]
        raise InputError(
            f"the model is in training mode ({training[0]}{' and others' if training[1:] else ''}): dropout and batch "
            "statistics would void the certificate. Call model.eval() first."
        )
    places = {each.device for module in modules for each in module._parameters.values() if each is not None}
    wrong = {place for place in places if place.type != device.type or device.index not in (None, place.index)}
    if not wrong:
        return
    name, parameter = next((name, each) for name, each in model.named_parameters() if each.device in wrong)
    raise InputError(
        f"parameter {name} is on {parameter.device}, but sampling is on {device}: use model.to({str(device)!r})"
    )


def modules_of(model: nn.Module) -> list[nn.Module]:
    """All modules of a model, each once, as ``model.modules()`` gives them, but several times as fast."""
    found, left = dict[int, nn.Module](), [model]
    while left:
        module = left.pop()
        if id(module) not in found:
            found[id(module)] = module
            left += [child for child in reversed([*module._modules.values()]) if child is not None]
    return list(found.values())


def to_model_dtype(model: Segmenter, batch: torch.Tensor) -> torch.Tensor:
    """A batch in the precision of the model's weights: noise is drawn in single or double precision and cast to it."""
    return batch.to(model_dtype(model) or batch.dtype)


def model_dtype(model: Segmenter) -> torch.dtype | None:
    """The precision of the model's weights; None if it has none."""
    weights = model.parameters() if isinstance(model, nn.Module) else ()
    return next((weight.dtype for weight in weights if weight.is_floating_point()), None)


def in_single_precision(model: Segmenter, output: torch.Tensor) -> bool:
    """Whether a model computed an output in single precision or better, as far as it shows.

    GPUs compute in TF32. A model may have weights in half precision, or a module that says so in ``precision``.
    """
    if like_cuda(output) or output.dtype.itemsize < 4 or torch.is_autocast_enabled("cpu"):
        return False
    if torch.get_float32_matmul_precision() != "highest":
        return False
    modules = modules_of(model) if isinstance(model, nn.Module) else [model]
    if any(getattr(module, "precision", "fp32") in ("bf16", "fp16") for module in modules):
        return False
    weights = (each for module in modules if isinstance(module, nn.Module) for each in module._parameters.values())
    return not any(each is not None and each.is_floating_point() and each.dtype.itemsize < 4 for each in weights)


def base_labels(model: Segmenter, x: torch.Tensor) -> IntArray:
    """The model's own labels of one input, without noise, in one pass."""
    try:
        return predict(model, to_model_dtype(model, x[None]), [0] if is_random(model) else None)[0].cpu().numpy()
    except RuntimeError as error:
        raise (ModelError.of(error) if out_of_memory(error) else error) from error


def predict(model: Segmenter, batch: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
    """The model's labels for each entry of the batch: int64, (B, *components)."""
    return to_labels(raw_output(model, batch, seeds), batch)


def raw_output(model: Segmenter, batch: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
    """What the model says, as it says it: one tensor, an entry for each of the batch."""
    return asked(model, batch, seeds)


def asked(model: Callable[..., torch.Tensor], batch: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
    """What a function of a model gives for a batch: one tensor, an entry for each of the batch."""
    with torch.no_grad(), model_errors():
        output = model(batch) if seeds is None else model(batch, seeds=list(seeds))
    output = scores_in(output).to(batch.device)
    if output.ndim < 1 or output.shape[0] != batch.shape[0]:
        raise InputError(
            f"the model gave shape {tuple(output.shape)} for a batch of {batch.shape[0]}: "
            "expected logits (B, classes, *components) or labels (B, *components)"
        )
    return output


@contextmanager
def model_errors() -> Iterator[None]:
    """Whatever a model raises within becomes a `ModelError`, also if it asks to exit.

    Left alone are bad input, signals, and memory that ran out, for which a smaller batch may suffice.
    """
    try:
        yield
    except (InputError, Stop):
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, Exception) and out_of_memory(error):
            raise
        raise ModelError.of(error) from error


@stage("labels")
def to_labels(output: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """Labels from logits or labels, in memory of their own."""
    with torch.no_grad():
        return _from_logits(output, batch) if output.is_floating_point() else _from_labels(output, batch)


def _from_logits(logits: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """Arg-max over classes, after upsampling to the input where logits are coarser."""
    _require_logits(logits, batch)
    if logits.device.type != "cpu":
        require_finite_scores(logits)
        return _argmax(logits, batch)
    require_finite_scores(logits)
    if is_upsampled(logits, batch) and batch.ndim == 4 and batch.shape[2] % logits.shape[2] == 0:
        return labels_of(logits.float(), (batch.shape[2], batch.shape[3]))
    # One entry at a time takes little memory, and stays in the cache.
    entries = zip(torch.split(logits, 1), torch.split(batch, 1), strict=True)
    labels = [_argmax(*entry) for entry in entries]
    return labels[0] if len(labels) == 1 else torch.cat(labels)


def _require_logits(logits: torch.Tensor, batch: torch.Tensor) -> None:
    if logits.ndim < 2 or 0 in logits.shape:
        raise InputError(f"logits must be (B, classes, *components), but the model gave shape {tuple(logits.shape)}")
    _require_layout(tuple(logits.shape), tuple(batch.shape[1:]))


def require_finite_scores(scores: torch.Tensor) -> None:
    """Refuse NaN and infinity: a label from them means nothing."""
    low, high = torch.aminmax(scores)
    if not (torch.isfinite(low) and torch.isfinite(high)):
        raise InputError(NOT_FINITE)


def coarse_logits(output: torch.Tensor, batch: torch.Tensor) -> bool:
    """Whether a model's output is logits of a batch of images, perhaps coarser; bad shapes are refused."""
    if not output.is_floating_point():
        return False
    _require_logits(output, batch)
    return is_upsampled(output, batch) or tuple(output.shape[2:]) == tuple(batch.shape[2:])


def _argmax(logits: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """The class of the largest logit (the lowest of equals) at the input's resolution, upsampled some at a time."""
    few = max(1, _LOGITS // batch[:, :1].numel())
    if tuple(logits.shape[2:]) == tuple(batch.shape[2:]) or logits.shape[1] <= few:
        return first_largest(upsampled(logits, batch))
    best, labels = upsampled(logits[:, :few], batch).max(1)
    for start in range(few, logits.shape[1], few):
        values, others = upsampled(logits[:, start : start + few], batch).max(1)
        better = values > best
        best, labels = torch.where(better, values, best), torch.where(better, others + start, labels)
    return labels


def upsampled(logits: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """Logits of images and volumes at the input's resolution, in single precision where they were coarser."""
    if not is_upsampled(logits, batch):
        return logits
    mode = {4: "bilinear", 5: "trilinear"}[batch.ndim]
    return nn.functional.interpolate(logits.float(), size=tuple(batch.shape[2:]), mode=mode, align_corners=False)


def is_upsampled(logits: torch.Tensor, batch: torch.Tensor) -> bool:
    """Whether logits are upsampled to the inputs' resolution: those of images and volumes that are coarser."""
    extent = tuple(batch.shape[2:])
    if len(extent) not in (2, 3) or logits.ndim != batch.ndim or tuple(logits.shape[2:]) == extent:
        return False
    if any(coarse > fine for coarse, fine in zip(logits.shape[2:], extent, strict=True)):
        raise InputError(f"logits of size {tuple(logits.shape[2:])} are finer than the input's {extent}")
    if _classes_last(tuple(logits.shape[1:]), extent):
        raise InputError(
            f"logits of shape {tuple(logits.shape)} seem to have their classes last: expected (B, classes, *components)"
        )
    return True


def _classes_last(shape: tuple[int, ...], extent: tuple[int, ...]) -> bool:
    """Whether all axes but the last are the input's, made coarser by one factor, and the last ones by no strides."""
    strides = all(
        any(few in (side // stride, -(-side // stride)) for stride in range(1, side + 1))
        for few, side in zip(shape[1:], extent, strict=True)
    )
    least = max(side / (few + 1) for few, side in zip(shape[:-1], extent, strict=True))
    most = min(side / max(few - 1, 0.5) for few, side in zip(shape[:-1], extent, strict=True))
    return not strides and 1 < least <= most


def _require_layout(shape: tuple[int, ...], x: tuple[int, ...]) -> None:
    """Refuse logits whose axes are surely in another order, or that are no logits."""
    extent = x[1:] if len(x) in (3, 4) else x[:1]  # image and volume: (C, *extent); points: (points, columns)
    if shape[1] == 1:
        raise InputError(
            f"logits of shape {shape} have one class, so every label would be 0: "
            "for a binary model use segcertify.models.Decisions(model), in a spec ?above=0 (0.5 for probabilities)"
        )
    if len(shape) == len(extent) + 1 and shape[1:] == extent and len(x) > 2:
        raise InputError(f"floats of shape {shape} have no class axis: return logits, or integer labels")
    if len(shape) == len(extent) + 2 and shape[1:-1] == extent and shape[2:] != extent:
        raise InputError(f"logits of shape {shape} have their classes last: expected (B, classes, *components)")


def _from_labels(labels: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """Integer labels, checked."""
    extent = tuple(batch.shape[2:])
    if len(extent) in (2, 3) and labels.ndim == 1 + len(extent) and tuple(labels.shape[1:]) != extent:
        raise InputError(
            f"labels of size {tuple(labels.shape[1:])} do not cover the input's {extent}: "
            "return logits, which are upsampled, or upsample inside the model"
        )
    if labels.is_complex():
        raise InputError(f"labels must be integers, but the model gave {labels.dtype}")
    labels = labels.to(torch.int64, copy=True)
    if labels.numel() and not (labels.min() >= 0 and labels.max() <= LARGEST_LABEL):
        raise InputError(
            f"labels must lie in 0 .. {LARGEST_LABEL}, but the model gave {int(labels.min())} .. {int(labels.max())}"
        )
    return labels
