"""The options that several commands share, each defined once, and the objects that their values become.

An option whose type differs between commands is a generic alias: ``Sigma[float]`` where it is needed,
``Sigma[float | None]`` where it may be left out, ``Sigma[list[float]]`` where it may be repeated.
"""

from __future__ import annotations

import inspect
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from segcertify import specs
from segcertify.errors import LARGEST_SEED, InputError, require_integer, unknown

if TYPE_CHECKING:
    from segcertify.data import DataSet
    from segcertify.records import Setting as Claim
    from segcertify.sampling.segmenter import Segmenter

T = TypeVar("T")

CLAIM, METRIC, INPUT, ATTACK, MACHINE, OUTPUT = "Claim", "Metric", "Input", "Attack", "Machine", "Output"
"""The groups of options that `--help` shows after the main ones."""


def _option(flag: str, help: str, panel: str | None = None) -> Any:
    """An option, in the first group of `--help` or in a named one."""
    return typer.Option(flag, help=help, rich_help_panel=panel)


def seed_number(text: str) -> int:
    """A seed as ``--seed`` takes it, decimal or hexadecimal."""
    try:
        return require_integer("seed", int(str(text), 0), at_least=0, at_most=LARGEST_SEED)
    except ValueError:
        raise typer.BadParameter(f"a seed is a whole number from 0 on, such as 7 or 0x1f, but got {text}") from None


def component_count(text: str) -> int:
    """A number of components as ``-N`` takes it: 172800, or the sides of an image or volume, as 360x480."""
    try:
        sides = [int(side) for side in str(text).lower().split("x")]
    except ValueError:
        sides = [0]
    if min(sides) < 1:
        raise typer.BadParameter(f"a number of components is such as 2048, or a size such as 360x480, but got {text}")
    return math.prod(sides)


