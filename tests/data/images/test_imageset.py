"""Images: one contract for all of their data sets, then what is special about each."""

from pathlib import Path

import numpy as np
import pytest
import trees
from PIL import Image

from segcertify import InputError, data
from segcertify.data.domain import IMAGE
from segcertify.data.images.imageset import ImageSet
from segcertify.data.images.reading import ImageFiles
from segcertify.data.label_codes import IGNORE
from segcertify.figures.palette import voc_colours


def some(root, codes=None, resize=None):
    """A small data set over whatever lies in the folders images and labels."""
    images = sorted((root / "images").iterdir())
    pairs = tuple(ImageFiles(path.stem, path, root / "labels" / f"{path.stem}.png") for path in images)
    return ImageSet("some", ("a", "b"), voc_colours(2), pairs, codes or {0: 0, 1: 1, 255: IGNORE}, resize)


@pytest.mark.parametrize("name", trees.IMAGES)
def test_every_data_set(tmp_path, name):
    trees.IMAGES[name](tmp_path)
    scenes = data.load(f"{name}:{tmp_path}")
    C = len(scenes.classes)
    assert isinstance(scenes, data.ImageSet)
    assert scenes.domain is IMAGE
    assert scenes.colours.shape == (C, 3)
    assert scenes.colours.dtype == np.uint8
    assert len({tuple(colour) for colour in scenes.colours}) == C
    assert len(scenes) == len(scenes.ids) == len(set(scenes.ids)) > 2
    assert list(scenes.ids) == sorted(scenes.ids)
    scenes.check()
    for scene, name_of_it in zip(scenes, scenes.ids, strict=True):
        assert scene.id == name_of_it
        height, width = scene.target.shape
        assert scene.x.shape == (3, height, width)
        assert (scene.x.dtype, scene.valid.dtype) == (np.float32, bool)
        assert np.issubdtype(scene.target.dtype, np.integer)
        assert 0 <= scene.x.min() <= scene.x.max() <= 1
        assert set(np.unique(scene.target[scene.valid])) == set(range(C))  # the trees hold every class
        assert (scene.target[~scene.valid] == 0).all()
        assert 0 < scene.valid.mean() < 1
    assert f"{len(scenes)} scenes, {C} classes" in repr(scenes)
    assert scenes.ids[-1] in repr(scenes[-1])


@pytest.mark.parametrize("name", trees.IMAGES)
def test_splits(tmp_path, name):
    trees.IMAGES[name](tmp_path)
    val = data.load(f"{name}:{tmp_path}?split=val")
    assert val.name.endswith("/val")
    assert data.load(f"{name}:{tmp_path}", split="val").ids == val.ids
    train = data.load(f"{name}:{tmp_path}?split=train", split="train")
    assert train.name.endswith("/train")
    assert {p.image for p in train.items}.isdisjoint(p.image for p in val.items)
    for other in ("test", "../val"):
        with pytest.raises(InputError, match=r"split|no folder"):
            data.load(f"{name}:{tmp_path}", split=other)
    with pytest.raises(InputError, match=r"asks for the split 'val', but split='train' was given too: say it once"):
        data.load(f"{name}:{tmp_path}?split=val", split="train")


@pytest.mark.parametrize("name", trees.IMAGES)
def test_a_missing_label_is_found_before_any_work(tmp_path, name):
    trees.IMAGES[name](tmp_path)
    data.load(f"{name}:{tmp_path}").items[1].label.unlink()
    with pytest.raises(InputError, match=r"has no label: expected .*; add it or remove the image"):
        data.load(f"{name}:{tmp_path}")


@pytest.mark.parametrize("name", trees.IMAGES)
def test_a_bad_label_is_found_by_check_and_when_read(tmp_path, name):
    trees.IMAGES[name](tmp_path)
    scenes = data.load(f"{name}:{tmp_path}")
    label = scenes.items[1].label
    trees.write(label, np.full(np.asarray(Image.open(label)).shape, 100, np.uint8))
    scenes[0]
    for read in (scenes.check, lambda: scenes[1], scenes.every(1).limit(2).check):
        with pytest.raises(InputError, match=rf"{label.name}, pixel \(0, 0\), holds the value 100, which is neither a"):
            read()


@pytest.mark.parametrize("name", ["cityscapes", "folder"])
def test_splits_whose_images_share_names_are_not_joined(tmp_path, name):
    trees.IMAGES[name](tmp_path)
    with pytest.raises(InputError, match=r"/train\+val holds '.*' more than once: every scene needs its own name"):
        data.load(f"{name}:{tmp_path}?split=train+val")


def test_a_scene_is_what_the_files_say(tmp_path):
    trees.write(tmp_path / "images/p.png", pixels := trees.picture(0, (2, 3)))
    trees.write(tmp_path / "labels/p.png", np.array([[0, 1, 255], [1, 0, 1]], np.uint8))
    scene = some(tmp_path)[0]
    np.testing.assert_array_equal(scene.x, pixels.transpose(2, 0, 1) / np.float32(255))
    assert scene.target.tolist() == [[0, 1, 0], [1, 0, 1]]
    assert scene.valid.tolist() == [[True, True, False], [True] * 3]


