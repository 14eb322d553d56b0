"""Scenes to evaluate, and records that do not depend on how long it took."""

import json
from dataclasses import asdict

import numpy as np
from PIL import Image

from segcertify.records import read_records


def pets(root):
    """Five small scenes in the pets layout: dark is background, bright is cat, with wrong and ignored pixels."""
    rng = np.random.default_rng(0)
    for folder in ("images", "labels"):
        (root / folder).mkdir(parents=True)
    for name in "abcde":
        bright = rng.random((12, 16)) < 0.5
        pixels = np.where(bright[..., None], 200, 60) + rng.integers(-40, 40, (12, 16, 3))
        labels = np.where(rng.random((12, 16)) < 0.1, 2, bright.astype(int))
        labels[0] = 255
        Image.fromarray(pixels.astype(np.uint8)).save(root / "images" / f"{name}.jpg", quality=95)
        Image.fromarray(labels.astype(np.uint8)).save(root / "labels" / f"{name}.png")
    return root


def without_times(path):
    return plain(read_records(path))


def plain(records):
    """Records without times."""
    return [{k: v for k, v in asdict(record).items() if not k.endswith("_seconds")} for record in records]


def make_older(folder, *missing, **changed):
    """A run's folder as earlier versions wrote it: no digests, these settings missing, and these with other values."""
    config, records = folder / "config.json", folder / "records.jsonl"
    stored = json.loads(config.read_text()) | changed
    config.write_text(json.dumps({key: stored[key] for key in stored if key not in ("format", "digest", *missing)}))
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    records.write_text("".join(json.dumps({k: v for k, v in each.items() if k != "digest"}) + "\n" for each in lines))
