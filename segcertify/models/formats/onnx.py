"""ONNX files through onnxruntime (the extra ``onnx``), on the CPU or on CUDA."""

import hashlib
import importlib
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from segcertify.errors import InputError, unknown
from segcertify.models.formats.exported import in_batches, require_extent, require_file
from segcertify.models.formats.weights import FilePath, first_line
from segcertify.models.wrappers.adapters import Adapted, adapt
from segcertify.sampling.model_outputs import KEYS

PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


def load_onnx(path: FilePath, *, output: str | None = None) -> Adapted:
    """The model of an ONNX file; ``output`` names the scores among several outputs."""
    file = require_file(path, "an ONNX model")
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError:
        raise InputError("onnx:FILE needs onnxruntime: pip install 'segcertify[onnx]'") from None
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    providers = [name for name in PROVIDERS if name in runtime.get_available_providers()]
    try:
        session = runtime.InferenceSession(str(file), options, providers=providers)
    except Exception as error:
        raise InputError(f"cannot read {file} as an ONNX model: {first_line(error)}") from error
    try:
        return adapt(OnnxProgram(session, output=output, digests=_digests(file))).eval()
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {file} as an ONNX model: a name in it is no text ({error})") from None


class OnnxProgram(nn.Module):
    """One output of an onnxruntime session as a module without parameters. Loading decides on which device it runs.

    A session whose batch axis is fixed runs on batches of that size.
    """

    def __init__(self, session: Any, *, output: str | None = None, digests: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        inputs = session.get_inputs()
        if len(inputs) != 1:
            raise InputError(f"an ONNX model must take one input, the batch, but this takes {len(inputs)}")
        if inputs[0].type not in TYPES:
            raise InputError(f"an ONNX model must take floats, to add noise to, but this takes {inputs[0].type}")
        if not inputs[0].shape:
            raise InputError("an ONNX model must take a batch of inputs, but this takes a single number")
        batch, *extent = inputs[0].shape
        self.digests = dict(digests or {"file": ""})
        self.session, self.input, self.dtype = session, inputs[0].name, TYPES[inputs[0].type]
        self.output = _choose([entry.name for entry in session.get_outputs()], output)
        self.extent = tuple(side if isinstance(side, int) else None for side in extent)
        self.size = batch if isinstance(batch, int) else None

    def identity(self) -> dict[str, Any]:
        """The files' digests and the output: the weights are in neither parameters nor buffers."""
        return {**self.digests, "output": self.output}

    def forward(self, batch: Tensor) -> Tensor:
        """The output for the batch, on the batch's device."""
        require_extent(self.extent, batch)
        return in_batches(self._run, batch, least=self.size or 1, most=self.size).to(batch.device)

    def _run(self, batch: Tensor) -> Tensor:
        """One call of the session, through NumPy."""
        exact = batch.detach().to("cpu", torch.float64 if batch.dtype == torch.float64 else torch.float32)
        array = np.ascontiguousarray(exact.numpy(), dtype=self.dtype)
        return torch.from_numpy(self.session.run([self.output], {self.input: array})[0])


def _digests(file: Path) -> dict[str, Any]:
    """The digest of an ONNX file, and of each file beside it that holds some of its weights.

    The name of such a file stands after the key ``location`` (a protobuf message of two texts).
    """
    content = file.read_bytes()
    found = {"file": hashlib.sha256(content).hexdigest()[:16]}
    external = {}
    for match in re.finditer(rb"\x0a\x08location\x12([\x00-\x7f]|[\x80-\xff][\x00-\x7f])", content):
        length = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(match[1]))
        name = content[match.end() : match.end() + length].decode("utf-8", "replace")
        if os.path.isfile(file.parent / name) and name not in external:  # the session has opened all that it needs
            with (file.parent / name).open("rb") as weights:
                external[name] = hashlib.file_digest(weights, "sha256").hexdigest()[:16]
    return {**found, "external": external} if external else found


def _choose(names: list[str], wanted: str | None) -> str:
    """The output that holds the scores: the wanted one, one of a known name, or the first."""
    if not names:
        raise InputError("an ONNX model must give the scores, but this gives nothing")
    if wanted is not None and wanted not in names:
        raise unknown("output", wanted, names, where=" of the ONNX model")
    chosen = wanted or next((name for name in KEYS if name in names), names[0])
    if wanted is None and len(names) > 1 and chosen not in KEYS:
        listed = ", ".join(names)
        warnings.warn(f"the ONNX model has outputs {listed}, and {chosen} is taken: say ?output=", stacklevel=2)
    return chosen
