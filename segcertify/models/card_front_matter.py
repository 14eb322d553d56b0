"""The front matter of a model's card: the metadata that Hugging Face reads, as YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segcertify.models.card import Card
    from segcertify.models.card_results import Evaluated

_METRICS = {"accuracy": "accuracy", "mIoU": "mean_iou", "PSNR": "psnr"}
"""What Hugging Face calls the metrics of our trainings, by the first word of their names."""


def front_matter(card: Card, name: str, results: Evaluated | None) -> str:
    """The YAML between the lines of dashes; ``name`` is the model's."""
    kind = "point-cloud-segmentation" if card.of_clouds else "image-segmentation"
    task = "other" if card.of_clouds else "image-to-image" if card.is_denoiser else "image-segmentation"
    found = _found(card, results)
    values = {
        **_licence(card.licence),
        "library_name": "segcertify",
        "pipeline_tag": task,
        "tags": [kind, "certified-robustness", "randomized-smoothing"],
        "datasets": data_sets(card.data),
        "metrics": [*dict.fromkeys(each["type"] for entry in found for each in entry["metrics"])],
        "model-index": [{"name": name, "results": [{"task": {"type": task}, **entry} for entry in found]}]
        if found
        else [],
    }
    return "\n".join(_yaml({key: value for key, value in values.items() if value}))


def _licence(text: str) -> dict[str, str]:
    """The licence's name on Hugging Face; another one, and most of several, is told in the card.

    >>> _licence("weights CC BY-SA 4.0, as the data")
    {'license': 'cc-by-sa-4.0'}
    """
    named = [known for words, known in _LICENCES.items() if re.match(rf"(weights )?{re.escape(words)}(?!\.?\w)", text)]
    other = {"license": "other", "license_name": "see-below", "license_link": "README.md"}
    return {"license": named[0]} if named else other


def data_sets(text: str) -> list[str]:
    """The data sets that a card's text on data names, such as ``camvid`` of ``camvid/train (367 scenes)``.

    >>> data_sets("shapes/6000 of seed 0 and 60 times shapenet/train (8340 scenes)")
    ['shapes', 'shapenet']
    """
    return [*dict.fromkeys(re.findall(r"(?<![\w/.-])([a-z][\w-]*)/", text))]


def _found(card: Card, results: Evaluated | None) -> list[dict[str, Any]]:
    """The results by data set: what was certified, then what training measured on scenes that it left out."""
    kinds, found = data_sets(card.data) or ["other"], []
    if results is not None:
        kind = (data_sets(results.data) or kinds)[0]
        found.append({"dataset": {"type": kind, "name": results.about}, "metrics": results.metrics()})
    known = [(_METRICS.get(name.split()[0]), name, value) for name, value in card.metrics.items()]
    metrics = [{"type": kind, "name": name, "value": value} for kind, name, value in known if kind]
    if metrics:
        about = {"type": kinds[0], "name": "scenes that training left out, one noisy copy each"}
        found.append({"dataset": about, "metrics": metrics})
    return found


def _yaml(value: Any, indent: str = "") -> list[str]:
    """Mappings and lists in blocks, as YAML. Texts that are not plain words are quoted: nothing in them acts."""
    if isinstance(value, Mapping):
        return [line for key, each in value.items() for line in _entry(f"{indent}{key}:", each, indent)]
    lines = []
    for each in value:
        if isinstance(each, Mapping):
            first, *others = _yaml(each, f"{indent}  ")
            lines += [f"{indent}- {first.lstrip()}", *others]
        else:
            lines.append(f"{indent}- {_scalar(each)}")
    return lines


def _entry(head: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, Mapping):
        return [head, *_yaml(value, f"{indent}  ")]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [head, *_yaml(value, indent)]
    return [f"{head} {_scalar(value)}"]


def _scalar(value: Any) -> str:
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w.-]*", value) and value.lower() not in _RESERVED
    return value if plain else json.dumps(value)


_LICENCES = {
    "Apache-2.0": "apache-2.0", "MIT": "mit", "CC0 1.0": "cc0-1.0", "CC BY 4.0": "cc-by-4.0",
    "CC BY-SA 4.0": "cc-by-sa-4.0", "CC BY-NC 4.0": "cc-by-nc-4.0", "CC BY-NC-SA 4.0": "cc-by-nc-sa-4.0",
}  # fmt: skip
"""What Hugging Face calls the licences that a card's text begins with."""

_RESERVED = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
"""Words that YAML takes for something else than texts."""
