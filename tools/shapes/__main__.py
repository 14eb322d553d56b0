"""Write generated shapes: ``python -m tools.shapes OUT --count 48 --seed 2021 [--category Chair ...]``.

OUT is a file (its name ends in .safetensors) such as the one that segcertify ships, or a folder that the data
set ``clouds:OUT?normals=true&points=all`` reads.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from segcertify.data.scene import Scene
from segcertify.data.sets.shapes import KIND, NORMALS, VERSION, XYZ
from segcertify.errors import InputError
from segcertify.figures.palette import part_colours
from segcertify.metrics.shapenet import CATEGORIES, PART_NAMES
from segcertify.progress import progress_bar
from segcertify.storage import archive
from tools.shapes import BUILDERS, POINTS, shapes


def write_file(path: Path, scenes: Sequence[Scene], *, seed: int) -> None:
    """Write the file that ``shapes:`` reads: coordinates and normals as small integers, about 20 kB a shape."""
    clouds = np.stack([scene.x for scene in scenes])
    arrays = {
        "xyz": np.rint(XYZ * clouds[..., :3]).astype(np.int16),
        "normals": np.rint(NORMALS * clouds[..., 3:]).astype(np.int8),
        "parts": np.stack([scene.target for scene in scenes]).astype(np.uint8),
    }
    header = {"seed": seed, "ids": [scene.id for scene in scenes], "categories": [scene.category for scene in scenes]}
    archive.write(path, kind=KIND, version=VERSION, header=header, arrays=arrays)


def write_folder(folder: Path, scenes: Iterable[Scene], *, name: str, categories: Sequence[str]) -> None:
    """Write the folder that ``clouds:`` reads: CATEGORY/ID.npy in full precision, and dataset.toml."""
    colours = part_colours(CATEGORIES.values()).tolist()
    entries = {"name": name, "clouds": ".", "suffix": ".npy", "columns": ["x", "y", "z", "nx", "ny", "nz", "label"]}
    lines = [f"{key} = {json.dumps(value)}" for key, value in entries.items()]
    lines += [f"classes = {json.dumps(PART_NAMES)}", f"colours = {json.dumps(colours)}", "", "[categories]"]
    for category in categories:
        (folder / category).mkdir(parents=True, exist_ok=True)
        lines.append(f'{category} = "{category}"')
    for scene in scenes:
        np.save(folder / scene.category / f"{scene.id}.npy", np.column_stack([scene.x, scene.target]).astype("f4"))
    (folder / "dataset.toml").write_text("\n".join([*lines, ""]), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Generate the shapes and write them."""
    parser = argparse.ArgumentParser(prog="python -m tools.shapes", description=__doc__)
    parser.add_argument("out", type=Path, help="a .safetensors file, or a new folder")
    parser.add_argument("--count", type=int, default=48, help="how many shapes (48)")
    parser.add_argument("--seed", type=int, default=2021, help="another one gives other shapes (2021)")
    parser.add_argument("--category", action="append", default=[], help="only this category; may be repeated")
    parser.add_argument("--points", type=int, default=POINTS, help=f"points of each shape ({POINTS})")
    given = parser.parse_args(arguments)
    out = given.out
    made = shapes(count=given.count, seed=given.seed, category=given.category, points=given.points)
    with progress_bar(given.count, f"generating {given.count} shapes") as advance:
        scenes = (scene for scene in made if advance(1) is None)
        if out.suffix == ".safetensors":
            write_file(out, list(scenes), seed=given.seed)
        elif out.exists():
            raise InputError(f"{out} exists already: name a new folder, or a file that ends in .safetensors")
        else:
            chosen = f" {','.join(given.category)}" if given.category else ""
            name = f"shapes/{given.count} of seed {given.seed}{chosen}"
            first = [*dict.fromkeys(given.category)] or [*BUILDERS][: given.count]
            write_folder(out, scenes, name=name, categories=first)
    print(f"wrote {out}")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"error: {error}")
