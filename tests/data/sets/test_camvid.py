"""CamVid: values, splits, labels without images."""

import numpy as np
import pytest
import trees

from segcertify import InputError, data


def test_camvid(tmp_path):
    scenes = data.load(f"camvid:{trees.camvid(tmp_path)}")
    assert scenes.classes[:4] == ("sky", "building", "pole", "road")
    assert scenes.colours[8].tolist() == [64, 0, 128]
    trees.write(scenes.items[0].label, raw := trees.values(3, (9, 12), range(12)))
    np.testing.assert_array_equal(scenes[0].target, np.where(raw == 11, 0, raw))
    np.testing.assert_array_equal(scenes[0].valid, raw != 11)
    trees.write(scenes.items[0].label, np.full((9, 12), 12, np.uint8))
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


def test_folds_by_drive(tmp_path):
    """What is trained on and what is held out share no drive, and the held-out parts make up the whole."""
    spec = f"camvid:{trees.camvid(tmp_path)}?split=train"
    whole = data.load(spec)
    held_out = []
    for drive, count in (("0001TP", 2), ("0006R0", 2), ("0016E5", 3)):
        trained, tested = data.load(f"{spec}&without={drive}*"), data.load(f"{spec}&only={drive}*")
        assert (len(trained), len(tested)) == (7 - count, count)
        assert {name[:6] for name in tested.ids} == {drive}
        assert {name[:6] for name in trained.ids} == {"0001TP", "0006R0", "0016E5"} - {drive}
        assert sorted(trained.ids + tested.ids) == list(whole.ids)
        assert (trained.name, tested.name) == (f"camvid/train without {drive}*", f"camvid/train only {drive}*")
        held_out += tested.items
    assert tuple(held_out) == whole.items
