"""Models: `load` turns a spec such as ``hrnet:FILE?scale=0.25`` into a segmenter; the rest builds one in Python."""

from segcertify.models.card import Card, card_of, read_card, save_model
from segcertify.models.denoisers import from_diffusion, load_denoiser
from segcertify.models.families import new
from segcertify.models.fast_copy import compile_seconds, optimised
from segcertify.models.formats.exported import load_pt2, load_torchscript
from segcertify.models.formats.huggingface import load_huggingface
from segcertify.models.formats.onnx import load_onnx
from segcertify.models.formats.weights import load_state
from segcertify.models.initial_weights import start_from
from segcertify.models.input_size import best_size, given_short_side, size_note
from segcertify.models.loading import load
from segcertify.models.networks.denoiser import Denoiser, FDnCNN
from segcertify.models.networks.hrnet import HRNet, load_hrnet
from segcertify.models.networks.lite import Lite
from segcertify.models.networks.pointnet2 import PointNet2, load_pointnet2
from segcertify.models.saved import bundled, join, load_bundled, load_trained
from segcertify.models.wrappers.adapters import adapt
from segcertify.models.wrappers.decisions import Decisions
from segcertify.models.wrappers.denoised import Denoised, sigma_note
from segcertify.models.wrappers.ensemble import Ensemble, View
from segcertify.models.wrappers.multiscale import MultiScale
from segcertify.models.wrappers.part_segmenter import PartSegmenter
from segcertify.models.wrappers.precision import with_precision

__all__ = [
    "Card", "Decisions", "Denoised", "Denoiser", "Ensemble", "FDnCNN", "HRNet", "Lite", "MultiScale", "PartSegmenter",
    "PointNet2", "View", "adapt", "best_size", "bundled", "card_of", "compile_seconds", "from_diffusion",
    "given_short_side", "join", "load", "load_bundled", "load_denoiser", "load_hrnet", "load_huggingface", "load_onnx",
    "load_pointnet2", "load_pt2", "load_state", "load_torchscript", "load_trained", "new", "optimised", "read_card",
    "save_model", "sigma_note", "size_note", "start_from", "with_precision",
]  # fmt: skip
