"""CamVid: values, splits, labels without images."""

import numpy as np
import pytest
import trees

from segcertify import InputError, data


def test_camvid(tmp_path):
    scenes = data.load(f"camvid:{trees.camvid(tmp_path)}")
    assert scenes.classes[:4] == ("sky", "building", "pole", "road")
    assert scenes.colours[8].tolist() == [64, 0, 128]
    trees.write(scenes.pairs[0].label, raw := trees.values(3, (9, 12), range(12)))
    np.testing.assert_array_equal(scenes[0].target, np.where(raw == 11, 0, raw))
    np.testing.assert_array_equal(scenes[0].valid, raw != 11)
    trees.write(scenes.pairs[0].label, np.full((9, 12), 12, np.uint8))
    with pytest.raises(InputError, match=r"holds the value 12, .* \(allowed: 0 \.\. 11\)"):
        scenes.check()
    with pytest.raises(InputError, match=r"no split 'test' in .*: the folders there are train, val"):
        data.load(f"camvid:{tmp_path}", split="test")


@pytest.mark.parametrize(("name", "folder"), [("pets", ""), ("camvid", "val")])
def test_a_label_without_an_image(tmp_path, name, folder):
    getattr(trees, name)(tmp_path)
    trees.write(tmp_path / folder / "labels" / "zebra.png", np.zeros((9, 12), np.uint8))
    with pytest.raises(InputError, match=r"zebra\.png has no image ending in \.jpg or \.png, in .*: add it or remove"):
        data.load(f"{name}:{tmp_path}")
