"""The probe of a model: a few noisy copies of a fixed input, before any long work.

It finds models that fail, that give something other than labels or logits, and
whose answers depend on the other entries of a batch. The fixed input depends on
its shape alone, so that one probe serves all inputs of that shape, and its
fingerprint identifies the model whatever the input, the seed and the batch size.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from segcertify.errors import InputError, ModelError
from segcertify.noise import Noise
from segcertify.sampling.batch_size import (
    fitting_batch_size,
    forget_peak,
    halve_until_it_fits,
    measured_takes,
    out_of_memory,
    probe_size,
)
from segcertify.sampling.cross_talk import MORE, ROUNDING, inputs_differ
from segcertify.sampling.identity import answers
from segcertify.sampling.kernels.fused import like_cuda
from segcertify.sampling.segmenter import Resizing, Segmenter, is_random, raw_output, to_labels, to_model_dtype
from segcertify.sampling.stages import stage
from segcertify.sampling.streams import DrawStream


@dataclass(frozen=True)
class Probe:
    """What is known of a model at inputs of one shape."""

    components: tuple[int, ...]
    fingerprint: tuple[float, ...]
    batch_size: int
    entries: int
    """Of the probe's batches: 2, or 1 where 2 are not allowed or do not fit into memory."""
    answers: Mapping[str, Any]
    """All answers to the first draw, in plain values: they identify a model that has no weights."""
    classes: int | None
    """How many classes the logits have; None for a model that gives labels."""
    seconds: float = field(default=0.0, compare=False)
    """What a draw took in the last pass; 0 on CUDA, where nothing waits for the end."""
    sizes: set[int] = field(default_factory=set, compare=False)
    """Of batches, whatever their input, that gave the answers that the model gives to a few entries."""


def probe(model: Segmenter, noise: Noise, like: torch.Tensor, batch_size: int | None) -> Probe:
    """Call a model on noisy copies of a fixed input with the shape, precision and device of ``like``.

    Raises `InputError` if the model cannot be certified.
    """
    fixed = DrawStream(0, "probe", "probe", 0).uniform_(torch.empty(like.shape, dtype=like.dtype)).to(like.device)
    with measured_takes():
        output, batch, seconds = _outputs(model, noise, fixed, size=min(2, batch_size or probe_size(fixed)))
    labels = to_labels(output, batch)
    components = tuple(labels.shape[1:])
    if 0 in components:
        raise InputError(f"the model gave shape {tuple(output.shape)}: no components to certify")
    if not _resizes(model):
        _warn_of_cropping(tuple(output.shape), tuple(batch.shape[2:]))
    fitting = batch_size or fitting_batch_size(fixed, output, torch.get_num_threads())
    classes = output.shape[1] if output.is_floating_point() else None
    seconds = 0.0 if like.is_cuda else seconds / len(output)
    found = answers(output[0], labels[0])
    return Probe(components, fingerprint(output[0]), fitting, len(output), found, classes, seconds)


def _resizes(model: Segmenter) -> bool:
    """Whether a model is, or wraps, one that says itself to which size it resizes images."""
    modules = model.modules() if isinstance(model, nn.Module) else [model]
    return any(isinstance(module, Resizing) for module in modules)


def _warn_of_cropping(shape: tuple[int, ...], extent: tuple[int, ...]) -> None:
    """Say that logits are smaller than an image or volume by no whole stride: stretched, they may be shifted."""
    found = shape[2:]
    if len(extent) not in (2, 3) or len(found) != len(extent):
        return
    if not all(few >= side or _by_a_stride(few, side) for few, side in zip(found, extent, strict=True)):
        warnings.warn(
            f"the model's logits of {_sides(found)} are stretched to the input's {_sides(extent)}: if the model cuts "
            "off borders (convolutions without padding), its labels are then shifted. Pad inside the model, or resize "
            "its logits there. If it resizes its input, this is right.",
            stacklevel=2,
        )


def _by_a_stride(few: int, side: int) -> bool:
    """Whether a side may have become as short by strides alone, each of which rounds up or down."""
    return any(abs(few * stride - side) < stride for stride in range(2, side + 1))


def _sides(extent: tuple[int, ...]) -> str:
    return " x ".join(map(str, extent))


