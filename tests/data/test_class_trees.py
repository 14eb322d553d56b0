"""Trees of classes: every group is of the data set's classes, and groups are nested or apart."""

import itertools

import pytest

from segcertify.data.class_trees import TREES, set_name
from segcertify.data.sets import camvid, cityscapes, pascal_context, pets

CLASSES = {
    "camvid": tuple(camvid.COLOURS),
    "cityscapes": tuple(cityscapes._LABELS),
    "pascal-context": pascal_context.CLASSES,
    "pets": tuple(pets.COLOURS),
}


@pytest.mark.parametrize("name", TREES)
def test_groups_are_of_the_classes_and_nested_or_apart(name):
    groups = TREES[name].values()
    for group in groups:
        assert set(group) <= set(CLASSES[name])
        assert 1 < len(group) == len(set(group)) < len(CLASSES[name])
    for a, b in itertools.combinations(map(set, groups), 2):
        assert a < b or b < a or not a & b


def test_names():
    tree, classes = TREES["cityscapes"], CLASSES["cityscapes"]
    assert set_name(("car", "bus", "truck", "train"), tree, classes=classes) == "four wheels or more"
    assert set_name(("bicycle", "car"), tree, classes=classes) == "vehicle (car or bicycle)"
    assert set_name(("sky",), tree, classes=classes) == "sky"
    assert set_name(("sky", "person"), tree, classes=classes) == "sky or person"
    assert set_name(classes, tree, classes=classes) == "any"
