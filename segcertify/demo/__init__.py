"""A certificate for a real photograph, on any machine, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import torch

from segcertify.certificate import Certificate
from segcertify.data.images import read_input
from segcertify.demo.colours import ColourRegions
from segcertify.pictures import certified_figure, save_figure
from segcertify.sampler import certify
from segcertify.segmenter import predict


@dataclass(frozen=True)
class Demo:
    """The certificate and the files written."""

    certificate: Certificate
    picture: Path
    file: Path


def run(out: Path, *, sigma: float = 0.25, seed: int = 0, progress: bool | None = None) -> Demo:
    """Certify the colour regions of the bundled photograph (Chelsea the cat, CC0) at n0 = 10, n = 100, tau = 0.75."""
    with as_file(files("segcertify.demo") / "chelsea.jpg") as photograph:
        x = torch.from_numpy(read_input(photograph))
    model = ColourRegions.fit(x, classes=3).eval()
    certificate = certify(model, x, sigma=sigma, tau=0.75, n=100, n0=10, alpha=0.001, seed=seed, progress=progress)
    prediction = predict(model, x[None])[0].numpy()
    demo = Demo(certificate, picture=out / "certified.png", file=out / "certificate.safetensors")
    certificate.save(demo.file)
    save_figure(certified_figure(x.numpy(), prediction, certificate), demo.picture)
    return demo
