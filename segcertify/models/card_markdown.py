"""A model's card as a README."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from segcertify import names
from segcertify.models import card_words
from segcertify.models.card_front_matter import front_matter
from segcertify.plain_words import AGAIN
from segcertify.preprocessing import in_words, of_cloud, of_image

if TYPE_CHECKING:
    from segcertify.models.card import Card
    from segcertify.models.card_results import Evaluated

_PICTURE = "What went in, and what is certified of it"
_NOT_MEASURED = "Nothing was measured on other scenes while this was made."

_USE = """\
model = sc.models.load({spec})
certificate = sc.certify(model, image, sigma={sigma:g}, tau=0.75, n=100, n0=10, alpha=0.001)  # RGB in [0, 1]"""

_USE_DENOISER = """\
model = sc.models.load({spec})  # any MODEL for images, such as hf:FOLDER
certificate = sc.certify(model, image, sigma=0.25, tau=0.75, n=100, n0=10, alpha=0.001)  # RGB in [0, 1]"""

_USE_CLOUDS = """\
model = sc.models.load({spec})
noise = sc.Gaussian({sigma:g}, channels=(0, 1, 2), axis=1)  # on x, y and z, not on normals
certificate = sc.certify(model, cloud, noise=noise, tau=0.75, n=100, n0=10, alpha=0.001)  # centred, of radius 1"""

_MARKDOWN = """\
---
{front}
---

# {title}

{summary}
Made on {date} with segcertify {version}.
{picture}
## Intended use

{intended}

## Limits

{limits}

## Input

{units}{best}

## Use

```python
import segcertify as sc

{use}
```

**What a certificate says.** It is about this model under the noise that was drawn. With probability at least 99.9%
(alpha = 0.001), whatever change within the radius is made to the input, all certified {components} keep their label,
the smoothed model's most likely one. Exactly: with probability at least 1 - alpha, the smoothed model's labels that are
not ABSTAIN are the same for every input within the radius. It does not say that the labels are right, and says nothing
of another model, another noise or a larger change.
{again}

## Certified results

{certified}

## Measured while training

{metrics}

## Data and licence

Trained on {data}.

{licence}

## Training

Objective: {objective}. Noise: {noise}.

{recipe}

{architecture}

## {outputs}

{classes}
"""


def markdown(card: Card, file: str, results: Evaluated | None = None) -> str:
    """The card as a README for the model's ``file``, in the form that Hugging Face shows, with certified results."""
    spec = card.spec(file) + ("?category=Chair" if card.of_clouds else "")
    spec += "&denoiser_sigma=0.25" if card.is_denoiser else ""
    use = _USE_CLOUDS if card.of_clouds else _USE_DENOISER if card.is_denoiser else _USE
    colours = ["#{:02x}{:02x}{:02x}".format(*colour) for colour in card.colours]
    classes = [(label, *entry) for label, entry in enumerate(zip(card.classes, colours, strict=True))]
    metrics = [(name, f"{value:.4g}") for name, value in card.metrics.items()]
    name = PurePath(file).name.removesuffix(".safetensors")
    values = {
        **card_words.of(card, name),
        "front": front_matter(card, name, results),
        "picture": f"\n![{_PICTURE}]({results.picture})\n" if results and results.picture else "",
        "use": use.format(sigma=max(card.sigma) or 0.25, spec=names.python(spec)),
        "again": AGAIN,
        "components": "points" if card.of_clouds else "pixels",
        "units": _units(card),
        "best": f"\nIt does best on {card.inputs}." if card.inputs else "",
        "certified": results.markdown() if results else card_words.none_certified(card, file),
        "outputs": "Channels" if card.is_denoiser else "Classes",
        "architecture": _table(("architecture", "value"), _settings(card.architecture)),
        "classes": _table(("label", "channel" if card.is_denoiser else "class", "colour"), classes),
        "recipe": _table(("setting", "value"), _settings(card.recipe)),
        "metrics": _table(("metric", "value"), metrics) if metrics else _NOT_MEASURED,
    }
    texts = {each: _escaped(getattr(card, each)) for each in ("data", "objective", "date", "version")}
    return _MARKDOWN.format(**texts, licence=_lines(card.licence), **values)


def _units(card: Card) -> str:
    """What a radius is about: the input after the pre-processing that `segcertify.data` does."""
    if card.of_clouds:
        return in_words(of_cloud())
    return (
        f"{in_words(of_image())} Commands resize image files to the size where the model does best, if that is known. "
        "The resize is part of the certified function, and certificates state the radius in the file's own pixels too."
    )


def _settings(values: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Settings by name. Those of an ensemble's members follow in their order, or once where all are equal."""
    members = values.get("members")
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        return values.items()
    settings = {name: value for name, value in values.items() if name != "members"}
    for name in dict.fromkeys(name for member in members for name in member):
        entries = [_text(member.get(name, "-")) for member in members]
        settings[f"{name} of the members"] = entries[0] if len(set(entries)) == 1 else "; ".join(entries)
    return settings.items()


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    lines = [[_escaped(_text(entry)) for entry in row] for row in (head, *rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _escaped(text: str) -> str:
    """A card's text in one paragraph: it is whoever made the model that wrote it."""
    return names.markdown(" ".join(text.split()))


def _lines(text: str) -> str:
    """A card's text in the lines that it has, none of which is a heading, a rule or a list."""
    lines = (names.markdown(line.strip()) for line in text.strip().splitlines())
    return "\n".join(f"\\{line}" if line and not line.strip("-= ") else line for line in lines)
