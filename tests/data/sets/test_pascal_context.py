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


def test_the_papers_images_are_every_51st_of_the_annotations_in_their_own_order(tmp_path):
    """The released code goes through PASCAL in Detail's file, whose order is not that of the converter's lists."""
    trees.pascal_context(tmp_path)
    folder = tmp_path / "VOCdevkit/VOC2010"
    names = [f"2009_{i:06}" for i in np.random.default_rng(0).permutation(104)]
    for name in names:
        trees.write(folder / "JPEGImages" / f"{name}.jpg", trees.picture(0, (2, 2)))
        trees.write(folder / "SegmentationClassContext" / f"{name}.png", np.ones((2, 2), np.uint8))
    (folder / "ImageSets/SegmentationContext/val.txt").write_text("\n".join(sorted(names)))
    phases = {}
    for name in names:  # phases are mixed
        phases |= {name: "val", name.replace("2009", "2010"): "train"}
    trees.pascal_in_detail(tmp_path, phases)
    scenes = data.load(f"pascal-context:{tmp_path}?order=json")
    assert list(scenes.ids) == names
    assert scenes.every(51).limit(100).ids == (names[0], names[51], names[102])
    assert scenes.name == "pascal-context/val in the order of trainval_merged.json"
    listed = data.load(f"pascal-context:{tmp_path}")
    assert list(listed.ids) == sorted(names) != names
    assert listed.name == "pascal-context/val"
    assert scenes.every(51)[1].target.shape == (480, 480)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"no .*trainval_merged\.json: copy PASCAL in Detail's file there, or write order=list"),
        ("{", "is not PASCAL in Detail's file .*download it again"),
        ("[]", "is not PASCAL in Detail's file"),
        ('{"images": [{"file_name": "2008_000008.jpg"}]}', "is not PASCAL in Detail's file .*phase"),
        ('{"images": [{"file_name": "2008_000008.jpg", "phase": "train"}]}', "no images of the split 'val'"),
    ],
)
def test_bad_annotations(tmp_path, content, message):
    trees.pascal_context(tmp_path)
    if content is not None:
        (tmp_path / "VOCdevkit/VOC2010/trainval_merged.json").write_text(content)
    with pytest.raises(InputError, match=message):
        data.load(f"pascal-context:{tmp_path}?order=json")


def test_an_order_must_be_known(tmp_path):
    with pytest.raises(InputError, match="unknown order 'sorted' of pascal-context: use list or json"):
        data.load(f"pascal-context:{trees.pascal_context(tmp_path)}?order=sorted")
