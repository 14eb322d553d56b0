"""A folder of clouds with a dataset.toml."""

import inspect
import json
import struct
import textwrap

import numpy as np
import pytest
import trees

from segcertify import InputError, data
from segcertify.data.sets import cloud_folder
from segcertify.figures.palette import voc_colours
from segcertify.metrics.shapenet import PART_NAMES


def write_ply(path, table):
    """Binary, with the label as a byte and under another name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = "".join(f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz"))
    head = f"ply\nformat binary_big_endian 1.0\nelement vertex {len(table)}\n{names}property uchar part\nend_header\n"
    path.write_bytes(head.encode() + b"".join(struct.pack(">6fB", *row[:6], int(row[6])) for row in table))


def test_all_entries(tmp_path):
    scenes = data.load(f"clouds:{trees.clouds(tmp_path)}")
    assert scenes.name == "furniture/val"
    assert scenes.classes == ("seat", "leg", "top")
    assert scenes.colours.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 255]]
    assert scenes.ids == ("chairs/a", "chairs/b", "tables/a")
    assert scenes.categories == {"Chair": (0, 1, 2), "Table": (0, 1, 2)}
    assert [scene.category for scene in scenes] == ["Chair", "Chair", "Table"]
    whole = data.load(f"clouds:{tmp_path}?points=all")
    assert whole.name == "furniture/val of all points"
    for i, scene in enumerate(whole):
        labels = trees.rows(i, [-1, 0, 1, 7, 9])[:, 6]
        np.testing.assert_array_equal(scene.valid, labels > 0)
        np.testing.assert_array_equal(scene.target, [{1: 2, 7: 1}.get(label, 0) for label in labels])
    train = data.load(f"clouds:{tmp_path}?split=train&only=chairs/*")
    assert (train.name, train.ids) == ("furniture/train only chairs/*", ("chairs/a", "chairs/b"))


def test_shapenets_categories_have_their_own_parts_alone(tmp_path):
    """Where the classes are its 50 parts: else a part that no chair can have would count as found in shape IoU."""
    classes = f"classes = {json.dumps(PART_NAMES)}\n[categories]\na = 'Chair'\nb = 'Sofa'"
    (tmp_path / "dataset.toml").write_text(classes)
    for folder, part in (("a", 12), ("b", 40)):
        (tmp_path / "clouds" / folder).mkdir(parents=True)
        np.save(tmp_path / "clouds" / folder / "p.npy", trees.rows(0, [part])[:, [0, 1, 2, 6]])
    scenes = data.load(f"clouds:{tmp_path}")
    assert scenes.categories == {"Chair": (12, 13, 14, 15), "Sofa": tuple(range(50))}
    assert [set(scene.target.tolist()) for scene in scenes] == [{12}, {40}]
    np.save(tmp_path / "clouds/a/p.npy", trees.rows(0, [12, 40])[:, [0, 1, 2, 6]])
    with pytest.raises(InputError, match=r"holds the value 40, which is neither a class of Chair nor ignored"):
        scenes[0]


def test_only_classes_are_required(tmp_path):
    (tmp_path / "dataset.toml").write_text('classes = ["a", "b"]')
    (tmp_path / "clouds/deep").mkdir(parents=True)
    table = trees.rows(0, [0, 1])[:, [0, 1, 2, 6]]
    np.savetxt(tmp_path / "clouds/p.txt", table)
    np.save(tmp_path / "clouds/deep/q.npy", table)
    scenes = data.load(f"clouds:{tmp_path}?points=all")
    assert (scenes.name, scenes.ids) == (f"{tmp_path.name} of all points", ("deep/q", "p"))
    np.testing.assert_array_equal(scenes.colours, voc_colours(2))
    np.testing.assert_allclose(scenes[0].x, scenes[1].x)
    assert [scene.category for scene in scenes] == ["", ""]
    with pytest.raises(InputError, match=r'knows no splits, but got split=.val.: write clouds = "\{split\}/clouds"'):
        data.load(f"clouds:{tmp_path}?split=val")
    with pytest.raises(InputError, match="the column 'nx' must be there once, but the columns are x y z label: say"):
        data.load(f"clouds:{tmp_path}?normals=true")


def test_ply_files_name_their_columns(tmp_path):
    (tmp_path / "dataset.toml").write_text('classes = ["a", "b"]\nlabel = "part"\nsuffix = ".ply"')
    write_ply(tmp_path / "clouds/p.ply", table := trees.rows(0, [0, 1]))
    scene = data.load(f"clouds:{tmp_path}?normals=true&points=all")[0]
    np.testing.assert_array_equal(scene.x[:, 3:], table[:, 3:6].astype(np.float32))
    np.testing.assert_array_equal(scene.target, table[:, 6])
    (tmp_path / "dataset.toml").write_text('classes = ["a", "b"]')
    with pytest.raises(InputError, match=r"p\.ply: no vertex property 'label', only x, y, z, nx, ny, nz, part: add it"):
        data.load(f"clouds:{tmp_path}").check()


def test_the_example_in_the_docstring_works(tmp_path):
    text = inspect.getdoc(cloud_folder.load).split("::", 1)[1].split("A text file")[0]
    (tmp_path / "dataset.toml").write_text(textwrap.dedent(text))
    table = np.insert(trees.rows(0, [-1, 7, 8, 9]), 3, 200, axis=1)  # red
    (tmp_path / "val/clouds/chairs").mkdir(parents=True)
    np.save(tmp_path / "val/clouds/chairs/p.npy", table)
    scenes = data.load(f"clouds:{tmp_path}?normals=true&points=all")
    assert (scenes.name, len(scenes)) == ("my clouds/val of all points with normals", 1)
    np.testing.assert_array_equal(scenes[0].x[:, 3:], table[:, 4:7].astype(np.float32))
    assert scenes[0].target.max() == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classes = [", "is not TOML"),
        ('images = "a"', "unknown entry 'images': use name, clouds, suffix, columns"),
        ("", "lacks the entry 'classes': add, for example"),
        ('classes = ["a", "a"]', "classes must be different"),
        ('classes = ["a"]\ncolumns = 4', "columns must be a string, but got 4"),
        ('classes = ["a"]\ncolumns = ["x", "y", 3]', "columns must be a string, but got 3"),
        ('classes = ["a"]\nlabel = []', r"label must be a string, but got \[\]"),
        ('classes = ["a"]\nignore = -2', r"ignore must be a whole number in -1 \.\. 65535, but got -2"),
        ('classes = ["a"]\nignore = 0', "the value 0 is ignored and also the class 'a'"),
        (
            'classes = ["a"]\ncategories = "Chair"',
            r"categories must be a table such as \[categories\], but got 'Chair'",
        ),
        ('classes = ["a"]\n[categories]\nchairs = 3', "takes a subfolder and a name, .*, but has chairs = 3"),
        ('classes = ["a"]\n[label_map]\n1 = "b"', "one of the classes a, but has 1 = 'b'"),
    ],
)
def test_bad_descriptions(tmp_path, text, message):
    (tmp_path / "clouds").mkdir()
    np.save(tmp_path / "clouds/p.npy", np.eye(4))
    (tmp_path / "dataset.toml").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        data.load(f"clouds:{tmp_path}")
    assert "dataset.toml" in str(caught.value)


def test_bad_folders(tmp_path):
    with pytest.raises(
        InputError, match=r"no file at .*dataset\.toml: .* \(see segcertify\.data\.sets\.cloud_folder\)"
    ):
        data.load(f"clouds:{tmp_path}")
    trees.clouds(tmp_path)
    with pytest.raises(InputError, match=r"no folder at .*test.scans: check the path"):
        data.load(f"clouds:{tmp_path}?split=test")
    np.save(tmp_path / "val/scans/p.npy", np.eye(7))
    with pytest.raises(
        InputError,
        match=r"p\.npy lies in none of the subfolders that have a category \(chairs, tables\): move it there",
    ):
        data.load(f"clouds:{tmp_path}")
    (tmp_path / "val/scans/p.npy").rename(tmp_path / "val/scans/chairs/a.npy")
    with pytest.raises(InputError, match="share the name 'chairs/a': keep one of them"):
        data.load(f"clouds:{tmp_path}")
    (tmp_path / "empty/scans").mkdir(parents=True)
    with pytest.raises(InputError, match=r"no cloud ending in \.txt or \.npy or \.ply in .*: check the path"):
        data.load(f"clouds:{tmp_path}?split=empty")
