"""The categories of ShapeNet-Part, where data sets look for them; models know them too, from `segcertify.parts`."""

from __future__ import annotations

from segcertify.parts import CATEGORIES, PART_NAMES

__all__ = ["CATEGORIES", "PART_NAMES"]
