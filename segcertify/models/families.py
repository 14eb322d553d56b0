"""Families of networks: each is made anew from a spec, described in a model file, and built again from there.

A description names one of the families below. A file never names code to run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from segcertify.errors import InputError, require_integer, unknown
from segcertify.models.formats.python_factory import make
from segcertify.models.networks.denoiser import Denoiser
from segcertify.models.networks.hrnet import W18_SMALL_V2, W48, Architecture, HRNet
from segcertify.models.networks.lite import Lite
from segcertify.models.networks.pointnet2 import PointNet2
from segcertify.models.wrappers.ensemble import LARGEST as LARGEST_ENSEMBLE
from segcertify.models.wrappers.ensemble import Ensemble, View
from segcertify.specs import FLAG, POSITIVE, Option, Spec, literal, parse, with_option

LARGEST = 10_000
"""The largest number that a description may hold: a larger one, from a damaged file, would take all memory or time."""

RESERVED = (
    "weights",
    "scale",
    "base_size",
    "mean",
    "std",
    "denoiser",
    "denoiser_sigma",
)  # options of `load` itself, which no factory can have


NAMED_BY_SPEC = ("python", "hf")
"""The families of networks that are known by their spec alone: a file cannot build them, but gives them weights."""


@dataclass(frozen=True)
class Family:
    """One kind of network. ``describe`` gives plain values, which ``build`` takes as keywords."""

    network: type[nn.Module]
    describe: Callable[[Any], dict[str, Any]]
    build: Callable[..., nn.Module]
    new: Callable[..., nn.Module] | None = None  # takes a spec's target, the number of classes and the spec's options
    options: Mapping[str, Option] = field(default_factory=dict)
    targets: tuple[str, ...] = ()  # that a spec may have


def new(spec: str, *, classes: int) -> nn.Module:
    """A network of that many classes with fresh weights, to be trained.

    ========================= ==========================================================================
    ``lite``                  EfficientNet-Lite0 with a decoder, ``?width=`` its channels, ``?stride=16`` shorter,
                              ``?size=1`` to 4 larger
    ``hrnet``                 HRNetV2-W48; ``?width=18&blocks=2&modules=1,3,2`` are others
    ``hrnet:w18-small-v2``    a named HRNetV2: w48, w18, w18-small-v2
    ``pointnet2``             PointNet++ for parts of shapes; ``?normals=false`` for points without normals
    ``denoiser``              a denoiser of images, ``?widths=64,96,128&blocks=1``; the objective is denoising
    ``python:module:factory`` what ``factory()`` makes; options are its arguments, ``classes`` if it can
    ========================= ==========================================================================
    """
    require_integer("classes", classes)
    parsed = parse(spec)
    if parsed.scheme == "python":
        return _new_python(parsed, classes)
    family = FAMILIES.get(parsed.scheme)
    if family is None or family.new is None:
        known = [name for name, family in FAMILIES.items() if family.new is not None]
        raise unknown("architecture", parsed.scheme, [*known, "python"], forms=[*known, "python:MODULE:FACTORY"])
    if parsed.target and not family.targets:
        raise InputError(f"there is one {parsed.scheme} network, but got {spec!r}: write {parsed.scheme}?OPTION=VALUE")
    if parsed.target and parsed.target not in family.targets:
        raise unknown(f"kind of {parsed.scheme}", parsed.target, family.targets)
    return family.new(parsed.target, classes, **parsed.read(family.options))


def describe(model: nn.Module, spec: str = "") -> dict[str, Any]:
    """What a file has to say about a network so that it can be built again, in plain values.

    ``spec`` is what the network was made from. It is all that can be said of a factory's or Hugging Face's network.
    """
    for name, family in FAMILIES.items():
        if type(model) is family.network:
            return {"family": name, **family.describe(model)}
    if (scheme := parse(spec).scheme) in NAMED_BY_SPEC:
        return {"family": scheme, "spec": spec}
    raise InputError(
        f"a {type(model).__name__} cannot be described in a file: expected a network of {', '.join(FAMILIES)}, "
        "not wrapped, or one made from a spec such as python:module:factory or hf:FOLDER"
    )


def build(description: Mapping[str, Any]) -> nn.Module:
    """The network that `describe` described, with fresh weights."""
    fields = dict(description)
    family = fields.pop("family", None)
    if family == "python":
        spec = str(fields.get("spec", "python:module:factory"))
        cure = f"if you trust that function, load the model as {with_option(spec, 'weights', 'FILE')}"
        raise InputError(f"this model was made by {spec}, and no file is allowed to name code to run: {cure}")
    if family == "hf":
        cure = f"load it as {with_option(str(fields.get('spec', 'hf:FOLDER')), 'weights', 'FILE')}"
        raise InputError(f"this file holds the weights of a Hugging Face model, not its configuration: {cure}")
    if not isinstance(family, str) or family not in FAMILIES:
        raise unknown("family of networks", family, FAMILIES)
    for name, value in fields.items():
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and number > LARGEST:
                raise InputError(f"{name} must be at most {LARGEST}, but got {number}")
    try:
        return FAMILIES[family].build(**fields)
    except TypeError as error:
        reason = str(error).partition("() ")[2] or str(error)  # without the function's name
        raise InputError(
            f"unreadable description of a network of the family {family}, with {', '.join(fields) or 'nothing'} "
            f"({reason}): was it written by another version of segcertify? Use that, or make the file again"
        ) from None


def _build_hrnet(*, width: int, classes: int, blocks: int, modules: Any, mean: Any, std: Any) -> HRNet:
    return HRNet(Architecture(width, classes, blocks, tuple(modules)), mean=mean, std=std)


def _build_ensemble(*, views: list[list[Any]], members: list[Mapping[str, Any]]) -> Ensemble:
    for name, values in (("members", members), ("views", views)):
        if not isinstance(values, list) or len(values) > LARGEST_ENSEMBLE:
            raise InputError(f"{name} must be a list of at most {LARGEST_ENSEMBLE} entries, but got {values!r}")
    for member in members:
        if not isinstance(member, dict) or member.get("family") == "ensemble":
            raise InputError(f"a member must be the description of a network that is no ensemble, but got {member!r}")
    for view in views:
        if not isinstance(view, list) or len(view) != 2:
            raise InputError(f"a view must be a scale and whether it is mirrored, but got {view!r}")
    return Ensemble([build(member) for member in members], views=[View(*view) for view in views])


def _new_python(spec: Spec, classes: int) -> nn.Module:
    """The module that a factory makes; its arguments are all options of the spec."""
    taken = [name for name in spec.options if name in RESERVED]
    if taken:
        option = f"the option {taken[0]}, which only loading takes"
        cure = "leave it out, or give the factory's argument another name"
        raise InputError(f"python:{spec.target} is to be made anew, but got {option}: {cure}")
    model = make(spec.target, spec.read({}, others=literal), classes=classes)
    if not isinstance(model, nn.Module):
        raise InputError(f"python:{spec.target} gave {type(model).__name__}, but only a torch.nn.Module can be trained")
    return model


HRNETS = {"w48": W48, "w18": replace(W48, width=18), "w18-small-v2": W18_SMALL_V2}
COUNTS = Option("NUMBER,NUMBER,NUMBER", lambda text: tuple(POSITIVE.read(count) for count in text.split(",")))

FAMILIES: dict[str, Family] = {
    "lite": Family(
        Lite,
        lambda net: {
            "classes": net.classes,
            "width": net.width,
            "stride": net.stride,
            **({"size": net.size} if net.size else {}),
            **net.normalise.description(),
        },
        lambda *, classes, width, mean, std, stride=32, size=0: Lite(
            classes, width, stride, size=size, mean=mean, std=std
        ),
        lambda _, classes, **options: Lite(classes, **options),
        {"width": POSITIVE, "stride": POSITIVE, "size": POSITIVE},
    ),
    "hrnet": Family(
        HRNet,
        lambda net: {**net.architecture.description(), **net.normalise.description()},
        _build_hrnet,
        lambda target, classes, **options: HRNet(replace(HRNETS[target or "w48"], classes=classes, **options)),
        {"width": POSITIVE, "blocks": POSITIVE, "modules": COUNTS},
        tuple(HRNETS),
    ),
    "pointnet2": Family(
        PointNet2,
        lambda net: {"normals": net.normals, "categories": net.categories, "parts": net.parts},
        lambda *, normals, categories, parts: PointNet2(normals, categories=categories, parts=parts),
        lambda _, classes, **options: PointNet2(**options, parts=classes),
        {"normals": FLAG},
    ),
    "denoiser": Family(
        Denoiser,
        lambda net: {"widths": list(net.widths), "blocks": net.blocks},
        lambda *, widths, blocks: Denoiser(widths, blocks),
        lambda _, classes, **options: Denoiser(**options),
        {"widths": COUNTS, "blocks": POSITIVE},
    ),
    "ensemble": Family(
        Ensemble,
        lambda ensemble: {**ensemble.identity(), "members": [describe(member) for member in ensemble.members]},
        _build_ensemble,
    ),
}
