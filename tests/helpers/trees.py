"""Tiny data sets in their real layouts, made by the tests."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
"""Real data, where it is: beside the repository, not in it."""


def write(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def picture(seed, size):
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)


def values(seed, size, choices):
    """A label image in which every choice occurs."""
    flat = np.resize(np.asarray(choices, np.uint8), size[0] * size[1])
    return np.random.default_rng(seed).permutation(flat).reshape(size)


def cityscapes(root, size=(8, 16)):
    names = ["frankfurt_000000_000294", "frankfurt_000001_000538", "lindau_000000_000019"]
    for split, shift in (("train", 100), ("val", 0)):
        for i, name in enumerate(names):
            city = name.split("_")[0]
            write(root / "leftImg8bit" / split / city / f"{name}_leftImg8bit.png", picture(shift + i, size))
            label = root / "gtFine" / split / city / f"{name}_gtFine"
            write(label.with_name(f"{label.name}_labelIds.png"), values(shift + i, size, range(34)))
            write(label.with_name(f"{label.name}_color.png"), picture(0, size))
            write(label.with_name(f"{label.name}_instanceIds.png"), values(0, size, range(9)))
    return root


def pascal_context(root, size=(30, 40)):
    folder = root / "VOCdevkit" / "VOC2010"
    ids = {"train": ["2008_000002", "2008_000043"], "val": ["2008_000008", "2008_000026", "2010_006086"]}
    (folder / "ImageSets" / "SegmentationContext").mkdir(parents=True)
    for split, names in ids.items():
        (folder / "ImageSets" / "SegmentationContext" / f"{split}.txt").write_text("\n".join(names) + "\n")
        for i, name in enumerate(names):
            write(folder / "JPEGImages" / f"{name}.jpg", picture(i, size))
            write(folder / "SegmentationClassContext" / f"{name}.png", values(i, size, range(60)))
    write(folder / "JPEGImages" / "2007_000001.jpg", picture(9, size))  # VOC has images that Context does not
    return root


def pascal_in_detail(root, phases):
    """The annotations of PASCAL in Detail, as far as they say which images there are: names with their phase."""
    images = [
        {"image_id": int(name.replace("_", "")), "file_name": f"{name}.jpg", "phase": phase, "height": 30, "width": 40}
        for name, phase in phases.items()
    ]
    segment = {"id": 1, "image_id": 2008000002, "category_id": 2, "segmentation": {"size": [30, 40], "counts": "a"}}
    content = {"info": {"version": "3"}, "annos_segmentation": [segment] * 3, "images": images, "categories": []}
    (root / "VOCdevkit" / "VOC2010" / "trainval_merged.json").write_text(json.dumps(content))
    return root


def camvid(root, size=(9, 12)):
    ids = {
        "train": [
            "0001TP_006690",
            "0001TP_006720",
            "0006R0_f00930",
            "0006R0_f00960",
            "0016E5_00390",
            "0016E5_00420",
            "0016E5_00450",
        ],
        "val": ["0016E5_07959", "0016E5_07961", "0016E5_07963", "0016E5_07965"],
    }
    for split, names in ids.items():
        for i, name in enumerate(names):
            write(root / split / "images" / f"{name}.jpg", picture(i, size))
            write(root / split / "labels" / f"{name}.png", values(i, size, range(12)))
    return root


def pets(root, size=(9, 12), count=23):
    for i in range(count):
        write(root / "images" / f"Abyssinian_{i:02}.jpg", picture(i, size))
        write(root / "labels" / f"Abyssinian_{i:02}.png", values(i, size, [0, 1, 2, 255]))
    return root


TOML = """
name = "rooms"
images = "{split}/pictures"
labels = "{split}/masks"
image_suffix = ".png"
label_suffix = "_mask.png"
classes = ["floor", "wall", "chair"]
colours = [[1, 2, 3], [4, 5, 6], [7, 8, 255]]
ignore = [0, 254]
resize = [6, 10]