Model = Annotated[
    T,
    _option(
        "--model",
        "Spec of the model: pets, camvid, parts, trained:FILE, hrnet:FILE, hf:NAME, python:module:factory, ...; "
        "train makes a new one: lite, hrnet:w18-small-v2, pointnet2, python:module:factory, ... "
        "python:, pt2: and torchscript: run code.",
    ),
]
TrustCode = Annotated[
    bool,
    _option(
        "--trust-code",
        "Load models that run code: pt2:FILE and torchscript:FILE, and python: if a recipe's file names it. They can "
        "do what you can do on this machine. Give it only for files from people you trust.",
        MACHINE,
    ),
]
NonRobust = Annotated[T, _option("--non-robust", "Spec of a model that was trained without noise.")]
Data = Annotated[
    T,
    _option(
        "--data",
        "Spec of the data set: camvid:FOLDER, 'folder:FOLDER?split=train+val', "
        "'camvid:FOLDER?split=train&without=0006R0*', ... Mind the quotes.",
    ),
]
Noise = Annotated[
    T,
    _option(
        "--noise",
        "gaussian, laplace, uniform, rotation, rotation:z, rotation:1,1,0, "
        "or 'gaussian?channels=0,1,2&axis=1' for noise on some channels only.",
    ),
]
Sigma = Annotated[
    T,
    _option(
        "--sigma",
        "Scale of the noise, in the input's units (b for laplace, lambda for uniform). "
        "train takes several, and each image draws one.",
    ),
]
Draws = Annotated[T, _option("--n", "Draws of fresh noise that test the labels.")]
Tau = Annotated[
    T, _option("--tau", "A certified label's probability exceeds this threshold in [0.5, 1): sets the radius.")
]
Setting = Annotated[T, _option("--setting", "A claim as sigma=0.25,n=100,tau=0.75, with its names in any order.")]
Seed = Annotated[
    T,
    typer.Option(
        "--seed",
        parser=seed_number,
        metavar="INTEGER",
        help="Fixes everything random, to reproduce a result: a number such as 7 or 0x1f. If no default is shown, a "
        "new run draws one from the operating system, and a resumed run takes its own.",
    ),
]
Looks = Annotated[
    int,
    _option(
        "--looks",
        "Tests within the n draws, each at alpha / looks, at times fixed before sampling. It stops when nothing more "
        "can be gained. 0: one test, at the end.",
        CLAIM,
    ),
]
Until = Annotated[
    float | None, _option("--until", "With --looks: stop once this share of the components is certified.", CLAIM)
]
Cap = Annotated[
    float | None,
    _option(
        "--cap",
        "Radius maps: a radius for each component, none above that of this probability, which is chosen before "
        "sampling, such as --tau's.",
        CLAIM,
    ),
]
Candidates = Annotated[int, _option("--n0", "Draws that choose the labels to test; 0: all choose and count.", CLAIM)]
Sets = Annotated[
    bool, _option("--sets", "For sets, a claim of their own at --alpha: which labels each component can get.", CLAIM)
]
Alpha = Annotated[float, _option("--alpha", "Allowed probability of any false certificate.", CLAIM)]
Correction = Annotated[T, _option("--correction", "holm, bonferroni, k-fwer (with --k or --b), bh or by.", CLAIM)]
ErrorCount = Annotated[int | None, _option("--k", "For k-fwer: fewer than k certified labels may be false.", CLAIM)]
ErrorBudget = Annotated[
    int | None, _option("--b", "For k-fwer: at most b certified labels may be false (k = b + 1).", CLAIM)
]
Metric = Annotated[
    T,
    _option(
        "--metric",
        "Bound a metric of most noisy runs under attack: agreement (with the labels of the clean input), accuracy, "
        "miou, dice:CLASS, recall:CLASS, area:CLASS or volume:CLASS. May be repeated: each holds at alpha.",
        METRIC,
    ),
]
Share = Annotated[
    T,
    _option(
        "--share", "The share of noisy runs that keep the bound on a metric under attack; 0.5 if not given.", METRIC
    ),
]
TargetRadius = Annotated[
    T,
    _option(
        "--target-radius",
        "A radius to prove, in the norm of the noise (all rotations: 3.1415926). plan tells the sigma that it takes; "
        "metrics hold within it, by default within the radius that tau gives.",
    ),
]
Norm = Annotated[str | None, _option("--norm", "linf, for gaussian noise; by default the noise's own norm.", CLAIM)]
ShortSide = Annotated[
    int | None,
    _option(
        "--short-side",
        "Resize images to this many pixels on the short side; by default larger ones shrink to the size that the "
        "model's card states.",
        INPUT,
    ),
]
FullSize = Annotated[bool, _option("--full-size", "Take images as they are, whatever the model's card states.", INPUT)]
Size = Annotated[
    str | None,
    typer.Option(
        "--size",
        help="The size of images whose draws are timed, such as 360x480; of clouds, points and columns: 2048x3.",
        rich_help_panel=INPUT,
    ),
]
InputFile = Annotated[
    Path | None, _option("--input", "The input that was certified; in plan one whose draws are timed, with --model.")
]
Label = Annotated[
    Path | None,
    _option("--label", "Ground truth: of an image a PNG of class numbers, of a volume .nii.gz or .npy.", INPUT),
]
Ignore = Annotated[int, _option("--ignore", "The number that stands for no ground truth.", INPUT)]
Every = Annotated[T, _option("--every", "Take every k-th scene of the data set.", INPUT)]
Limit = Annotated[int | None, _option("--limit", "Take at most this many scenes.", INPUT)]
Radius = Annotated[
    T,
    _option(
        "--radius",
        "A radius to attack within, in the norm of the noise (rotations: an angle); by default the certified.",
        ATTACK,
    ),
]
Steps = Annotated[
    T, _option("--steps", "Steps of an attack; attack and evaluate take a fifth of them on the smoothed model.", ATTACK)
]
Restarts = Annotated[T, _option("--restarts", "Random starts of an attack.", ATTACK)]
Loss = Annotated[T, _option("--loss", "What an attack raises: cross-entropy (the paper's), segpgd or cospgd.", ATTACK)]
Copies = Annotated[int, _option("--copies", "Noisy copies in each gradient step on the smoothed model.", ATTACK)]
BatchSize = Annotated[
    int | None,
    _option(
        "--batch-size",
        "Inputs in one pass of the network, found automatically by default; in train, in one step of all processes.",
        MACHINE,
    ),
]
Device = Annotated[str | None, _option("--device", "cpu, cuda, cuda:1, ...; by default CUDA if there is one.", MACHINE)]
Precision = Annotated[
    str,
    _option(
        "--precision", "fp32, bf16 or fp16 (autocast) for the network; noise stays in fp32. train has no fp16.", MACHINE
    ),
]
Compile = Annotated[
    bool,
    _option("--compile", "Compile the network with torch.compile: a minute or more before the first draw.", MACHINE),
]
Out = Annotated[T, _option("--out", "Where the results go: a folder, for join a file.", OUTPUT)]
Colours = Annotated[
    Literal["own", "data"],
    _option("--colours", "Of classes in pictures: own, for all readers' eyes, or data, those of the data set.", OUTPUT),
]
Half = Annotated[bool, _option("--half", "Write the weights in half precision.", OUTPUT)]
Json = Annotated[bool, _option("--json", "Print one JSON object, and all else on standard error.", OUTPUT)]
Quiet = Annotated[bool, _option("--quiet", "Print only the result: no progress, no notes.", OUTPUT)]


def with_options(command: Callable[..., None], more: Iterable[inspect.Parameter]) -> Callable[..., None]:
    """The command with ``more`` options after its own, instead of its ``**settings``."""
    parameters = [*inspect.signature(command, eval_str=True).parameters.values(), *more]
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [each.replace(kind=keyword) for each in parameters if each.kind is not each.VAR_KEYWORD]
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in options}
    return command


SETTING = {"sigma": float, "n": int, "tau": float}


