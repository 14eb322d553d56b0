"""The input size that a model does best on, the size it is given, and a note about inputs that are far from it."""

from collections.abc import Sequence

from torch import nn

from segcertify.models.card import card_of
from segcertify.models.wrappers.multiscale import MultiScale

FAR = 1.5  # an input is far from the best size if it is larger or smaller by more than this factor


def best_size(model: object) -> int | tuple[int, int] | None:
    """An image's short side, or its height and width, or a cloud's number of points; None if not known."""
    card = card_of(model)
    return None if card is None else card.input_size


def given_short_side(model: object, size: Sequence[int] | None = None) -> int | None:
    """The short side of the images that a model is given, in pixels; None if it takes them as they are.

    It is the one that its card states. A model that rescales its input itself (`MultiScale`) takes any size. An image
    whose ``size`` (height, width) is known and not larger stays as it is: to enlarge it would shrink the radius in its
    own pixels.
    """
    side = _stated_side(model)
    return None if side is None or (size is not None and min(size) <= side) else side


def _stated_side(model: object) -> int | None:
    card, size = card_of(model), best_size(model)
    if card is None or card.of_clouds or size is None or _rescaling(model) is not None:
        return None
    return min(size) if isinstance(size, tuple) else size


def size_note(model: object, shape: Sequence[int]) -> str | None:
    """One sentence if an input of that ``shape``, (channels, H, W) or (points, columns), is far from the best size.

    A model that rescales its input (`MultiScale`) is judged by the scale that comes nearest.
    """
    card, size = card_of(model), best_size(model)
    if card is None or size is None:
        return None
    best = min(size) if isinstance(size, tuple) else size
    side = shape[0] if card.of_clouds else min(shape[-2:])
    scaled = _rescaling(model)
    sides = [side] if scaled is None else [min(scaled.resized(shape[-2:], scale)) for scale in scaled.scales]
    if any(1 / FAR <= each / best <= FAR for each in sides):
        return None
    has, cure = f"{shape[-2]} x {shape[-1]} pixels", f"resize it to a short side of about {best} pixels"
    if not card.of_clouds and max(sides) < best:
        cure = f"{cure} (small images are not enlarged by default: that makes R in their own pixels smaller)"
    if card.of_clouds:
        has, cure = f"{side} points", f"draw about {best} points from the shape"
    return f"this model does best on {card.inputs}, but this input has {has}: {cure}"


def _rescaling(model: object) -> MultiScale | None:
    """The part of a model that rescales its input, if there is one."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return next((module for module in modules if isinstance(module, MultiScale)), None)
