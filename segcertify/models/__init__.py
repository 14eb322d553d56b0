"""Models: `load` turns a spec such as ``hrnet:FILE?scale=0.25`` into a segmenter; the rest builds one in Python."""

from segcertify.models.adapters import adapt
from segcertify.models.card import Card, card_of, read_card, save_model
from segcertify.models.checkpoint import load_state
from segcertify.models.ensemble import Ensemble, View
from segcertify.models.exported import load_pt2, load_torchscript
from segcertify.models.families import new
from segcertify.models.hrnet import HRNet, load_hrnet
from segcertify.models.huggingface import load_huggingface
from segcertify.models.lite import Lite
from segcertify.models.multiscale import MultiScale
from segcertify.models.onnx import load_onnx
from segcertify.models.part_segmenter import PartSegmenter
from segcertify.models.pointnet2 import PointNet2, load_pointnet2
from segcertify.models.precision import with_precision
from segcertify.models.spec import load
from segcertify.models.start import start_from
from segcertify.models.trained import bundled, join, load_bundled, load_trained

__all__ = [
    "Card",
    "Ensemble",
    "HRNet",
    "Lite",
    "MultiScale",
    "PartSegmenter",
    "PointNet2",
    "View",
    "adapt",
    "bundled",
    "card_of",
    "join",
    "load",
    "load_bundled",
    "load_hrnet",
    "load_huggingface",
    "load_onnx",
    "load_pointnet2",
    "load_pt2",
    "load_state",
    "load_torchscript",
    "load_trained",
    "new",
    "read_card",
    "save_model",
    "start_from",
    "with_precision",
]
