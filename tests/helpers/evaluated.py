"""Scenes to evaluate, and records that do not depend on how long it took."""

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
    records = [asdict(record) for record in read_records(path)]
    return [{k: v for k, v in record.items() if not k.endswith("_seconds")} for record in records]
