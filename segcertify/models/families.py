"""Families of networks that can be made anew by name, and described in a file so that it can be read back.

What a file describes is built from the families known here alone: a file never names code to run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from torch import nn

from segcertify.errors import InputError, require_integer
from segcertify.models.formats.python_factory import make
from segcertify.models.networks.hrnet import W18_SMALL_V2, W48, Architecture, HRNet
from segcertify.models.networks.lite import Lite
from segcertify.models.networks.pointnet2 import PointNet2, flag
from segcertify.models.options import NORMALISATION, Options, integer, options_of, parts, plain
from segcertify.models.wrappers.ensemble import LARGEST as LARGEST_ENSEMBLE
from segcertify.models.wrappers.ensemble import Ensemble, View
from segcertify.models.wrappers.normalisation import Normalise

HRNETS = {"w48": W48, "w18": replace(W48, width=18), "w18-small-v2": W18_SMALL_V2}
LARGEST = 10_000
"""No description may ask for a larger number: one from a damaged file would take all memory or time."""

RESERVED = ("weights", "scale", *NORMALISATION)
"""Options that `load` keeps for itself, so that no factory can have them."""


def new(spec: str, *, classes: int) -> nn.Module:
    """A network of that many classes with fresh weights, to be trained.

    ========================= ==========================================================================
    ``lite``                  EfficientNet-Lite0 with a decoder, ``?width=`` its channels, ``?stride=16`` shorter
    ``hrnet``                 HRNetV2-W48; ``?width=18&blocks=2&modules=1,3,2`` are others
    ``hrnet:w18-small-v2``    a named HRNetV2: w48, w18, w18-small-v2
    ``pointnet2``             PointNet++ for parts of shapes; ``?normals=false`` for points without normals
    ``python:module:factory`` what ``factory()`` makes; options are its arguments, ``classes`` if it can
    ========================= ==========================================================================
    """
    require_integer("classes", classes)
    family, target = parts(spec)
    if family not in _NEW:
        raise InputError(f"unknown architecture {spec!r}: expected {', '.join(_NEW)}, for example {_EXAMPLES}")
    options = options_of(spec)
    model = _NEW[family](target, options, classes)
    if options:
        raise InputError(f"{spec}: {family} takes no option {', '.join(options)}")
    return model


def describe(model: nn.Module, spec: str = "") -> dict[str, Any]:
    """What a file has to say about a network so that it can be built again, in plain values.

    ``spec`` is what it was made from: for a factory's network, all that can be said.
    """
    if type(model) is HRNet:
        sizes = asdict(model.architecture) | {"modules": list(model.architecture.modules)}
        return {"family": "hrnet", **sizes, **_normalisation(model.normalise)}
    if type(model) is Lite:
        sizes = {"classes": model.classes, "width": model.width, "stride": model.stride}
        return {"family": "lite", **sizes, **_normalisation(model.normalise)}
    if type(model) is PointNet2:
        sizes = {"normals": model.normals, "categories": model.categories, "parts": model.parts}
        return {"family": "pointnet2", **sizes}
    if type(model) is Ensemble:
        views = [[view.scale, view.mirrored] for view in model.views]
        return {"family": "ensemble", "views": views, "members": [describe(member) for member in model.members]}
    if parts(spec)[0] == "python":
        return {"family": "python", "spec": spec}
    raise InputError(
        f"a {type(model).__name__} cannot be described in a file: expected a network of {', '.join(_BUILD)}, "
        "not wrapped, or one made from a spec such as python:module:factory"
    )


def build(description: Mapping[str, Any]) -> nn.Module:
    """The network that `describe` described, with fresh weights."""
    fields = dict(description)
    family = fields.pop("family", None)
    if family == "python":
        spec = str(fields.get("spec", "python:module:factory"))
        raise InputError(
            f"this model was made by {spec}, and no file is allowed to name code to run: "
            f"if you trust that function, load the model as {with_weights(spec, 'FILE')}"
        )
    if not isinstance(family, str) or family not in _BUILD:
        raise InputError(f"unknown family of networks {family!r}: expected one of {', '.join(_BUILD)}")
    try:
        return _BUILD[family](**fields)
    except TypeError as error:
        raise InputError(
            f"unreadable description of a network of the family {family}, with {', '.join(fields) or 'nothing'} "
            f"({_reason(error)}): was it written by another version of segcertify? Use that, or make the file again"
        ) from None


def _reason(error: TypeError) -> str:
    """What a call lacked, without the function's name."""
    return str(error).partition("() ")[2] or str(error)


def with_weights(spec: str, file: str) -> str:
    """The spec that loads a factory's network with the weights in a file.

    >>> with_weights("python:mine:make?depth=3", "a.safetensors")
    'python:mine:make?depth=3&weights=a.safetensors'
    """
    return f"{spec}{'&' if '?' in spec else '?'}weights={file}"


def _build_hrnet(
    *, width: int, classes: int, blocks: int, modules: list[int], mean: list[float], std: list[float]
) -> HRNet:
    """An HRNetV2 from its description."""
    for name, value in (("width", width), ("classes", classes), ("blocks", blocks)):
        _bounded(name, value)
    counts = tuple(_bounded("a number of modules", count) for count in modules)
    return HRNet(Architecture(width, classes, blocks, counts), mean=mean, std=std)  # type: ignore[arg-type]


