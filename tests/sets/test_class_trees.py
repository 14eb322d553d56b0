"""Trees of classes: every group is of the data set's classes, and groups are nested or apart."""

import itertools

import numpy as np
import pytest

from segcertify.data.sets import camvid, cityscapes, pascal_context, pets
from segcertify.sets.class_trees import TREES, name_of_set, set_name, sets_in_words, tree_levels, tree_of

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


@pytest.mark.parametrize("name", TREES)
def test_a_tree_is_found_by_the_classes(name):
    assert tree_of(CLASSES[name]) == TREES[name]
    assert not tree_of(("skin", "lesion"))


@pytest.mark.parametrize("name", TREES)
def test_levels_are_partitions_each_coarser_than_the_last(name):
    tree, classes = TREES[name], CLASSES[name]
    levels = tree_levels(tree, classes)
    parts = [{tuple(np.flatnonzero(level == group)) for group in np.unique(level)} for level in levels]
    assert levels[0].tolist() == list(range(len(classes)))
    for fine, coarse in itertools.pairwise(levels):
        assert all(len(set(coarse[fine == group])) == 1 for group in np.unique(fine))
        assert len(np.unique(coarse)) < len(np.unique(fine))
    for group in tree.values():
        assert any(tuple(sorted(classes.index(each) for each in group)) in part for part in parts)
    assert tree_levels({}, classes)[0].tolist() == levels[0].tolist()


def test_sets_in_words():
    names = CLASSES["camvid"]
    road, pavement, sky = (names.index(each) for each in ("road", "pavement", "sky"))
    pair = tuple(sorted((road, pavement)))
    assert name_of_set(pair, names) == "flat"
    assert name_of_set((1, 99), names) == "labels 1 or 99"
    words = sets_in_words({pair: 5, tuple(sorted((sky, road))): 15}, 100, names)
    assert words == "sky or road 15.0%, flat 5.0%"
    assert sets_in_words({pair: 5, (0, 1): 1}, 100, names, most=1) == "flat 5.0%"


def test_a_tree_fits_where_its_groups_are_all_of_the_classes():
    assert tree_of(("cat", "dog")) == TREES["pets"]
    assert tree_of(("cat",)) == {}