def claims_of(settings: list[str] | None, *, sigma: float | None, n: int | None, tau: float | None) -> list[Claim]:
    """The claims of an evaluation: several ``settings``, or one claim in three options."""
    from segcertify.records import Setting

    if settings and (sigma, n, tau) != (None, None, None):
        raise InputError("--sigma, --n and --tau make one claim, --setting makes several: use one form or the other")
    if settings:
        return [claim_of(text) for text in settings]
    if sigma is None:
        raise InputError(
            "name a claim with --sigma 0.25 --n 100 --tau 0.75, or several with --setting sigma=0.25,n=100,tau=0.75"
        )
    return [Setting(sigma, 100 if n is None else n, 0.75 if tau is None else tau)]


def claim_of(text: str) -> Claim:
    """A claim as ``--setting`` takes it: sigma=0.25,n=100,tau=0.75."""
    from segcertify.records import Setting

    parts = [part.strip() for part in text.split(",")]
    if "=" not in text and len(parts) == len(SETTING):
        filled = ",".join(f"{name}={part}" for name, part in zip(SETTING, parts, strict=True))
        raise InputError(f"--setting takes names: write --setting {filled} instead of {text}")
    values = setting_values("--setting", text)
    if missing := [name for name in SETTING if name not in values]:
        raise InputError(f"--setting {text} lacks {' and '.join(missing)}: write sigma=0.25,n=100,tau=0.75")
    return Setting(**values)


def setting_values(option: str, text: str) -> dict[str, Any]:
    """The numbers that an option names, such as sigma=0.25,n=100."""
    values: dict[str, Any] = {}
    for name, _, value in (part.strip().partition("=") for part in text.split(",")):
        if name not in SETTING:
            raise unknown("name", name, SETTING, where=f" in {option} {text}")
        if name in values:
            raise InputError(f"{option} {text} names {name} twice")
        try:
            values[name] = SETTING[name](value)
        except ValueError as error:
            raise InputError(f"{option} {text} holds no number ({error}): write sigma=0.25,n=100,tau=0.75") from None
    return values


def folder(path: Path) -> Path:
    """The path, if a folder can be made there: checked before the long work. Whatever writes to it makes it."""
    try:
        nearest = next(each for each in (path, *path.absolute().parents) if each.exists())
    except OSError as error:
        raise InputError(f"cannot write to the folder {path}: {error.strerror}") from None
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        reason = "may not be written to" if nearest.is_dir() else "is a file"
        raise InputError(f"cannot write to the folder {path}: {nearest} {reason}")
    return path


def command_line() -> str:
    """The command that is running, as its certificates keep it."""
    return shlex.join(["segcertify", *sys.argv[1:]])


def chosen_device(device: str | None) -> str:
    """The device that was named, if it is there; by default CUDA if there is one, else the CPU."""
    import torch

    from segcertify.sampling.inputs import require_device

    return str(require_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))


def ready_model(
    spec: str, device: str, *, precision: str = "fp32", compile: bool = False, trust_code: bool = False
) -> Segmenter:  # fmt: skip
    """The model of a spec, on the device."""
    from torch import nn

    from segcertify.models import load, with_precision

    import_from_here(spec)
    model = load(spec, trust_code=trust_code)
    if compile and not hasattr(model, "compiled"):
        raise InputError(f"{spec} is a model of clouds, whose network cannot be compiled: leave --compile out")
    if compile:
        model.compiled = True  # type: ignore[assignment]  # asked for by the sampler (models.optimised)
    return with_precision(model.to(device) if isinstance(model, nn.Module) else model, precision)


def import_from_here(*model_specs: str) -> None:
    """If one of the specs is python:module:factory, let it name a module in the current folder.

    No other spec runs what lies there, and the folder comes last: a file of it replaces no installed package.
    """
    python = any(specs.parse(spec).scheme == "python" for spec in model_specs if spec)
    if python and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def chosen_scenes(spec: str, *, every: int = 1, limit: int | None = None) -> DataSet:
    """The scenes of a data set that a command works on."""
    from segcertify.data import load

    scenes = load(spec).every(every)
    return scenes if limit is None else scenes.limit(limit)


def chosen_side(short_side: int | None, full_size: bool) -> int | None:
    """The short side that was named, if one was."""
    if short_side is not None and full_size:
        raise InputError(f"--short-side {short_side} and --full-size exclude each other: give one of them")
    return None if short_side is None else require_integer("--short-side", short_side)


def resized_scenes(scenes: DataSet, model: object, *, short_side: int | None, full_size: bool) -> DataSet:
    """The scenes at the short side that was named, or at most at the model's: smaller ones stay as they are."""
    from segcertify.data import ImageSet
    from segcertify.models import given_short_side

    if (side := chosen_side(short_side, full_size)) is not None:
        return scenes.resized(side)
    side = None if full_size else given_short_side(model)
    if side is None or not isinstance(scenes, ImageSet):
        return scenes
    fits = all(min(scenes.shape(index)) <= side for index in range(len(scenes)))
    return scenes if fits else scenes.shrunk(side)


def noise_on(text: str, axis: int) -> str:
    """The name of a noise whose channels are on this axis of the input, unless the name itself says which."""
    options = specs.parse(text).options
    return specs.with_option(text, "axis", str(axis)) if "channels" in options and "axis" not in options else text
