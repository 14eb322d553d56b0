"""Where workers get their model: they load a spec themselves; a model from Python is sent to them."""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from segcertify import specs
from segcertify.errors import InputError
from segcertify.models import load, with_precision
from segcertify.sampling.identity import identity, weights_digest
from segcertify.sampling.segmenter import Segmenter, for_sampling
from segcertify.sampling.tasks import Host


@dataclass(frozen=True, eq=False)
class Source:
    """What a worker needs to have the driver's model. ``weights`` is their digest, which must be the worker's too.

    ``folder`` is the driver's working folder: paths in a spec are relative to it.
    """

    weights: str
    spec: str = ""
    trust_code: bool = False
    compile: bool = False
    precision: str = "fp32"
    threads: int = 1
    folder: str = ""

    def host(self, device: str, sent: Segmenter | None = None) -> tuple[Host, dict[str, Any]]:
        """The model on a worker's device, ready for tasks, and its identity. ``sent`` is one from Python."""
        torch.set_num_threads(self.threads)
        model = self._loaded() if sent is None else sent
        if weights_digest(model) != self.weights:
            raise InputError(
                f"a worker has another model than this process: {self.spec or 'the one that was sent'} has other "
                "weights there. A model's file must be the same on every machine"
            )
        model = model.to(device) if isinstance(model, nn.Module) else model
        described = identity(for_sampling(model))
        return Host(with_precision(model, self.precision), device), described

    def _loaded(self) -> nn.Module:
        """The model of the spec."""
        with suppress(OSError):  # another machine may not have the folder, and a spec may not need it
            os.chdir(self.folder)
        if specs.parse(self.spec).scheme == "python" and self.folder not in sys.path:
            sys.path.append(self.folder)
        model = load(self.spec, trust_code=self.trust_code)
        if self.compile:
            model.compiled = True  # type: ignore[assignment]
        return model


def pickled(sent: object, what: str = "the model") -> bytes:
    """What comes from Python, such as a model, as another process of this machine can take it."""
    try:
        return pickle.dumps(sent)
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
        raise InputError(
            f"{what} cannot be sent to other processes ({error}): define its class or function at the top of a "
            "module, or leave workers out"
        ) from None
