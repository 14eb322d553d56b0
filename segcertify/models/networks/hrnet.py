"""HRNetV2, the network of the paper's image experiments (Wang et al. 2020) [Fischer2021, sec. 6.2].

Names and shapes of the state dict equal those of the public checkpoints (branch pytorch-v1.1 of
HRNet-Semantic-Segmentation). Input: RGB in [0, 1]; the normalisation is inside, in buffers that the state dict does not
hold. Output: logits at a quarter of the input's resolution, which the sampler upsamples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, relu

from segcertify.errors import InputError, require_integer
from segcertify.models.formats.weights import FilePath, load_state, no_such_network, with_weights
from segcertify.models.wrappers.normalisation import IMAGENET_MEAN, IMAGENET_STD, Normalise, Numbers
from segcertify.storage import limits

STEM = 64
EXPANSION = 4


WIDEST, DEEPEST = 128, 16
"""The largest width, and the largest numbers of blocks and modules: beyond, a network takes gigabytes or minutes."""


@dataclass(frozen=True)
class Architecture:
    """What distinguishes one HRNetV2 from another."""

    width: int = 48
    classes: int = 19
    blocks: int = 4
    modules: tuple[int, int, int] = (1, 4, 3)

    def __post_init__(self) -> None:
        for name, most in (("width", WIDEST), ("classes", limits.CLASSES), ("blocks", DEEPEST)):
            if require_integer(name, getattr(self, name)) > most:
                raise InputError(f"{name} must be at most {most}, but got {getattr(self, name)!r:.40}")
        if len(self.modules) != 3 or any(require_integer("modules", count) > DEEPEST for count in self.modules):
            raise InputError(
                f"modules must be three counts of at most {DEEPEST}, for stages 2, 3 and 4, but got {self.modules!r}"
            )

    def description(self) -> dict[str, Any]:
        """The sizes as plain values."""
        return {**asdict(self), "modules": [*self.modules]}


W48 = Architecture()
W18_SMALL_V2 = Architecture(width=18, blocks=2, modules=(1, 3, 2))


class HRNet(nn.Module):
    """HRNetV2: four stages of parallel branches with W, 2W, 4W and 8W channels, fused after each module.

    >>> model = HRNet(Architecture(width=4, classes=7, blocks=1, modules=(1, 1, 1))).eval()
    >>> model(torch.zeros(1, 3, 64, 96)).shape
    torch.Size([1, 7, 16, 24])
    """

    def __init__(
        self, architecture: Architecture = W48, *, mean: Numbers = IMAGENET_MEAN, std: Numbers = IMAGENET_STD
    ) -> None:
        super().__init__()
        self.architecture = architecture
        blocks, widths = architecture.blocks, [architecture.width * 2**branch for branch in range(4)]
        self.normalise = Normalise(mean, std)
        self.conv1, self.bn1 = _conv(3, STEM, 3, stride=2), nn.BatchNorm2d(STEM)
        self.conv2, self.bn2 = _conv(STEM, STEM, 3, stride=2), nn.BatchNorm2d(STEM)
        wide, features = STEM * EXPANSION, sum(widths)
        self.layer1 = nn.Sequential(*(Bottleneck(channels) for channels in [STEM] + [wide] * (blocks - 1)))
        for i, count in enumerate(architecture.modules, 1):
            self.add_module(f"transition{i}", _transition(widths[:i] if i > 1 else [wide], widths[: i + 1]))
            modules = (ParallelModule(widths[: i + 1], blocks) for _ in range(count))
            self.add_module(f"stage{i + 1}", nn.Sequential(*modules))
        self.last_layer = nn.Sequential(
            *_unit(features, features, size=1, bias=True), nn.Conv2d(features, architecture.classes, 1)
        )

    def forward(self, batch: Tensor) -> Tensor:
        """Logits (B, classes, H / 4, W / 4), rounded up, of RGB images (B, 3, H, W) in [0, 1]."""
        if batch.ndim != 4 or batch.shape[1] != 3:
            raise InputError(f"HRNet takes RGB images (B, 3, H, W), but got shape {tuple(batch.shape)}")
        x = relu(self.bn1(self.conv1(self.normalise(batch))), inplace=True)
        x = relu(self.bn2(self.conv2(x)), inplace=True)
        branches = [self.layer1(x)]
        for i in (1, 2, 3):
            transition, last = self.get_submodule(f"transition{i}").children(), len(branches) - 1
            inputs = [step(branches[min(j, last)]) for j, step in enumerate(transition)]  # a new one: from the coarsest
            branches = self.get_submodule(f"stage{i + 1}")(inputs)
        return self.last_layer(torch.cat([_resize(branch, branches[0]) for branch in branches], 1))  # type: ignore[no-any-return]


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions to four times the stem's channels, and a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = STEM * EXPANSION
        self.conv1, self.bn1 = _conv(channels, STEM, 1), nn.BatchNorm2d(STEM)
        self.conv2, self.bn2 = _conv(STEM, STEM, 3), nn.BatchNorm2d(STEM)
        self.conv3, self.bn3 = _conv(STEM, wide, 1), nn.BatchNorm2d(wide)
        self.downsample: nn.Module = nn.Identity()
        if channels != wide:
            self.downsample = nn.Sequential(_conv(channels, wide, 1), nn.BatchNorm2d(wide))

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, at its input's resolution."""
        y = relu(self.bn1(self.conv1(x)), inplace=True)
        y = relu(self.bn2(self.conv2(y)), inplace=True)
        return _shortcut(self.bn3(self.conv3(y)), self.downsample(x))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(channels, channels, 3), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = _conv(channels, channels, 3), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, at its input's resolution."""
        return _shortcut(self.bn2(self.conv2(relu(self.bn1(self.conv1(x)), inplace=True))), x)


