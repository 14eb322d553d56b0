"""A card, and an evaluation for one."""

import numpy as np

import segcertify as sc
from segcertify.models import Card
from segcertify.models.card_results import Evaluated
from segcertify.preprocessing import of_image

FIELDS = {
    "architecture": {"family": "python", "spec": "python:mine:make?depth=3"},
    "classes": ("sky", "road", "car | bus"),
    "colours": ((128, 128, 128), (0, 0, 0), (255, 0, 64)),
    "data": "camvid/train+val (468 scenes)",
    "objective": "cross-entropy, consistency 10",
    "sigma": (0.25, 0.5),
    "recipe": {"epochs": 3, "crop": (4, 5), "schedule": {"warm-up": 0.1, "kind": "cosine"}, "flip": True, "note": None},
    "metrics": {"certified accuracy": np.float32(0.5), "mIoU": 0.123456},
    "licence": "CamVid: research only\nImageNet weights: Apache-2.0",
    "date": "2025-01-31",
    "version": "0.1.0",
}


def card(**changes):
    return Card(**{**FIELDS, **changes})


BASE = {"sigma": None, "n": None, "tau": None, "radius": None, "accuracy": 0.96, "miou_worst_case": 0.9, "abstained": 0}
CERTIFIED = {
    "sigma": 0.25, "n": 100, "tau": 0.75, "radius": 0.16862239, "accuracy": 0.94759, "miou_worst_case": 0.81349,
    "abstained": 0.03869,
}  # fmt: skip
FOUND = Evaluated("pets/val", 31, sc.Gaussian(0.25), 10, 0.001, "holm", [BASE, CERTIFIED], of_image(), command="a `b`")
