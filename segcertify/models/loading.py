"""Load a segmenter by its spec, as a user writes it on the command line."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from torch import nn

from segcertify.errors import InputError, unknown
from segcertify.models.denoisers import load_denoiser
from segcertify.models.formats.exported import load_pt2, load_torchscript
from segcertify.models.formats.huggingface import load_huggingface
from segcertify.models.formats.onnx import load_onnx
from segcertify.models.formats.python_factory import make
from segcertify.models.formats.weights import set_weights
from segcertify.models.networks.hrnet import load_hrnet
from segcertify.models.networks.pointnet2 import PointNet2, load_pointnet2
from segcertify.models.saved import IN_REPOSITORY, bundled, load_bundled, load_trained, read_weights
from segcertify.models.wrappers.adapters import Adapted, adapt
from segcertify.models.wrappers.decisions import Decisions
from segcertify.models.wrappers.denoised import Denoised
from segcertify.models.wrappers.multiscale import SETTINGS, MultiScale, setting
from segcertify.models.wrappers.part_segmenter import PartSegmenter
from segcertify.models.wrappers.reversed import Reversed
from segcertify.models.wrappers.wrapper import Wrapper, unwrapped
from segcertify.specs import FLAG, NUMBERS, POSITIVE, TEXT, Option, Spec, literal, parse

SIGMA = 0.25  # of the noise that a denoiser expects, unless the spec says another


@dataclass(frozen=True)
class Scheme:
    """How a scheme's models are loaded: ``load(target, **options)``, without the options that were left out.

    A normalisation that a user gives goes "around" the model, or "inside" (``load`` takes mean and std), or is refused
    ("fixed"). A scheme with the option ``category`` makes networks of clouds segmenters of one category's parts.
    ``danger`` says why a file of the scheme must be trusted before it is loaded.
    """

    target: str  # what the target is
    load: Callable[..., Callable[..., Any]]
    options: Mapping[str, Option] = field(default_factory=dict)
    others: Callable[[str], Any] | None = None  # reads options that are not listed
    normalisation: Literal["around", "inside", "fixed"] = "around"
    danger: str = ""


def load(spec: str, *, trust_code: bool = False) -> nn.Module:
    """The segmenter that a spec names, adapted and in evaluation mode, ready to certify.

    ======================== =================================================================
    ``camvid``, ``pets``     models that ship with segcertify: see `bundled`
    ``trained:FILE``         a model that ``segcertify train`` wrote
    ``hrnet:FILE``           HRNetV2 weights; ``?width=48&classes=19`` are checked if given
    ``pointnet2:FILE``       PointNet++ weights for parts of shapes; ``?normals=true`` is checked
    ``hf:DIR-OR-ID``         Hugging Face semantic segmentation; ``?revision=`` of a hub id; ``?weights=FILE`` puts the
                             weights of ``segcertify harden`` into it
    ``torchscript:FILE``     a TorchScript program (runs code: needs ``trust_code=True``); ``?output=``
                             picks one of several outputs
    ``pt2:FILE``             a ``torch.export`` program (runs code, likewise); ``?output=`` likewise
    ``onnx:FILE``            an ONNX model; ``?output=`` is its output's name
    ``python:module:factory`` what ``factory()`` makes (runs code, as its name says); further options are
                             its arguments, but ``?weights=FILE`` puts a checkpoint's weights into it
    ======================== =================================================================

    Every scheme takes ``?scale=0.25`` or ``?scale=multi``, which wraps the model in `MultiScale` (as does
    ``?base_size=520``), and ``?mean=0.5,0.5,0.5&std=...``, a normalisation to put inside (instead of the one that
    ``hrnet`` and ``hf`` bring); models trained here keep theirs. ``?bgr=true`` reverses the channels first, for models
    that were trained on BGR: mean and std are then blue first too. ``?denoiser=default`` or ``?denoiser=FILE`` puts a
    denoiser before the model (`Denoised`), for noise of ``?denoiser_sigma=``, by default 0.25. ``?above=0`` makes
    decisions of the scores of a binary or multi-label model (`Decisions`); 0.5 of probabilities. Models for parts of
    shapes take ``?category=Chair&runs=3`` instead: see `PartSegmenter`. `card_of` the result is what a file says about
    its model.
    """
    parsed = parse(spec)
    scheme = _scheme(parsed)
    if scheme.danger and not trust_code:
        raise InputError(
            f"{parsed.scheme}:{parsed.target} is a program, and was not loaded: {scheme.danger}. If you trust whoever "
            "made it, add --trust-code (in Python: trust_code=True)"
        )
    options = parsed.read({**scheme.options, **_COMMON}, others=scheme.others)
    scale, base_size = options.pop("scale", None), options.pop("base_size", None)
    if base_size is not None:
        scale = replace(setting("1") if scale is None else scale, base_size=base_size)
    reverse, above = options.pop("bgr", False), options.pop("above", None)
    denoiser, denoiser_sigma = options.pop("denoiser", None), options.pop("denoiser_sigma", None)
    if denoiser is None and denoiser_sigma is not None:
        raise InputError(f"{spec}: denoiser_sigma is for a denoiser: write denoiser=default too, or leave it out")
    statistics = {name: options.pop(name) for name in ("mean", "std") if name in options}
    if statistics and scheme.normalisation == "fixed":
        name = spec.partition("?")[0]
        raise InputError(f"{name} brings the normalisation that it was trained with: leave out mean and std")
    if len(statistics) == 1:
        raise InputError("a normalisation needs both mean and std, for example ?mean=0.5,0.5,0.5&std=0.5,0.5,0.5")
    inside = statistics if scheme.normalisation == "inside" else {}
    target, parts = parsed.target or parsed.scheme, {}
    if "category" in scheme.options:
        parts = {name: options.pop(name) for name in _PARTS if name in options}
    model = scheme.load(target, **options, **inside)
    if isinstance(model, PointNet2) and "category" in scheme.options:
        model = PartSegmenter(model, **parts)
    elif parts:
        raise InputError(f"{target} takes images, but category and runs are for models of clouds: leave them out")
    if isinstance(model, PartSegmenter):
        if scale or statistics or reverse or denoiser or above is not None:
            raise InputError(
                f"{spec}: scale, mean, std, bgr, above and denoiser are for images, but this model takes clouds: "
                "remove them"
            )
        model.fast = True
        return model.eval()
    adapted = adapt(model, **({} if inside else statistics)).eval()
    adapted = _reversed(spec, scheme, adapted) if reverse else adapted
    segmenter: Wrapper = adapted if scale is None else MultiScale(adapted, **asdict(scale)).eval()
    if denoiser is not None:
        sigma = SIGMA if denoiser_sigma is None else denoiser_sigma
        segmenter = Denoised(segmenter, load_denoiser(denoiser), sigma)
    segmenter.fast = True
    return segmenter if above is None else Decisions(segmenter, above=above)


def _scheme(spec: Spec) -> Scheme:
    """The scheme of a spec. A bundled model's name is a scheme without a target."""
    names = [*bundled(), *IN_REPOSITORY]
    if not spec.target and spec.scheme in names:
        return _BUNDLED
    if spec.scheme not in _SCHEMES:
        forms = [*(f"{name}:{scheme.target}" for name, scheme in _SCHEMES.items()), *names]
        name = f"{spec.scheme}:" if spec.target else spec.scheme
        raise unknown("model", name, [*(f"{name}:" for name in _SCHEMES), *names], forms=forms)
    if not spec.target:
        raise InputError(f"{spec.text!r} names no model: write {spec.scheme}:{_SCHEMES[spec.scheme].target}")
    return _SCHEMES[spec.scheme]


