"""The shape categories of ShapeNet-Part and their parts, by number (Yi et al. 2016).

Networks take a category by its number: its position in ``CATEGORIES``.
"""

from itertools import accumulate

_PARTS: dict[str, tuple[str, ...]] = {
    "Airplane": ("body", "wing", "tail", "engine"),
    "Bag": ("handle", "body"),
    "Cap": ("crown", "visor"),
    "Car": ("roof", "hood", "wheel", "body"),
    "Chair": ("back", "seat", "leg", "arm"),
    "Earphone": ("earcup", "headband", "wire"),
    "Guitar": ("head", "neck", "body"),
    "Knife": ("blade", "handle"),
    "Lamp": ("base", "shade", "bracket", "stem"),
    "Laptop": ("keyboard", "screen"),
    "Motorbike": ("tank", "seat", "wheel", "handlebar", "light", "frame"),
    "Mug": ("handle", "cup"),
    "Pistol": ("barrel", "handle", "trigger"),
    "Rocket": ("body", "fin", "nose"),
    "Skateboard": ("wheel", "deck", "truck"),
    "Table": ("top", "leg", "drawer"),
}

_ENDS = dict(zip(_PARTS, accumulate(map(len, _PARTS.values())), strict=True))  # the parts' numbers follow one another

CATEGORIES: dict[str, tuple[int, ...]] = {
    category: tuple(range(end - len(_PARTS[category]), end)) for category, end in _ENDS.items()
}
"""The numbers of each category's parts: "Airplane" has 0 to 3, "Bag" 4 and 5, ..., "Table" 47 to 49."""

PART_NAMES: tuple[str, ...] = tuple(f"{category} {name}" for category, names in _PARTS.items() for name in names)
"""What each of the 50 parts is, such as "Airplane wing"."""
