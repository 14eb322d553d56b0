"""A cloud in a file of its own, in every form, and models of clouds that take no time."""

import numpy as np

MODELS = """
import torch
from segcertify.models import PartSegmenter, PointNet2
from segcertify.models.networks.pointnet2 import checked

SEEN = []

class ByHeight(PointNet2):
    "Legs are low, backs are high; takes no time."

    def forward(self, points, category=None, seeds=None):
        points, _ = checked(points, category, normals=self.normals, categories=self.categories)
        SEEN.append(points)
        logits = torch.zeros(len(points), 50, points.shape[1])
        logits[:, 12], logits[:, 14] = 9 * points[..., 1], -9 * points[..., 1]
        return logits

def shapes(normals=True, category="Chair"):
    return PartSegmenter(ByHeight(normals).eval(), category, runs=1)

def heights():
    return lambda batch: SEEN.append(batch) or (batch[..., 1] > 0).long()
"""
SHAPES, HEIGHTS = "python:heights_of_clouds:shapes", "python:heights_of_clouds:heights"
BACK, LEG = 12, 14
NAMES = ["x", "y", "z", "nx", "ny", "nz", "label"]


def write(path, table, names):
    """A cloud in whatever form its suffix says."""
    if path.suffix == ".npy":
        np.save(path, table)
    elif path.suffix == ".txt":
        np.savetxt(path, table)
    else:
        properties = "".join(f"property float {name}\n" for name in names)
        header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(table)}\n{properties}end_header\n"
        path.write_bytes(header.encode() + table.astype("<f4").tobytes())
    return path


def changed(table, row, column, value):
    table = table.copy()
    table[row, column] = value
    return table