def _reversed(spec: str, scheme: Scheme, model: Adapted) -> Adapted:
    """The model with the order of its channels reversed, unless it is one that brings its own."""
    if scheme.normalisation == "fixed" or any(isinstance(each, Reversed) for each in model.modules()):
        raise InputError(f"{spec}: the model brings the order of its channels: leave bgr out")
    return adapt(Reversed(model)).eval()


def _load_python(target: str, *, weights: str | None = None, **arguments: Any) -> Callable[..., Any]:
    """The object that ``module:factory`` makes, with the weights of a file if one is named."""
    if weights is None:
        return make(target, arguments)
    state, card = read_weights(weights)
    model = make(target, arguments, classes=None if card is None else len(card.classes))
    if not isinstance(model, nn.Module):
        raise InputError(f"python:{target} gave {type(model).__name__}, but only a torch.nn.Module takes weights")
    set_weights(model, state)
    if card is not None:
        model.card = card  # type: ignore[assignment]
    return model


def _load_huggingface(target: str, *, weights: str | None = None, **options: Any) -> Adapted:
    """The model of Hugging Face, with the weights of a file if one is named."""
    model = load_huggingface(target, **options)
    if weights is not None:
        state, card = read_weights(weights)
        set_weights(unwrapped(model), state)
        if card is not None:
            model.card = card  # type: ignore[assignment]
    return model


def _output(text: str) -> int | str:
    """Which output to take: an index or a key."""
    return int(text) if text.lstrip("-").isdigit() else text


_SCALE = Option(f"NUMBER,NUMBER,... (or {', '.join(SETTINGS)})", setting)
_DENOISER = {"denoiser": Option("default (or FILE)"), "denoiser_sigma": Option("NUMBER", float)}
_ABOVE = {"above": Option("NUMBER (0 for logits, 0.5 for probabilities)", float)}
_COMMON = {"scale": _SCALE, "base_size": POSITIVE, "mean": NUMBERS, "std": NUMBERS, "bgr": FLAG, **_ABOVE, **_DENOISER}
_OUTPUT = {"output": Option("NUMBER (or NAME)", _output)}
_PARTS = {"category": Option("NAME"), "runs": POSITIVE}
_BUNDLED = Scheme("", load_bundled, _PARTS, normalisation="fixed")
_SCHEMES = {
    "hrnet": Scheme("FILE", load_hrnet, {"width": POSITIVE, "classes": POSITIVE}, normalisation="inside"),
    "hf": Scheme("DIR-OR-ID", _load_huggingface, {"revision": TEXT, "weights": TEXT}, normalisation="inside"),
    "torchscript": Scheme(
        "FILE", load_torchscript, _OUTPUT, danger="TorchScript can read and write files while it runs (torch.from_file)"
    ),
    "pt2": Scheme(
        "FILE",
        load_pt2,
        _OUTPUT,
        danger="torch evaluates some of its texts as Python, and a check of them may miss some",
    ),
    "onnx": Scheme("FILE", load_onnx, {"output": TEXT}),
    "pointnet2": Scheme("FILE", load_pointnet2, {"normals": FLAG, **_PARTS}),
    "trained": Scheme("FILE", load_trained, _PARTS, normalisation="fixed"),
    "python": Scheme("MODULE:FACTORY", _load_python, {"weights": TEXT}, others=literal),
}
