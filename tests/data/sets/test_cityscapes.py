"""Cityscapes: the official label ids, and what is not one."""

import numpy as np
import pytest
import trees

from segcertify import InputError, data

IGNORED = [*range(7), 9, 10, 14, 15, 16, 18, 29, 30]
"""Ids that cityscapesScripts' helpers/labels.py gives the train id 255 (29 caravan, 30 trailer, ...)."""


def test_label_ids_become_train_ids(tmp_path):
    scenes = data.load(f"cityscapes:{trees.cityscapes(tmp_path)}")
    assert scenes.ids == ("frankfurt_000000_000294", "frankfurt_000001_000538", "lindau_000000_000019")
    evaluated = [value for value in range(34) if value not in IGNORED]
    assert len(evaluated) == len(scenes.classes) == 19
    raw = np.resize(np.arange(34, dtype=np.uint8), (8, 16))
    trees.write(scenes.items[0].label, raw)
    scene = scenes[0]
    np.testing.assert_array_equal(scene.valid, ~np.isin(raw, IGNORED))
    np.testing.assert_array_equal(scene.target[scene.valid], [evaluated.index(v) for v in raw[scene.valid]])
    named = dict(zip(scenes.classes, zip(scenes.colours.tolist(), evaluated, strict=True), strict=True))
    assert named["road"] == ([128, 64, 128], 7)
    assert named["sky"] == ([70, 130, 180], 23)
    assert named["train"] == ([0, 80, 100], 31)
    assert named["bicycle"] == ([119, 11, 32], 33)


def test_train_ids_under_the_name_of_label_ids(tmp_path):
    scenes = data.load(f"cityscapes:{trees.cityscapes(tmp_path)}")
    trees.write(scenes.items[2].label, np.resize(np.array([0, 18, 255], np.uint8), (8, 16)))
    with pytest.raises(
        InputError, match=r"lindau.*labelIds\.png, pixel .* holds the value 255, .* \(allowed: 0 \.\. 33"
    ):
        scenes.check()


def test_splits(tmp_path):
    trees.cityscapes(tmp_path)
    with pytest.raises(InputError, match="test split are not public: use split='val'"):
        data.load(f"cityscapes:{tmp_path}?split=test")
    with pytest.raises(InputError, match=r"no split 'vall' in .*leftImg8bit: the folders there are train, val"):
        data.load(f"cityscapes:{tmp_path}?split=vall")
    for label in (tmp_path / "gtFine/val").rglob("*_labelIds.png"):
        label.unlink()
    with pytest.raises(InputError, match=r"has no label: expected .*_gtFine_labelIds\.png.* \(2 more like it\)"):
        data.load(f"cityscapes:{tmp_path}")
    for image in (tmp_path / "leftImg8bit/val").rglob("*.png"):
        image.unlink()
    with pytest.raises(InputError, match=r"no image ending in _leftImg8bit\.png"):
        data.load(f"cityscapes:{tmp_path}")
