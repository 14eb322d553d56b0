"""Writes the cards of our models beside their files, with certified results: python -m tools.model_cards.

Every number comes from the card inside the weights, or from the ``results.json`` that an experiment wrote.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segcertify.data.domain import CLOUD
from segcertify.models.card import Card, read_card
from segcertify.models.card_results import SCORES, Evaluated
from segcertify.models.saved import FOLDER, IN_REPOSITORY, WEIGHTS, beside, bundled, with_best_size
from segcertify.noise import Gaussian
from segcertify.numerals import counted
from segcertify.preprocessing import of_cloud, of_image
from segcertify.report.summary import iou_forms
from segcertify.reproduce.comparison import stored_row

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Source:
    """Where the results of a model are, what made them, and a picture of the model at work."""

    results: str
    command: str
    picture: str = ""


PETS = "python experiments/bundled_models.py pets --data 'pets:PETS?split=val' --every 2"
CAMVID = (
    "python experiments/bundled_models.py camvid --model trained:FOLD --non-robust trained:FOLD-NON-ROBUST --data "
    "'camvid:CAMVID?...' --every 4"
)
PARTS = (
    "python experiments/bundled_models.py parts --data 'shapenet:SHAPENET?split=val&normals=true' --generated 16 "
    "--runs 1"
)
SOURCES = {
    "pets": Source("results/models/pets", PETS, "docs/demo.png"),
    "pets-non-robust": Source("results/models/pets", PETS),
    "camvid": Source("results/models/camvid", CAMVID),
    "camvid-non-robust": Source("results/models/camvid", CAMVID),
    "parts": Source("results/models/parts", PARTS, "results/models/parts/certified.png"),
}


def files() -> dict[str, Path]:
    """The file of each model that ships, and of those that only the repository holds."""
    held = {name: WEIGHTS / f"{name}.safetensors" for name in IN_REPOSITORY}
    ships = {name: Path(str(FOLDER)) / f"{name}.safetensors" for name in bundled()}
    return ships | held | {"default": Path(str(FOLDER)) / "denoisers" / "default.safetensors"}


def card_text(name: str, file: Path) -> str:
    """The card of one of our models."""
    card = with_best_size(read_card(file), name)
    # what ships as the default denoiser is called so in specs
    return card.markdown("default" if card.is_denoiser else file.name, evaluated(name, card, file.parent))


def evaluated(name: str, card: Card, folder: Path) -> Evaluated | None:
    """What experiments found of a model; None if they did not evaluate it."""
    source = SOURCES.get(name)
    if source is None:
        return None
    results = json.loads((ROOT / source.results / "results.json").read_text(encoding="utf-8"))
    found = _clouds(results) if card.of_clouds else _images(results, name)

    def link(path: str) -> str:
        return os.path.relpath(ROOT / path, folder) if path else ""

    about = {"command": source.command, "source": link(f"{source.results}/README.md"), "picture": link(source.picture)}
    return Evaluated(**found, **about)


def _images(results: dict[str, Any], name: str) -> dict[str, Any]:
    """The results of a model or of its twin."""
    shown = next(each for each in results["models"] if each["model"].partition(",")[0] == name)
    again = f"another model was trained by the same recipe on {shown['trained on']}, and left these scenes out."
    return {
        **{key: results[key] for key in ("data", "scenes", "n0", "alpha", "correction")},
        "noise": Gaussian(shown["rows"][1]["sigma"]),
        "rows": [_row(row) for row in shown["rows"]],
        "preprocessing": of_image(),
        "weights": again if shown["model"] != name else "",
    }


def _clouds(results: dict[str, Any]) -> dict[str, Any]:
    """The results of real shapes under Gaussian noise."""
    trial = next(each for each in results["trials"] if (each["clouds"], each["noise"]) == ("real", "gaussian"))
    runs = f", with {counted(results['runs'], 'run')} of the network a draw"
    return {
        **{key: trial[key] for key in ("scenes", "n0", "alpha")},
        "data": trial["data"] + runs,
        "correction": trial["rows"][1]["correction"],
        "noise": CLOUD.noise(Gaussian(trial["rows"][1]["sigma"])),
        "rows": [_row(row) | {"miou_worst_case": iou_forms(stored_row(row, trial))[2]} for row in trial["rows"]],
        "preprocessing": of_cloud(),
        "clouds": True,
    }


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("sigma", "n", "tau", "radius", *SCORES)}


if __name__ == "__main__":
    for each, path in files().items():
        beside(path).write_text(card_text(each, path), encoding="utf-8")
        print(f"wrote {beside(path).relative_to(ROOT)}")
