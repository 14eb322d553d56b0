"""What a newcomer brings to the first hour: a photograph from a phone, scans, clouds, and models of all kinds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import segcertify as sc
from segcertify.arrays import Array, IntArray
from segcertify.models.networks.hrnet import Architecture, HRNet

MEGAPIXELS = (3000, 4000)
VOID = 11
"""The number of no class in one of the label images."""

MODELS = '''
"""The newcomer's own models."""

import time

import torch
from PIL import Image
from torch import nn

import segcertify as sc


class Slow(nn.Module):
    """A network that takes a second for an image."""

    def forward(self, batch):
        time.sleep(len(batch))
        return torch.stack([batch.mean(1), 1 - batch.mean(1)], 1)


class Binary(nn.Module):
    """One score a pixel."""

    def forward(self, batch):
        return 20 * (batch.mean(1, keepdim=True) - 0.5)


class Volumes(nn.Module):
    """Inside or outside, by the mean of 5 x 5 x 5 voxels."""

    def forward(self, batch):
        inside = nn.functional.avg_pool3d(batch, 5, 1, 2, count_include_pad=False) - 0.5
        return torch.cat([-inside, inside], 1)


class JaxLike:
    """An array that torch does not know, as JAX has them."""

    def __init__(self, scores):
        self.scores = scores

    def __array__(self, dtype=None, copy=None):
        return self.scores.numpy()


class HuggingFace:
    """An output with logits."""

    def __init__(self, logits):
        self.logits = logits


def slow():
    return Slow().eval()


def binary():
    return Binary().eval()


def volumes():
    return Volumes().eval()


def unet(num_classes):
    torch.manual_seed(0)
    return nn.Conv2d(3, num_classes, 5, padding=2).eval()


def photograph():
    """The small photograph, as floats in [0, 1]."""
    return torch.from_numpy(sc.data.read_input("small.jpg").x)
'''
"""The module that lies in the newcomer's folder."""


def bring(folder: Path, image: Array, target: IntArray) -> None:
    """Write all files: of an image (3, height, width) in [0, 1] and its target, of a volume, of a chair, of models."""
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(MODELS, encoding="utf-8")
    _photographs(folder, image, target)
    _scans(folder)
    _clouds(folder)
    _checkpoints(folder)


def _photographs(folder: Path, image: Array, target: IntArray) -> None:
    """The scene as a phone held upright stores it: 12 megapixels, lying on its side, with an EXIF orientation."""
    small = Image.fromarray(np.round(255 * image.transpose(1, 2, 0)).astype(np.uint8))
    labels = Image.fromarray(np.where(target < 0, 255, target).astype(np.uint8))
    size = MEGAPIXELS if small.height >= small.width else MEGAPIXELS[::-1]
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = small.resize(size, Image.Resampling.LANCZOS).transpose(Image.Transpose.ROTATE_90)
    stored.save(folder / "photo.jpg", quality=92, exif=exif)
    labels.resize(size, Image.Resampling.NEAREST).save(folder / "photo-label.png")
    small.save(folder / "small.jpg", quality=92)
    Image.fromarray(np.where(target < 0, VOID, target).astype(np.uint8)).save(folder / "small-label.png")
    (folder / "photos").mkdir()
    for name, turned in (("a.jpg", small), ("b.jpg", small.transpose(Image.Transpose.FLIP_LEFT_RIGHT))):
        turned.save(folder / "photos" / name, quality=92)


def _scans(folder: Path) -> None:
    """A ball in a volume, as NumPy and as NIfTI, with its labels."""
    import nibabel

    places = np.indices((40, 48, 36)) - np.array([20, 24, 18])[:, None, None, None]
    volume = np.clip(1.2 - np.sqrt((places**2).sum(0)) / 14, 0, 1).astype(np.float32)
    labels = (volume > 0.5).astype(np.uint8)
    np.save(folder / "scan.npy", volume[None])
    np.save(folder / "seg.npy", labels)
    spacing = np.diag([1.5, 1.5, 3.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(volume, spacing), folder / "scan.nii.gz")
    nibabel.save(nibabel.Nifti1Image(labels, spacing), folder / "seg.nii.gz")


def _clouds(folder: Path) -> None:
    """A chair without normals, in the forms that scanners write."""
    points = 3 * sc.data.load("shapes:?category=Chair&count=1&points=600")[0].x[:, :3] + 7
    np.savetxt(folder / "chair.txt", points)
    np.savetxt(folder / "chair.xyz", points)
    np.savetxt(folder / "chair.csv", points, delimiter=",", header="x,y,z", comments="")
    head = (
        f"VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH {len(points)}\nHEIGHT 1\n"
        f"VIEWPOINT 0 0 0 1 0 0 0\nPOINTS {len(points)}\nDATA "
    )
    np.savetxt(folder / "text.pcd", points, header=f"{head}ascii", comments="")
    (folder / "binary.pcd").write_bytes(f"{head}binary\n".encode() + points.astype("<f4").tobytes())


def _checkpoints(folder: Path) -> None:
    """Random weights: of a network from before PyTorch 0.4.1, and of Mask2Former and OneFormer."""
    torch.manual_seed(0)
    weights = HRNet(Architecture(width=4, classes=11, blocks=1, modules=(1, 1, 1))).state_dict()
    old = {name: value for name, value in weights.items() if not name.endswith("num_batches_tracked")}
    torch.save(old, folder / "old.pth")
    import transformers

    transformers.utils.logging.disable_progress_bar()
    sizes = {
        "num_queries": 12, "hidden_dim": 32, "encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 2,
        "dim_feedforward": 32, "encoder_feedforward_dim": 32, "id2label": dict(enumerate(("wall", "cat", "dog"))),
        "backbone_config": transformers.SwinConfig(
            embed_dim=24, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 2], window_size=4,
            out_features=["stage1", "stage2", "stage3", "stage4"],
        ),
    }  # fmt: skip
    one = {
        "conv_dim": 32,
        "mask_dim": 32,
        "text_encoder_width": 32,
        "text_encoder_num_layers": 1,
        "query_dec_layers": 1,
    }
    for name, model in (
        ("mask2former", transformers.Mask2FormerForUniversalSegmentation(
            transformers.Mask2FormerConfig(**sizes, feature_size=32, mask_feature_size=32))),
        ("oneformer", transformers.OneFormerForUniversalSegmentation(transformers.OneFormerConfig(**sizes, **one))),
    ):  # fmt: skip
        model.eval().save_pretrained(folder / name)
        how = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
        (folder / name / "preprocessor_config.json").write_text(json.dumps(how), encoding="utf-8")