def test_resizing_mixes_colours_but_never_labels(tmp_path):
    trees.write(tmp_path / "images/p.png", pixels := trees.picture(0, (2, 2)))
    trees.write(tmp_path / "labels/p.png", np.array([[0, 1], [255, 1]], np.uint8))
    scene = some(tmp_path, resize=(4, 6))[0]
    np.testing.assert_array_equal(scene.target, np.kron([[0, 1], [0, 1]], np.ones((2, 3), int)))
    np.testing.assert_array_equal(scene.valid, np.kron([[1, 1], [0, 1]], np.ones((2, 3))) == 1)
    wide = np.asarray(Image.fromarray(pixels).resize((6, 4), Image.Resampling.BILINEAR), np.float32)
    np.testing.assert_allclose(scene.x, wide.transpose(2, 0, 1) / 255, atol=1.01 / 255)


def test_image_and_label_of_different_size(tmp_path):
    trees.write(tmp_path / "images/p.png", trees.picture(0, (4, 6)))
    trees.write(tmp_path / "labels/p.png", np.zeros((6, 4), np.uint8))
    for resize in (None, (5, 5)):
        for read in (some(tmp_path, resize=resize).check, lambda size=resize: some(tmp_path, resize=size)[0]):
            with pytest.raises(
                InputError, match=r"labels.p\.png is 6 x 4 pixels, but .*p\.png is 4 x 6: a label needs"
            ):
                read()


@pytest.mark.parametrize("name", trees.IMAGES)
def test_shapes_are_those_of_the_scenes_and_need_headers_alone(tmp_path, name, monkeypatch):
    scenes = data.load(f"{name}:{trees.IMAGES[name](tmp_path)}")
    for chosen in (scenes, scenes.resized(7)):
        expected = [scene.target.shape for scene in chosen]
        with monkeypatch.context() as patch:
            patch.setattr("segcertify.data.images.imageset.read_image", None)
            patch.setattr("segcertify.data.images.imageset.read_target", None)
            assert [chosen.shape(i) for i in range(len(chosen))] == expected
            twice = data.mixture([chosen], [2])
            assert [twice.shape(i) for i in range(len(twice))] == 2 * expected


def test_bad_label_files(tmp_path):
    trees.write(tmp_path / "images/p.png", trees.picture(0, (4, 6)))
    label = tmp_path / "labels/p.png"
    for pixels, message in [
        (np.zeros((4, 6, 3), np.uint8), "must hold one class number per pixel"),
        (np.full((4, 6), 2, np.uint8), r"holds the value 2, .* \(allowed: 0 \.\. 1, 255\): correct the file"),
        (np.full((4, 6), 60000, np.uint16), "holds the value 60000"),
    ]:
        trees.write(label, pixels)
        with pytest.raises(InputError, match=message):
            some(tmp_path).check()
    label.write_bytes(label.read_bytes()[:50])
    with pytest.raises(InputError, match=r"p\.png (cannot be read|is not an image)"):
        some(tmp_path).check()


def test_a_cut_image_is_found_when_its_scene_is_read(tmp_path):
    trees.write(tmp_path / "images/p.png", trees.picture(0, (40, 60)))
    trees.write(tmp_path / "labels/p.png", np.zeros((40, 60), np.uint8))
    image = tmp_path / "images/p.png"
    image.write_bytes(image.read_bytes()[:900])
    scenes = some(tmp_path)
    scenes.check()
    with pytest.raises(InputError, match=r"images.p\.png cannot be read .*: is it truncated\?"):
        scenes[0]


def test_what_a_data_set_refuses():
    one = (ImageFiles("p", Path("p.jpg"), Path("p.png")),)
    for arguments, message in [
        ((("a",), voc_colours(2), one, {0: 0}), r"1 classes, but colours of shape \(2, 3\)"),
        ((("a",), voc_colours(1), (), {0: 0}), "holds no scenes"),
        ((("a",), voc_colours(1), one * 2, {0: 0}), "holds 'p' more than once"),
        ((("a",), voc_colours(1), one, {0: 1}), r"must map to 0 \.\. 0"),
        ((("a",), voc_colours(1), one, {-1: 0}), "label values"),
        ((("a",), voc_colours(1), one, {}), "label values"),
    ]:
        with pytest.raises(InputError, match=message):
            ImageSet("some", *arguments)


@pytest.mark.parametrize(("spec", "count"), [("camvid/val", 101), ("camvid/train", 367), ("pets/trainval", 3679)])
def test_the_real_folders(spec, count):
    """Every image has a label, and a sample of scenes reads as the folder's README says."""
    name, split = spec.split("/")
    if not (trees.SHARED / name).is_dir():
        pytest.skip(f"no real {name} at ../shared/data/{name}: the test needs the data set itself")
    scenes = data.load(f"{name}:{trees.SHARED / name}", split=split)
    assert len(scenes) == count
    sample = scenes.every(count // 8)
    sample.check()
    seen = set()
    for scene in sample:
        height, width = scene.target.shape
        assert (height, width) == (360, 480) if name == "camvid" else min(height, width) == 160
        seen |= set(np.unique(scene.target[scene.valid]))
        assert 0.5 < scene.valid.mean() <= 1
        assert scene.x.std() > 0.05
    assert seen == set(range(len(scenes.classes)))