[label_map]
1 = "chair"
7 = "wall"
9 = "floor"
10 = "floor"
"""


def folder(root, size=(9, 12)):
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset.toml").write_text(TOML)
    for split in ("train", "val"):
        for i, name in enumerate(["home/kitchen", "home/hall", "office"]):
            write(root / split / "pictures" / f"{name}.png", picture(i, size))
            write(root / split / "masks" / f"{name}_mask.png", values(i, size, [0, 1, 7, 9, 10, 254]))
    return root


IMAGES = {"cityscapes": cityscapes, "pascal-context": pascal_context, "camvid": camvid, "pets": pets, "folder": folder}

SYNSETS = {
    "Airplane": "02691156", "Bag": "02773838", "Cap": "02954340", "Car": "02958343", "Chair": "03001627",
    "Earphone": "03261776", "Guitar": "03467517", "Knife": "03624134", "Lamp": "03636649", "Laptop": "03642806",
    "Motorbike": "03790512", "Mug": "03797390", "Pistol": "03948459", "Rocket": "04099429",
    "Skateboard": "04225987", "Table": "04379243",
}  # fmt: skip

SHAPES = {  # in shuffled order, as in the real lists
    "train": ["Mug/4b", "Airplane/1f3", "Mug/4a", "Airplane/1a"],
    "val": ["Mug/5a", "Bag/1a"],
    "test": ["Table/77", "Airplane/2b", "Mug/6", "Airplane/2a", "Mug/5"],
}
PARTS = {"Airplane": range(4), "Bag": (4, 5), "Mug": (36, 37), "Table": (47, 48, 49)}


def rows(seed, labels, count=60):
    """Points off the origin with unit normals and every label: (count, 7)."""
    rng = np.random.default_rng(seed)
    normals = rng.normal(size=(count, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    xyz = rng.normal((1, -2, 3), (0.2, 0.4, 0.1), size=(count, 3))
    return np.column_stack([xyz, normals, rng.permutation(np.resize(list(labels), count))])


def write_rows(path, table):
    """A line for each row, in ShapeNet's format: x y z nx ny nz part, with the part as a float."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("{:.5f} {:.5f} {:.5f} {:.4f} {:.4f} {:.4f} {:.6f}\n".format(*row) for row in table))


def shapenet(root):
    (root / "train_test_split").mkdir(parents=True)
    (root / "synsetoffset2category.txt").write_text("".join(f"{name}\t{number}\n" for name, number in SYNSETS.items()))
    for split, names in SHAPES.items():
        entries = []
        for i, name in enumerate(names):
            category, shape = name.split("/")
            entries.append(f"shape_data/{SYNSETS[category]}/{shape}")
            write_rows(root / SYNSETS[category] / f"{shape}.txt", rows(i, PARTS[category]))
        (root / "train_test_split" / f"shuffled_{split}_file_list.json").write_text(json.dumps(entries))
    write_rows(root / SYNSETS["Mug"] / "unlisted.txt", rows(9, PARTS["Mug"]))
    return root


CLOUDS_TOML = """
name = "furniture"
clouds = "{split}/scans"
columns = ["x", "y", "z", "nx", "ny", "nz", "label"]
classes = ["seat", "leg", "top"]
colours = [[1, 2, 3], [4, 5, 6], [7, 8, 255]]
ignore = [-1, 0]

[label_map]
1 = "top"
7 = "leg"
9 = "seat"

[categories]
chairs = "Chair"
tables = "Table"
"""


def clouds(root):
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset.toml").write_text(CLOUDS_TOML)
    for split, shift in (("train", 10), ("val", 0)):
        for i, name in enumerate(["chairs/a", "chairs/b", "tables/a"]):
            path = root / split / "scans" / name
            write_rows(path.with_suffix(".txt"), table := rows(shift + i, [-1, 0, 1, 7, 9]))
            if name == "tables/a":
                path.with_suffix(".txt").unlink()
                np.save(path.with_suffix(".npy"), table.astype(np.float32))
    return root


CLOUDS = {"shapenet": shapenet, "clouds": clouds}
