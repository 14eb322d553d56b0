"""A folder with a dataset.toml."""

import inspect
import textwrap

import numpy as np
import pytest
import trees

from segcertify import InputError, data
from segcertify.data.sets import image_folder as folder
from segcertify.figures.palette import voc_colours


def test_all_entries(tmp_path):
    scenes = data.load(f"folder:{trees.folder(tmp_path)}")
    assert scenes.name == "rooms/val"
    assert scenes.classes == ("floor", "wall", "chair")
    assert scenes.colours.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 255]]
    assert scenes.ids == ("home/hall", "home/kitchen", "office")
    assert "resized to 6 x 10" in repr(scenes)
    raw = np.array([[0, 1, 7], [9, 10, 254]], np.uint8)
    trees.write(scenes.items[0].label, np.kron(raw, np.ones((3, 4), np.uint8)))
    trees.write(scenes.items[0].image, trees.picture(0, (6, 12)))
    scene = scenes[0]
    assert scene.target.shape == (6, 10)
    assert scene.target[:, [0, 4, 9]].tolist() == 3 * [[0, 2, 1]] + 3 * [[0, 0, 0]]
    assert scene.valid[:, [0, 4, 9]].tolist() == 3 * [[False, True, True]] + 3 * [[True, True, False]]


def test_only_classes_are_required(tmp_path):
    (tmp_path / "dataset.toml").write_text('classes = ["a", "b"]')
    for name in ("p.jpg", "q.jpeg", "r.png"):
        trees.write(tmp_path / "images" / name, trees.picture(0, (4, 4)))
        trees.write(tmp_path / "labels" / f"{name[0]}.png", trees.values(0, (4, 4), [0, 1]))
    scenes = data.load(f"folder:{tmp_path}")
    assert (scenes.name, scenes.ids) == (tmp_path.name, ("p", "q", "r"))
    np.testing.assert_array_equal(scenes.colours, voc_colours(2))
    assert scenes[0].valid.all()
    with pytest.raises(InputError, match=r'knows no splits, but got split=.val.: write images = "\{split\}/images"'):
        data.load(f"folder:{tmp_path}?split=val")


def test_the_example_in_the_docstring_works(tmp_path):
    text = inspect.getdoc(folder.load).split("::", 1)[1].split("Every image needs")[0]
    (tmp_path / "dataset.toml").write_text(textwrap.dedent(text))
    trees.write(tmp_path / "val/images/p.jpg", trees.picture(0, (4, 4)))
    trees.write(tmp_path / "val/labels/p_mask.png", trees.values(0, (4, 4), [0, 7, 255]))
    scenes = data.load(f"folder:{tmp_path}")
    assert (scenes.name, len(scenes)) == ("my pictures/val", 1)
    assert scenes[0].target.max() == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classes = [", "is not TOML"),
        ('colour = "red"', "unknown entry 'colour': use name, images, labels"),
        ("", "lacks the entry 'classes': add, for example"),
        ("classes = 3", "classes must be a string, but got 3"),
        ("classes = []", r"classes must be a string, but got \[\]"),
        ('classes = ["a", "a"]', "classes must be different"),
        ('classes = ["a"]\nimages = 1', "images must be a string, but got 1"),
        ('classes = ["a"]\ncolours = [[0, 0, 0], [1, 1, 1]]', "one .red, green, blue. for each of 1 classes"),
        ('classes = ["a"]\ncolours = [[0, 0]]', r"a colour is \[red, green, blue\], but got \[0, 0\]"),
        ('classes = ["a"]\ncolours = [[0, 0, 256]]', r"colours must be a whole number in 0 \.\. 255, but got 256"),
        ('classes = ["a"]\nignore = "void"', r"ignore must be a whole number in 0 \.\. 65535, but got 'void'"),
        ('classes = ["a"]\nignore = [-1]', "ignore must be a whole number"),
        ('classes = ["a"]\nignore = true', "ignore must be a whole number"),
        ('classes = ["a"]\nignore = 0', "the value 0 is ignored and also the class 'a': take one away"),
        ('classes = ["a"]\nresize = 480', r"resize must be \[height, width\], but got 480"),
        ('classes = ["a"]\nresize = [0, 4]', r"resize must be \[height, width\], but got \[0, 4\]"),
        ('classes = ["a"]\nresize = [4.5, 4]', "resize must be a whole number"),
        ('classes = ["a"]\nlabel_map = 3', r"label_map must be a table such as \[label_map\], but got 3"),
        ('classes = ["a"]\n[label_map]\n1 = "b"', "one of the classes a, but has 1 = 'b'"),
        ('classes = ["a"]\n[label_map]\n65536 = "a"', r"label_map must be a whole number in 0 \.\. 65535"),
        ('classes = ["a"]\n[label_map]\nx = "a"', "takes a label value .*, but has x = 'a'"),
    ],
)
def test_bad_descriptions(tmp_path, text, message):
    trees.write(tmp_path / "images/p.jpg", trees.picture(0, (4, 4)))
    trees.write(tmp_path / "labels/p.png", np.zeros((4, 4), np.uint8))
    (tmp_path / "dataset.toml").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        data.load(f"folder:{tmp_path}")
    assert "dataset.toml" in str(caught.value)


def test_no_description(tmp_path):
    with pytest.raises(InputError, match=r"no file at .*dataset\.toml: write one with at least classes"):
        data.load(f"folder:{tmp_path}")
