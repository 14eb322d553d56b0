"""Trees of classes: names for sets of labels, such as "flat" for road or pavement.

A tree names groups of classes; groups are nested or have no class in common. Cityscapes' groups are its own categories,
the others were chosen here. They name sets and prove nothing.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from segcertify.arrays import IntArray
from segcertify.numerals import percent

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


def tree_of(classes: Sequence[str]) -> Tree:
    """The tree whose groups are all of these classes, the largest of several; an empty one if none is.

    >>> tree_of(("background", "cat", "dog")), tree_of(("lesion", "skin"))
    ({'animal': ('cat', 'dog')}, {})
    """
    known = set(classes)
    fitting = [tree for tree in TREES.values() if all(known >= set(group) for group in tree.values())]
    return max(fitting, key=lambda tree: len({each for group in tree.values() for each in group}), default={})


def tree_levels(tree: Tree, classes: Sequence[str]) -> list[IntArray]:
    """Which group each class is in, (classes,), from single classes to the largest groups of the tree.

    A group is at a level above all groups inside it. A class that is in none of a level's groups is one by itself.

    >>> [level.tolist() for level in tree_levels(TREES["pets"], ("background", "cat", "dog"))]
    [[0, 1, 2], [0, 1, 1]]
    """
    groups = sorted(tree.values(), key=len)  # those inside others come first
    heights: dict[tuple[str, ...], int] = {}
    for group in groups:
        heights[group] = 1 + max((heights[inner] for inner in heights if set(inner) < set(group)), default=0)
    levels: list[IntArray] = [np.arange(len(classes))]
    for height in range(1, max(heights.values(), default=0) + 1):
        level = levels[-1].copy()
        for group in (group for group in groups if heights[group] == height):
            members = [index for index, name in enumerate(classes) if name in group]
            level[members] = members[0]
        levels.append(level)
    return levels


def sets_in_words(found: Mapping[tuple[int, ...], int], total: int, names: Sequence[str], *, most: int = 5) -> str:
    """The most frequent of some sets, with their shares of all components.

    >>> sets_in_words({(1, 2): 30, (0, 1): 10}, 200, ("background", "cat", "dog"))
    'animal 15.0%, background or cat 5.0%'
    """
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:most]
    return ", ".join(f"{name_of_set(labels, names)} {percent(count / total)}" for labels, count in ordered)


def name_of_set(labels: Sequence[int], names: Sequence[str]) -> str:
    """A set of labels by the names of all classes, or by numbers where it has classes without a name."""
    if max(labels) >= len(names):
        return f"labels {' or '.join(map(str, labels))}"
    return set_name([names[label] for label in labels], tree_of(names), classes=names)