class ParallelModule(nn.Module):
    """Basic blocks on every branch; then each branch becomes the sum of all, brought to its resolution."""

    def __init__(self, widths: Sequence[int], blocks: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*(BasicBlock(width) for _ in range(blocks))) for width in widths)
        ends = range(len(widths))
        self.fuse_layers = nn.ModuleList(nn.ModuleList(_fuse(widths, i, j) for i in ends) for j in ends)

    def forward(self, xs: list[Tensor]) -> list[Tensor]:
        """One tensor per branch in, one per branch out."""
        xs = [branch(x) for branch, x in zip(self.branches, xs, strict=True)]
        fused = []
        for target, layers in zip(xs, self.fuse_layers, strict=True):
            terms = [_resize(layer(x), target) for layer, x in zip(layers, xs, strict=True)]  # type: ignore[call-overload]
            fused.append(relu(sum(terms[1:], terms[0]), inplace=len(terms) > 1))
        return fused


def load_hrnet(
    path: FilePath, *, width: int | None = None, classes: int | None = None, **normalisation: Numbers
) -> HRNet:
    """The HRNetV2 of a checkpoint, in evaluation mode; its architecture is read from the keys.

    ``width`` and ``classes``, where given, must agree with the file. Further arguments are those of `HRNet`.
    """
    state = load_state(path)
    found = infer(state.tensors, source=str(path))
    for name, asked, has in (("width", width, found.width), ("classes", classes, found.classes)):
        if asked is not None and asked != has:
            raise InputError(f"{path} holds an HRNetV2 of {name} {has}, but {name}={asked} was asked for: leave it out")
    return with_weights(lambda: HRNet(found, **normalisation), state)


def infer(state: Mapping[str, Tensor], *, source: str = "the state dict") -> Architecture:
    """The architecture whose state dict this is, from its names and shapes."""
    try:
        width, classes = (state[f"{layer}.weight"].shape[0] for layer in ("transition1.0.0", "last_layer.3"))
        blocks, *modules = (_children(state, prefix) for prefix in ("layer1.", "stage2.", "stage3.", "stage4."))
        return Architecture(width, classes, blocks, tuple(modules))  # type: ignore[arg-type]
    except (KeyError, InputError) as error:
        cure = "ImageNet weights and HRNet-OCR have other heads: give weights of branch pytorch-v1.1"
        raise no_such_network(state, "HRNetV2 segmentation network", error, source=source, cure=cure) from None


def _children(state: Mapping[str, Tensor], prefix: str) -> int:
    """How many numbered children a container has in a state dict."""
    return len({name[len(prefix) :].split(".")[0] for name in state if name.startswith(prefix)})


def _conv(inputs: int, outputs: int, size: int, *, stride: int = 1, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=bias)


def _unit(inputs: int, outputs: int, *, size: int = 3, active: bool = True, **options: Any) -> nn.Sequential:
    """Convolution and batch norm, with a ReLU where ``active``."""
    active_layers = [nn.ReLU(inplace=True)] if active else []
    return nn.Sequential(_conv(inputs, outputs, size, **options), nn.BatchNorm2d(outputs), *active_layers)


def _transition(old: Sequence[int], new: Sequence[int]) -> nn.ModuleList:
    """From one stage's branches to the next one's: change channels, or open a branch at half the resolution."""
    kept = [nn.Identity() if before == after else _unit(before, after) for before, after in zip(old, new, strict=False)]
    opened = [nn.Sequential(_unit(old[-1], width, stride=2)) for width in new[len(old) :]]
    return nn.ModuleList([*kept, *opened])


def _fuse(widths: Sequence[int], source: int, target: int) -> nn.Module:
    """What brings branch ``source`` to the channels of ``target``, and down to its resolution."""
    if source == target:
        return nn.Identity()
    if source > target:
        return _unit(widths[source], widths[target], size=1, active=False)
    steps = [_unit(widths[source], widths[source], stride=2) for _ in range(target - source - 1)]
    return nn.Sequential(*steps, _unit(widths[source], widths[target], stride=2, active=False))


def _shortcut(y: Tensor, x: Tensor) -> Tensor:
    """The sum with a block's input and a ReLU, in the memory of ``y``: new memory takes longer than the sum."""
    return relu(y.add_(x) if y.dtype == x.dtype else y + x, inplace=True)


def _resize(x: Tensor, like: Tensor) -> Tensor:
    """``x`` at the resolution of ``like``, bilinearly."""
    if x.shape[2:] == like.shape[2:]:
        return x
    return interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=False)
