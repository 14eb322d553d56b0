"""The probe of a model: a few noisy copies of a fixed input, before any long work.

It finds models that fail, that give something other than labels or logits, and
whose answers depend on the other entries of a batch. The fixed input depends on
its shape alone, so that one probe serves all inputs of that shape, and its
fingerprint identifies the model whatever the input, the seed and the batch size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from segcertify.errors import InputError
from segcertify.noise import Noise
from segcertify.sampling.batch_size import fitting_batch_size, forget_peak, halve_until_it_fits, out_of_memory
from segcertify.sampling.identity import answers
from segcertify.sampling.segmenter import Segmenter, is_random, raw_output, to_labels, to_model_dtype
from segcertify.sampling.streams import DrawStream

CROSS_TALK = (
    "the model gave different answers to the same noisy input ({changed} changed). If entries of a batch influence "
    "each other, draws are not independent and nothing can be certified; if the model is random, let it declare "
    "random = True and take seeds=."
)


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


def probe(model: Segmenter, noise: Noise, like: torch.Tensor, batch_size: int | None) -> Probe:
    """Call a model on noisy copies of a fixed input with the shape, precision and device of ``like``.

    Raises `InputError` if the model cannot be certified.
    """
    fixed = DrawStream(0, "probe", "probe", 0).uniform_(torch.empty(like.shape, dtype=like.dtype)).to(like.device)
    output, batch = _outputs(model, noise, fixed, size=min(2, batch_size or 2))
    labels = to_labels(output, batch)
    components = tuple(labels.shape[1:])
    if 0 in components:
        raise InputError(f"the model gave shape {tuple(output.shape)}: no components to certify")
    fitting = batch_size or fitting_batch_size(fixed, output)
    return Probe(components, fingerprint(output[0]), fitting, len(output), answers(output[0], labels[0]))


def noisy_outputs(
    model: Segmenter, noise: Noise, x: torch.Tensor, streams: Sequence[DrawStream]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The model's output for one noisy copy of x a stream, and the batch of these copies."""
    batch = to_model_dtype(model, noise.draw(x, streams))
    seeds = [stream.model_seed for stream in streams] if is_random(model) else None
    return raw_output(model, batch, seeds), batch


def fingerprint(output: torch.Tensor) -> tuple[float, ...]:
    """About 512 numbers of a model's output, spread over all of it."""
    numbers = output.flatten()
    chosen = numbers[:: max(1, len(numbers) // 512)].double().cpu()
    return tuple(float(number) for number in chosen.float())


def _outputs(model: Segmenter, noise: Noise, x: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs for two draws, of which the first is drawn again at another index of a batch and beside another draw."""

    def outputs(*draws: int) -> tuple[torch.Tensor, torch.Tensor]:
        return noisy_outputs(model, noise, x, [DrawStream(0, "probe", "probe", 1 + j) for j in draws])

    def attempt(size: int) -> tuple[torch.Tensor, ...]:
        try:
            output, batch = outputs(*[0, 1][:size])
            output = output.clone()  # a model may use its memory again
            moved, moved_batch = (each[-1].clone() for each in outputs(*[2, 0][-size:]))
            forget_peak(x.device)
            beside, beside_batch = (each[0] for each in outputs(*[0, 3][:size]))
        except Exception as error:
            if isinstance(error, InputError) or out_of_memory(error):
                raise
            how = ", seeds=[...]) since it says it is random" if is_random(model) else ")"
            raise InputError(
                f"the model failed when called as model(batch{how} with a batch of shape "
                f"{(size, *x.shape)} = (B, *x.shape), {type(error).__name__}: {error}. "
                "Is x one input without a batch axis?"
            ) from error
        return output, batch, moved, moved_batch, beside, beside_batch

    output, batch, moved, moved_batch, beside, beside_batch = halve_until_it_fits(attempt, size)[1]
    to_labels(output, batch)  # refuses bad shapes and logits
    if _changed(batch[0], moved_batch) or _changed(batch[0], beside_batch):
        raise InputError(
            f"the noise of a draw depends on the other draws of its batch ({noise}): draws are then not independent, "
            "and nothing can be certified. Let draw() use the streams alone, one for each entry."
        )
    changed = max(_changed(output[0], moved), _changed(output[0], beside))
    if changed and not is_random(model):
        raise InputError(CROSS_TALK.format(changed=f"{changed} of {output[0].numel()} numbers"))
    return output, batch


def _changed(a: torch.Tensor, b: torch.Tensor) -> int:
    """How many of a model's answers differ: labels at all, logits by more than rounding."""
    if a.shape != b.shape:
        return a.numel()
    if not a.is_floating_point():
        return int((a != b).sum())
    return int((~torch.isclose(a, b, rtol=1e-2, atol=1e-3 * float(a.abs().max()))).sum())
