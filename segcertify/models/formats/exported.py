"""Programs saved by PyTorch: TorchScript files and ``torch.export`` archives (.pt2).

Both are programs, not only weights: load those that you trust, as with ``python:``. TorchScript may read and write
files while it runs (``torch.from_file``), and nothing here prevents that. Of an archive every part and every text is
checked before torch evaluates it (`pt2_archive`), and its weights load with ``weights_only=True``.
"""

from __future__ import annotations

import hashlib
import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export.passes import move_to_device_pass

from segcertify.errors import InputError
from segcertify.models.formats.pt2_archive import checked_archive
from segcertify.models.formats.weights import FilePath, first_line
from segcertify.models.formats.zip_files import require_plain_zip, require_whole_pickles
from segcertify.models.wrappers.adapters import Adapted, adapt
from segcertify.storage import limits
from segcertify.storage.reading import readable


def load_torchscript(path: FilePath, *, output: int | str | None = None) -> Adapted:
    """A TorchScript program, on the CPU and in evaluation mode."""
    file = require_file(path, "a TorchScript file, as torch.jit.save writes it")
    require_plain_zip(file)
    if zipfile.is_zipfile(file):
        require_whole_pickles(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch.jit stays readable, and files of it abound
        try:
            program = torch.jit.load(str(file), map_location="cpu")  # type: ignore[no-untyped-call]
        except Exception as error:
            raise InputError(f"cannot read {file} as TorchScript: {first_line(error)}") from error
    return Script(program.eval(), output=output, file=file_digest(file)).eval()


def load_pt2(path: FilePath, *, output: int | str | None = None) -> ExportedProgram:
    """A program saved by ``torch.export.save``, on the CPU."""
    file = require_file(path, "a .pt2 archive, as torch.export.save writes it")
    if not zipfile.is_zipfile(file):
        raise InputError(f"cannot read {file} as a .pt2 archive: damaged, cut short, or another format?")
    try:
        checked = checked_archive(file)
        with _weights_only():
            program = torch.export.load(checked)
        return ExportedProgram(program, output=output, file=file_digest(file)).eval()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"cannot read {file} as a .pt2 archive: {first_line(error)}") from error


class Script(Adapted):
    """A TorchScript program, known by its file: programs of equal weights may differ in their code."""

    def __init__(self, program: Any, *, output: int | str | None, file: str) -> None:
        super().__init__(program, mean=None, std=None, output=output)
        self.file = file

    def identity(self) -> dict[str, Any]:
        """The file's digest, and which entry of the output holds the scores."""
        return {"file": self.file, "output": self.output}


class ExportedProgram(nn.Module):
    """An exported program as a module: any batch size, and no training mode.

    A program whose batch axis is fixed, or bounded, runs on batches of a size that it takes.
    """

    def __init__(self, program: Any, *, output: int | str | None = None, file: str = "") -> None:
        super().__init__()
        self.file = file
        inputs = program.graph_signature.user_inputs
        if len(inputs) != 1:
            raise InputError(f"an exported program must take one input, the batch, but this takes {len(inputs)}")
        for node in program.graph.nodes:
            _require_evaluation(node)
        shape = next(node.meta["val"].shape for node in program.graph.nodes if node.name == inputs[0])
        self.extent = tuple(side if isinstance(side, int) else None for side in shape[1:])
        self.least, self.most = _bounds(shape[0], program.range_constraints)
        self.program = adapt(program.module(), output=output)
        self._source, self._output, self._device = program, output, torch.device("cpu")

    def identity(self) -> dict[str, Any]:
        """The file's digest: programs of equal weights may differ in their code."""
        return {"file": self.file}

    def forward(self, batch: Tensor) -> Tensor:
        """The program's scores for the batch."""
        require_extent(self.extent, batch)
        if batch.device != self._device:
            self._move(batch.device)
        return in_batches(self.program, batch, least=self.least, most=self.most)

    def _move(self, device: torch.device) -> None:
        """Rewrite the program for another device: its graph names the one that it was exported on."""
        self._source = move_to_device_pass(self._source, device)
        self.program = adapt(self._source.module(), output=self._output)
        self._device = device
        self.train(False)

    def train(self, mode: bool = True) -> ExportedProgram:
        """Nothing to change: the mode was fixed when the program was exported, and checked to be evaluation."""
        for module in self.modules():
            module.training = False
        return self


def in_batches(run: Callable[[Tensor], Tensor], batch: Tensor, *, least: int, most: int | None) -> Tensor:
    """``run`` on batches of at least ``least`` and at most ``most`` entries; copies of the last entry fill one up."""
    outputs = []
    for part in torch.split(batch, most or max(len(batch), 1)):
        missing = max(0, least - len(part))
        filled = torch.cat([part, part[-1:].expand(missing, *part.shape[1:])]) if missing else part
        outputs.append(run(filled)[: len(part)])
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def require_extent(extent: Sequence[int | None], batch: Tensor) -> None:
    """Refuse a batch whose shape, after the batch axis, is not the one that the program was exported for."""
    shape = tuple(batch.shape[1:])
    if len(shape) != len(extent) or any(want not in (None, side) for want, side in zip(extent, shape, strict=True)):
        want = ", ".join("any" if side is None else str(side) for side in extent)
        cure = "resize x, or export with dynamic height and width"
        raise InputError(f"the program was exported for inputs of shape ({want}), but x has shape {shape}: {cure}")


def file_digest(file: Path) -> str:
    """A short digest of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def require_file(path: FilePath, kind: str) -> Path:
    """The path of a file that exists."""
    return readable(path, most=limits.MODEL_BYTES, missing=f"no file at {path}: expected {kind}")


def _require_evaluation(node: Any) -> None:
    """Refuse a program in which dropout or batch statistics were exported in training mode."""
    schema = getattr(node.target, "_schema", None)
    for i, argument in enumerate(schema.arguments if schema else ()):
        value = node.kwargs.get(argument.name, node.args[i] if i < len(node.args) else None)
        if argument.name in ("train", "training") and value is True:
            raise InputError(f"exported in training mode ({node.target}): call model.eval() and export it anew")


def _bounds(side: Any, ranges: dict[Any, Any]) -> tuple[int, int | None]:
    """The smallest and largest batch that a program takes, from the first axis of its input."""
    if isinstance(side, int):
        return side, side
    bounds = ranges.get(side.node.expr)
    if bounds is None:
        return 1, None
    lower, upper = float(bounds.lower), float(bounds.upper)
    return max(1, int(lower)), int(upper) if math.isfinite(upper) and upper < 2**31 else None


@contextmanager
def _weights_only() -> Iterator[None]:
    """Within, ``torch.load`` unpickles nothing but weights, whoever calls it."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