def _build_lite(*, classes: int, width: int, mean: list[float], std: list[float], stride: int = 32) -> Lite:
    """A Lite network from its description."""
    return Lite(_bounded("classes", classes), _bounded("width", width), stride, mean=mean, std=std)


def _build_pointnet2(*, normals: bool, categories: int, parts: int) -> PointNet2:
    """A PointNet++ from its description."""
    sizes = {"categories": _bounded("categories", categories), "parts": _bounded("parts", parts)}
    return PointNet2(normals=normals, **sizes)


def _build_ensemble(*, views: list[list[Any]], members: list[Mapping[str, Any]]) -> Ensemble:
    """An ensemble from its members' descriptions; none is an ensemble itself."""
    if not isinstance(members, list) or len(members) > LARGEST_ENSEMBLE:
        raise InputError(f"members must be a list of at most {LARGEST_ENSEMBLE} descriptions, but got {members!r}")
    for member in members:
        if not isinstance(member, dict) or member.get("family") == "ensemble":
            raise InputError(f"a member of an ensemble must be described, and be none itself, but got {member!r}")
    if not isinstance(views, list) or len(views) > LARGEST_ENSEMBLE:
        raise InputError(f"views must be a list of at most {LARGEST_ENSEMBLE} pairs, but got {views!r}")
    for view in views:
        if not isinstance(view, list) or len(view) != 2:
            raise InputError(f"a view must be a scale and whether it is mirrored, but got {view!r}")
    return Ensemble([build(member) for member in members], views=[View(*view) for view in views])


def _bounded(name: str, value: int) -> int:
    """A number in a description."""
    if require_integer(name, value) > LARGEST:
        raise InputError(f"{name} must be at most {LARGEST}, but got {value!r}")
    return value


def _new_hrnet(target: str, options: Options, classes: int) -> nn.Module:
    """A fresh HRNetV2."""
    if target and target not in HRNETS:
        raise InputError(f"unknown HRNetV2 {target!r}: expected one of {', '.join(HRNETS)}, or hrnet?width=...")
    base = HRNETS[target or "w48"]
    width, blocks, modules = integer(options, "width"), integer(options, "blocks"), options.pop("modules", None)
    counts = [str(count) for count in base.modules] if modules is None else modules.split(",")
    if len(counts) != 3 or not all(count.isdecimal() for count in counts):
        raise InputError(f"modules must be three counts, such as 1,4,3, but got {modules!r}")
    return HRNet(
        Architecture(
            width=base.width if width is None else width,
            classes=classes,
            blocks=base.blocks if blocks is None else blocks,
            modules=(int(counts[0]), int(counts[1]), int(counts[2])),
        )
    )


def _new_lite(target: str, options: Options, classes: int) -> nn.Module:
    """A fresh Lite network."""
    if target:
        raise InputError(f"there is one lite network, but got lite:{target}: write lite, or lite?width=64")
    width, stride = integer(options, "width"), integer(options, "stride")
    return Lite(classes, 96 if width is None else width, 32 if stride is None else stride)


def _new_pointnet2(target: str, options: Options, classes: int) -> nn.Module:
    """A fresh PointNet++; its classes are parts."""
    if target:
        raise InputError(f"there is one pointnet2 network, but got pointnet2:{target}: write pointnet2?normals=false")
    return PointNet2(normals=flag("normals", plain(options.pop("normals", "true"))), parts=classes)


def _new_python(target: str, options: Options, classes: int) -> nn.Module:
    """What a factory makes, if it is a module; it takes all options."""
    taken = [name for name in options if name in RESERVED]
    if taken:
        raise InputError(
            f"python:{target} is to be made anew, but got the option {taken[0]}, which only loading takes: "
            "leave it out, or give the factory's argument another name"
        )
    arguments = {name: plain(options.pop(name)) for name in list(options)}
    model = make(target, arguments, classes=classes)
    if not isinstance(model, nn.Module):
        raise InputError(f"python:{target} gave {type(model).__name__}, but only a torch.nn.Module can be trained")
    return model


def _normalisation(normalise: Normalise) -> dict[str, list[float]]:
    """Mean and std as lists of the shortest numbers that give the same single-precision ones."""
    buffers = {"mean": normalise.mean, "std": normalise.std}
    return {
        name: [float(str(value)) for value in buffer.float().cpu().flatten().numpy()]
        for name, buffer in buffers.items()
    }


_BUILD: dict[str, Callable[..., nn.Module]] = {
    "lite": _build_lite,
    "hrnet": _build_hrnet,
    "pointnet2": _build_pointnet2,
    "ensemble": _build_ensemble,
}

_NEW: dict[str, Callable[[str, Options, int], nn.Module]] = {
    "lite": _new_lite,
    "hrnet": _new_hrnet,
    "pointnet2": _new_pointnet2,
    "python": _new_python,
}
_EXAMPLES = "hrnet:w18-small-v2, hrnet?width=18&blocks=2&modules=1,3,2 or python:my_module:make_model"
