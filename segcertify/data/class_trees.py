"""Trees of classes: names for sets of labels, such as "flat" for road or pavement.

A tree names groups of classes; groups are nested or have no class in common. Cityscapes' groups are its own categories,
the others were chosen here. They name sets and prove nothing.
"""

from collections.abc import Collection, Mapping, Sequence

Tree = Mapping[str, tuple[str, ...]]
"""The classes of each group, by the group's name."""

_GROUND = ("floor", "grass", "ground", "platform", "road", "sidewalk", "snow", "track")
_FURNITURE = ("bed", "bench", "cabinet", "chair", "shelves", "sofa", "table")

TREES: Mapping[str, Tree] = {
    "camvid": {
        "flat": ("road", "pavement"),
        "construction": ("building", "fence"),
        "object": ("pole", "sign"),
        "human": ("pedestrian", "bicyclist"),
        "road user": ("car", "pedestrian", "bicyclist"),
    },
    "cityscapes": {
        "flat": ("road", "sidewalk"),
        "construction": ("building", "wall", "fence"),
        "object": ("pole", "traffic light", "traffic sign"),
        "nature": ("vegetation", "terrain"),
        "human": ("person", "rider"),
        "four wheels or more": ("car", "truck", "bus", "train"),
        "two wheels": ("motorcycle", "bicycle"),
        "vehicle": ("car", "truck", "bus", "train", "motorcycle", "bicycle"),
    },
    "pascal-context": {
        "vehicle": ("aeroplane", "bicycle", "boat", "bus", "car", "motorbike", "train", "truck"),
        "animal": ("bird", "cat", "cow", "dog", "horse", "sheep"),
        "ground": _GROUND,
        "furniture": _FURNITURE,
        "plant": ("flower", "pottedplant", "tree"),
        "electronics": ("computer", "keyboard", "tvmonitor"),
        "building and its parts": ("building", "ceiling", "curtain", "door", "wall", "window"),
    },
    "pets": {"animal": ("cat", "dog")},
}
"""The trees of our data sets, by the data set's name."""


def set_name(labels: Collection[str], tree: Tree, *, classes: Sequence[str]) -> str:
    """A set of labels in words: a group's name if the set is that group, or lies in it; else its labels.

    >>> tree, classes = TREES["camvid"], ("road", "pavement", "car", "pedestrian", "bicyclist", "sky")
    >>> set_name({"road", "pavement"}, tree, classes=classes), set_name({"car", "bicyclist"}, tree, classes=classes)
    ('flat', 'road user (car or bicyclist)')
    >>> set_name({"road", "sky"}, tree, classes=classes)
    'road or sky'
    """
    ordered = [each for each in classes if each in labels]
    words = " or ".join(ordered)
    if len(ordered) < 2:
        return words
    if len(ordered) == len(classes):
        return "any"
    around = [(len(group), name) for name, group in tree.items() if set(ordered) <= set(group)]
    if not around:
        return words
    size, name = min(around)
    return name if size == len(ordered) else f"{name} ({words})"
