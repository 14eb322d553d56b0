"""Augmentation: how training varies its inputs, and how it marks components without a label."""

from dataclasses import dataclass

UNLABELLED = 255
"""The class of a component without ground truth in targets that are stored as bytes."""


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training inputs; each input draws its own. Crop and colour are for images, shift for clouds."""

    crop: tuple[int, int]
    """Height and width of the crops."""
    rescale: tuple[float, float] = (1.0, 1.0)
    """The range of the factors that resize an input."""
    rotate: float = 0.0
    """The largest angle, in degrees."""
    flip: bool = False
    """Whether half of the inputs are mirrored."""
    colour: float = 0.0
    """The strength of the changes of colour; 0 for none."""
    paste: float = 0.0
    """The part of the crops into which a rectangle of another crop is pasted, of images alone."""
    shift: float = 0.0
    """The largest shift of a cloud along each axis."""
