"""Pascal Context in mmsegmentation's folders."""

import numpy as np
import pytest
import trees

from segcertify import InputError, data


def test_background_is_ignored_and_all_is_480_by_480(tmp_path):
    scenes = data.load(f"pascal-context:{trees.pascal_context(tmp_path)}")
    assert len(scenes.classes) == 59
    assert (scenes.classes[0], scenes.classes[36], scenes.classes[58]) == ("aeroplane", "person", "wood")
    assert scenes.ids == ("2008_000008", "2008_000026", "2010_006086")
    trees.write(scenes.items[0].label, raw := trees.values(5, (30, 40), [0, 1, 59, 255]))
    scene = scenes[0]
    assert scene.x.shape == (3, 480, 480)
    nearest = np.kron(raw.astype(int), np.ones((16, 12), int))  # 480 = 30 * 16 = 40 * 12
    np.testing.assert_array_equal(scene.valid, (nearest > 0) & (nearest < 255))
    np.testing.assert_array_equal(scene.target[scene.valid], nearest[scene.valid] - 1)


@pytest.mark.parametrize("below", ["", "VOCdevkit", "VOCdevkit/VOC2010"])
def test_the_path_may_point_at_any_of_the_three_folders(tmp_path, below):
    trees.pascal_context(tmp_path)
    assert len(data.load(f"pascal-context:{tmp_path / below}?split=train")) == 2


def test_lists(tmp_path):
    trees.pascal_context(tmp_path)
    lists = tmp_path / "VOCdevkit/VOC2010/ImageSets/SegmentationContext"
    with pytest.raises(
        InputError, match=r"no list of the split 'test' at .*test\.txt \(lists there: train, val\): make"
    ):
        data.load(f"pascal-context:{tmp_path}", split="test")
    (lists / "val.txt").write_text("2008_000008\n2008_999999\n")
    with pytest.raises(InputError, match=r"no image '2008_999999', .*: add it or take it off the list"):
        data.load(f"pascal-context:{tmp_path}")
    (lists / "val.txt").write_text("2008_000008\n2008_000008\n")
    with pytest.raises(InputError, match="holds '2008_000008' more than once"):
        data.load(f"pascal-context:{tmp_path}")
    (lists / "val.txt").write_text("\n")
    with pytest.raises(InputError, match=r"val\.txt lists no images"):
        data.load(f"pascal-context:{tmp_path}")
    with pytest.raises(InputError, match="give the folder that holds VOCdevkit"):
        data.load(f"pascal-context:{lists}")


def test_a_value_above_59(tmp_path):
    scenes = data.load(f"pascal-context:{trees.pascal_context(tmp_path)}")
    trees.write(scenes.items[0].label, np.full((30, 40), 60, np.uint8))
    with pytest.raises(InputError, match=r"holds the value 60, .* \(allowed: 0 \.\. 59, 255\)"):
        scenes[0]
