"""How good the bundled models are: those of images at three claims, beside their twins trained without noise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from segcertify import __version__
from segcertify.certificate import radius_text
from segcertify.data import DataSet
from segcertify.errors import InputError
from segcertify.evaluation import Setting, evaluate
from segcertify.models import Card, PartSegmenter, bundled, card_of, load
from segcertify.report.run import Run
from segcertify.report.table import Table
from segcertify.reproduce import bundled_clouds
from segcertify.sampling.draws import require_device

SETTINGS = (Setting(0.25, 100, 0.75), Setting(0.25, 300, 0.90), Setting(0.25, 500, 0.95))
"""The paper's three claims on images [Fischer2021, extended Table 1]."""

TWIN = "-non-robust"
N0, ALPHA = 10, 0.001
FILE, PAGE = "results.json", "README.md"
NUMBERS = ("accuracy", "miou_pooled", "miou_per_image", "miou_worst_case", "abstained", "abstained_all")
HEADS = (
    "model", "smoothing", "R", "accuracy", "mIoU pooled", "mIoU per image", "mIoU worst case", "abstained (valid)",
    "abstained (all)",
)  # fmt: skip


def run(
    name: str,
    data: DataSet,
    *,
    out: Path,
    settings: Sequence[Setting] = SETTINGS,
    again: Mapping[str, str] = MappingProxyType({}),
    generated: int | None = None,
    runs: int | None = None,
    device: str = "cpu",
    seed: int = 0,
    progress: bool | None = None,
) -> list[Path]:
    """Evaluate a bundled model on a data set, and write results and page; the files written.

    Beside a model of images stands its twin, at each of ``settings``. ``again`` names
    specs of models in place of these, trained as they were but on other scenes: a
    model that was trained on all scenes there are is scored on a fold. A model of
    clouds has the claims of `bundled_clouds.trials`, also on ``generated`` shapes, and
    averages ``runs`` of its network. The evaluations lie in ``out/runs``: the same
    call again resumes them.
    """
    if name not in bundled():
        raise InputError(f"no model {name!r} ships with segcertify: there are {', '.join(bundled())}")
    place = require_device(device)
    model = load(name if runs is None else f"{name}?runs={runs}").to(place)
    if isinstance(model, PartSegmenter):
        count = bundled_clouds.GENERATED if generated is None else generated
        results, files = bundled_clouds.certified(
            name, model, data, out=out, generated=count, device=place, seed=seed, progress=progress
        )
    elif generated is not None or data[0].x.ndim != 3:
        raise InputError(f"{name} takes images: give it no clouds ({data.name}) and no generated shapes")
    else:
        models = {each: again.get(each, each) for each in (name, name + TWIN) if each in bundled()}
        results, files = _images(models, data, out, settings, device=place, seed=seed, progress=progress), []
    results |= {"seed": seed, "device": place.type, "version": __version__}
    (out / FILE).write_text(json.dumps(results, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return [out / FILE, render(out), *files]


def _images(
    models: Mapping[str, str],
    data: DataSet,
    out: Path,
    settings: Sequence[Setting],
    *,
    device: torch.device,
    seed: int,
    progress: bool | None,
) -> dict[str, Any]:
    """The results of a model of images and of its twin, from the specs of both."""
    results = []
    cards = {name: _card(spec, data) for name, spec in models.items()}  # of all, before the first is evaluated
    for name, spec in models.items():
        model, folder, card = load(spec).to(device), out / "runs" / name, cards[name]
        shown = name if spec == name else f"{name}, trained again"
        evaluate(
            model, data, out=folder, settings=settings, n0=N0, alpha=ALPHA, seed=seed, device=device, name=shown,
            progress=progress,
        )  # fmt: skip
        rows = [
            {key: getattr(row, key) for key in ("sigma", "n", "tau", "radius", *NUMBERS)}
            for row in Run.load(folder).rows
        ]
        results.append({"model": shown, "trained on": card.data, "objective": card.objective, "rows": rows})
    return {
        "name": next(iter(models)), "data": data.name, "scenes": len(data), "n0": N0, "alpha": ALPHA,
        "correction": "holm", "models": results,
    }  # fmt: skip


def _card(spec: str, data: DataSet) -> Card:
    """The card of a model of the data's classes."""
    card = card_of(load(spec))
    if card is None or card.classes != data.classes:
        raise InputError(f"{spec} is no model that segcertify trained on the classes of {data.name}: give such files")
    return card


def render(folder: Path) -> Path:
    """Write the page of the results in a folder."""
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"no {FILE} in {folder}: run segcertify reproduce bundled --out {folder} first")
    try:
        text = page(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no results of reproduce bundled ({error}): make it again") from None
    (folder / PAGE).write_text(text, encoding="utf-8")
    return folder / PAGE


def page(results: Mapping[str, Any]) -> str:
    """The page of the documents."""
    made = f"segcertify {results['version']}, {results['device']}, seed {results['seed']}"
    clouds = results.get("kind") == bundled_clouds.KIND
    return "\n".join(
        [
            f"# The bundled model {results['name']}",
            "",
            f"Written by `segcertify reproduce bundled` ({made}) from [{FILE}]({FILE}). Do not edit.",
            "",
            *(bundled_clouds.body(results) if clouds else _body(results)),
        ]
    )


def _body(results: Mapping[str, Any]) -> list[str]:
    """What the page says of a model of images and its twin."""
    trained = [
        f"- `{model['model']}`: {model['objective']}, trained on {model['trained on']}" for model in results["models"]
    ]
    return [*trained, "", table(results).markdown()]


def table(results: Mapping[str, Any]) -> Table:
    """A row for each model without smoothing, and for each of its claims."""
    together = max(0.0, 1 - results["scenes"] * results["alpha"])
    notes = (
        f"{results['scenes']} scenes of {results['data']}; what the models were trained on is said above. n0 = "
        f"{results['n0']}, alpha = {results['alpha']:g} for each scene, {results['correction']}: a row's certificates "
        f"hold for all scenes together with probability at least {together:g}. Each row is a claim of its own.",
        "An abstention counts as wrong. Only the worst-case mIoU is a lower bound under attack.",
    )
    rows = tuple(_cells(model["model"], row) for model in results["models"] for row in model["rows"])
    return Table(f"{results['name']} on {results['data']}", HEADS, rows, notes)


def _cells(model: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = {name: f"{row[name]:.4f}" for name in NUMBERS}
    if row["sigma"] is None:
        return model, "none", "", *(numbers | {"miou_worst_case": ""}).values()
    smoothing = f"sigma={row['sigma']:g}, n={row['n']}, tau={row['tau']:g}"
    return model, smoothing, radius_text(row["radius"], 3), *numbers.values()
