"""What becomes of a model that was trained without noise: alone, denoised, hardened, and beside one trained on noise.

    python experiments/models_without_noise.py --data 'pets:FOLDER?split=val' --every 4 \\
        --model 'FDnCNN before it=pets-non-robust?denoiser=fdncnn_color.pth' \\
        --model 'hardened=trained:HARDENED.safetensors' --model 'hardened on its own labels=trained:OWN.safetensors' \\
        --out results/models/pets-without-noise
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from page import ABSTENTION, HEADS, Results, cells, document, parser, plain, render, require_different, save, start
from page import together as claim_of_all

import segcertify as sc
from segcertify.cli.options import chosen_device, chosen_scenes
from segcertify.errors import InputError
from segcertify.numerals import NOTHING, measured
from segcertify.report.run import Run
from segcertify.report.table import Table

BASE, NOISE_TRAINED = "without noise", "trained on noise"
OURS = "our denoiser before it"
SETTING, N0, ALPHA = (0.25, 100, 0.75), 10, 0.001


def main(arguments: Sequence[str] | None = None) -> None:
    """Evaluate the models and write the page, or only write the page."""
    command = parser(__doc__, "results/models/pets-without-noise")
    command.add_argument("--base", default="pets-non-robust", help="the model that was trained without noise")
    command.add_argument("--noise-trained", default="pets", help="one that was trained on noise")
    command.add_argument("--denoiser", default="default", help="our denoiser: default, or a file")
    command.add_argument("--model", action="append", default=[], metavar="NAME=SPEC", help="a further model")
    command.add_argument("--every", type=int, default=1, help="take every k-th scene")
    command.add_argument("--limit", type=int, help="take at most this many scenes")
    options = command.parse_args(arguments)
    if options.render:
        render(options.render, page)
    elif not options.data:
        raise InputError("name scenes, such as --data 'pets:FOLDER?split=val', or --render FOLDER")
    else:
        out = options.out or Path("results/models/pets-without-noise")
        save(out, run(options, out), page)


def specs_of(options: argparse.Namespace) -> dict[str, str]:
    """The models to compare, by name: the base model, it behind our denoiser, the further ones, the noise-trained."""
    further = [text.partition("=")[::2] for text in options.model]
    if any(not spec for _, spec in further):
        raise InputError(f"--model takes NAME=SPEC, such as hardened=trained:FILE, but got {options.model}")
    require_different("names of models", [BASE, OURS, NOISE_TRAINED, *(name for name, _ in further)])
    denoised = f"{options.base}?denoiser={options.denoiser}"
    return {BASE: options.base, OURS: denoised, **dict(further), NOISE_TRAINED: options.noise_trained}


def run(options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """The results, from evaluations in ``out/runs``: the same call again resumes them."""
    device, specs = chosen_device(options.device), specs_of(options)
    data = chosen_scenes(options.data, every=options.every, limit=options.limit)
    loaded = {name: sc.models.load(spec) for name, spec in specs.items()}  # all, before the first is evaluated
    models = []
    for number, (name, model) in enumerate(loaded.items()):
        folder = out / "runs" / str(number)
        sc.evaluate(
            model.to(device), data, out=folder, settings=[SETTING], n0=N0, alpha=ALPHA, seed=options.seed,
            device=device, name=name,
        )  # fmt: skip
        rows = [plain(row) for row in Run.load(folder).rows]
        models.append({"model": name, "spec": specs[name].rpartition("/")[2], "rows": rows})
    about = {"data": data.name, "scenes": len(data), "n0": N0, "alpha": ALPHA, "correction": "holm", "models": models}
    about |= {"preprocessing": data.preprocessing and dict(data.preprocessing), "seed": options.seed}
    return about | {"device": device.partition(":")[0], "version": sc.__version__}


def page(results: Results, folder: Path) -> str:
    """The page: every model without smoothing and smoothed, and how much of the gap each closes."""
    made = f"segcertify {results['version']}, {results['device']}, seed {results['seed']}"
    scenes, models = results["scenes"], results["models"]
    certified = {each["model"]: each["rows"][-1]["accuracy"] for each in models}
    gap = certified[NOISE_TRAINED] - certified[BASE]
    rows = []
    for each in models:
        closed = measured((certified[each["model"]] - certified[BASE]) / gap) if gap > 0 else NOTHING
        rows += [(each["model"], *cells(row), NOTHING if row["n"] is None else closed) for row in each["rows"]]
    notes = (f"{scenes} scenes of {results['data']}. {claim_of_all(results, scenes)}", ABSTENTION)
    heads = ("model", "smoothing", "R", *HEADS, "gap closed")
    return document(
        "models_without_noise",
        "A model that was trained without noise: alone, denoised, hardened",
        made,
        "The last column is the part of the distance between the certified accuracy of the model that was trained "
        "without noise and of the one that was trained on noise that a model closes.",
        [f"{each['model']}: `{each['spec']}`" for each in models],
        Table(f"On {results['data']}", heads, tuple(rows), notes),
    )


if __name__ == "__main__":
    start(main)