def noisy_outputs(
    model: Segmenter, noise: Noise, x: torch.Tensor, streams: Sequence[DrawStream]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The model's output for one noisy copy of x a stream, and the batch of these copies."""
    with stage("noise"):
        batch = to_model_dtype(model, noise.draw(x, streams))
    seeds = [stream.model_seed for stream in streams] if is_random(model) else None
    with stage("model"):
        return raw_output(model, batch, seeds), batch


def fingerprint(output: torch.Tensor) -> tuple[float, ...]:
    """About 512 numbers of a model's output, spread over all of it."""
    numbers = output.flatten()
    chosen = numbers[:: max(1, len(numbers) // 512)].double().cpu()
    return tuple(float(number) for number in chosen.float())


def _outputs(model: Segmenter, noise: Noise, x: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Outputs for two draws, of which the first is drawn again at another index of a batch and beside another draw.

    The number is the seconds that the last pass took.

    In batches of one, another draw comes between the two calls: a model must not answer from the batch before.
    """

    seconds = 0.0

    def outputs(*draws: int) -> tuple[torch.Tensor, torch.Tensor]:
        return noisy_outputs(model, noise, x, [DrawStream(0, "probe", "probe", 1 + j) for j in draws])

    def attempt(size: int) -> tuple[torch.Tensor, ...]:
        nonlocal seconds
        try:
            output, batch = outputs(*[0, 1][:size])
            output = output.clone()  # a model may use its memory again
            others, others_batch = (each.clone() for each in outputs(*[2, 0][:size]))
            forget_peak(x.device)
            start = time.perf_counter()
            beside, beside_batch = (each[0] for each in outputs(*[0, 3][:size]))
            seconds = time.perf_counter() - start
        except Exception as error:
            if (isinstance(error, InputError) and not isinstance(error, ModelError)) or out_of_memory(error):
                raise
            error = (
                error.__cause__ if isinstance(error, ModelError) and isinstance(error.__cause__, Exception) else error
            )
            how = ", seeds=[...]) since it says it is random" if is_random(model) else ")"
            raise InputError(
                f"the model failed when called as model(batch{how} with a batch of shape "
                f"{(size, *x.shape)} = (B, *x.shape), {type(error).__name__}: {error}. "
                "Is x one input without a batch axis?"
            ) from error
        return output, batch, others, others_batch, beside, beside_batch

    try:
        output, batch, others, others_batch, beside, beside_batch = halve_until_it_fits(attempt, size)[1]
    except RuntimeError as error:
        raise (ModelError.of(error) if out_of_memory(error) else error) from error
    to_labels(output, batch)  # refuses bad shapes and logits
    moved = [(others[1], others_batch[1])] if len(others) == 2 else []
    if any(inputs_differ(batch[0], drawn, x) for _, drawn in [(beside, beside_batch), *moved]):
        raise dependent_noise(noise)
    if _same_in_each(noise, x, batch[0], others_batch[0]):
        raise dependent_noise(noise)
    changed = max(
        _changed(output[0], beside, others[0]),
        *(_changed(output[0], each, others[0], moved=True) for each, _ in moved),
        0,
    )
    if changed:
        raise dependent_answers(model, f"{changed} of {output[0].numel()} numbers changed")
    return output, batch, seconds


def _same_in_each(noise: Noise, x: torch.Tensor, first: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a noise does something, but the same in every draw. A discrete one may in two: more are then made.

    Each is drawn alone, as in a run that draws one at a time: no batch there could show it.
    """
    if inputs_differ(first, other, x) or torch.equal(first, x.to(first.dtype)):
        return False
    more = (noise.draw(x, [DrawStream(0, "probe", "probe", 4 + j)])[0].to(first.dtype) for j in range(MORE))
    return not any(inputs_differ(first, each, x) for each in more)


def _changed(first: torch.Tensor, again: torch.Tensor, other: torch.Tensor, *, moved: bool = False) -> int:
    """How many answers to one draw differ: labels at all, logits by more than rounding in batches of one size.

    Rounding is measured, for each class, against what the noise of another draw changes and against the distance
    from the class's mean: an offset of the logits hides nothing. On a GPU a place in a batch decides how sums are cut
    into tiles, so that the rounding of an answer that ``moved`` may be a share of the class's range: HRNetV2-W48
    (random weights) in TF32 on an H200 moved by up to 0.0006 of it, which was up to 0.02 of what noise changes.
    """
    if first.shape != again.shape or first.shape != other.shape:
        return first.numel()
    if not first.is_floating_point():
        return int((first != again).sum())
    a, b, c = (each.flatten(1) if each.ndim > 1 else each[:, None] for each in (first, again, other))
    centre, noise = (a + c).mean(1, keepdim=True) / 2, (a - c).abs().mean(1, keepdim=True)
    rounding = 0.01 * ((a - centre).abs() + noise) + 4 * torch.finfo(a.dtype).eps * a.abs()
    if moved and like_cuda(a):
        rounding += ROUNDING * (a.amax(1, keepdim=True) - a.amin(1, keepdim=True))
    return int(((a - b).abs() > rounding).sum())


def dependent_noise(noise: Noise) -> InputError:
    """The refusal of a noise whose draws share something."""
    return InputError(
        f"the noise of a draw depends on the other draws of its batch, or is the same in each ({noise}): draws are "
        "then not independent, and nothing can be certified. Let draw() use the streams alone, one for each entry."
    )


def dependent_answers(model: Segmenter, changed: str) -> InputError:
    """The refusal of a model whose answer to an entry depends on more than the entry and its seed."""
    if is_random(model):
        return InputError(
            f"the model gave different answers to the same noisy input with the same seed ({changed}), so draws are "
            "not independent and nothing can be certified. A model that declares random = True must take all its "
            "randomness for entry i from seeds[i], for example from torch.Generator().manual_seed(seeds[i]): not from "
            "another entry's seed, nor from a global generator."
        )
    return InputError(
        f"the model gave different answers to the same noisy input ({changed}). If entries of a batch influence each "
        "other, draws are not independent and nothing can be certified: let entry i of the output depend on entry i "
        "of the batch alone. If the model is random, let it declare random = True and take seeds=. If rounding alone "
        "changes so much at another batch size, use a higher precision, or batch_size=1; a model that computes in half "
        "precision on the CPU says so in its attribute precision ('bf16' or 'fp16')."
    )
