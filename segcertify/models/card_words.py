"""The sentences of a model's card: what the model is, what it is for, and where it ends."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from segcertify import names

if TYPE_CHECKING:
    from segcertify.models.card import Card


def of(card: Card, name: str) -> dict[str, str]:
    """Title, summary, noise, intended use and limits."""
    noise = (
        f"Gaussian noise of sigma {', '.join(f'{value:g}' for value in card.sigma)}" if any(card.sigma) else "no noise"
    )
    data = names.markdown(" ".join(card.data.split()))
    return {
        "title": f"{names.markdown(name)}: {_what(card)}",
        "summary": f"Trained on {data} with {noise}, {_purpose(card)} by segcertify.",
        "noise": noise,
        "intended": _intended(card, noise),
        "limits": "\n".join(f"- {limit}" for limit in _limits(card, data, noise)),
    }


def none_certified(card: Card, file: str) -> str:
    """Instead of certified results, where none are known."""
    if card.is_denoiser:
        return "A denoiser certifies nothing by itself. The model behind it is evaluated with it."
    model = ["segcertify", "evaluate", "--model", card.spec(file), "--data", "DATA"]
    command = shlex.join([*model, "--sigma", f"{max(card.sigma) or 0.25:g}", "--n", "100", "--tau", "0.75"])
    return f"None are known on scenes that it was not trained on. This measures them: {names.code(command)}."


def _what(card: Card) -> str:
    if card.is_denoiser:
        return "a denoiser of images"
    family, of = names.markdown(card.architecture["family"]), "point clouds, " if card.of_clouds else ""
    return f"a segmentation network ({family}) for {of}{len(card.classes)} classes"


def _purpose(card: Card) -> str:
    return "to stand before a model that is certified" if card.is_denoiser else "to be smoothed and certified"


def _intended(card: Card, noise: str) -> str:
    if card.is_denoiser:
        return (
            "To make a model certifiable that was never trained on noise: it cleans each noisy image before that model "
            "labels it. A certificate is then about both together."
        )
    if not any(card.sigma):
        return (
            "For comparison: a network that was trained without noise, to attack beside one that was trained on noise. "
            "It can be smoothed and certified, but nothing was done to make its labels keep under noise."
        )
    unit = "point of a cloud" if card.of_clouds else "pixel of an image"
    return (
        f"To be smoothed and certified: segcertify asks it for the labels of many copies with {noise}, and gives each "
        f"{unit} a label with a proof, or abstains. Without noise it is an ordinary network, without any guarantee."
    )


def _limits(card: Card, data: str, noise: str) -> list[str]:
    if card.is_denoiser:
        return [f"It knows {noise}. Under other noise, the model that it stands before may abstain more."]
    scenes = "clouds" if card.of_clouds else "images"
    threat = "moved points" if card.of_clouds else "changes of colours"
    return [
        f"It was trained on {data}. A certificate holds on any input, but on other {scenes} more labels may be wrong, "
        "certified or not, and more may abstain.",
        f"Certificates are about {threat} up to a radius, in l2 norm. They say nothing of anything larger, such as "
        "another view, weather or an object that was added.",
        "A certified label may be wrong: it is sure to stay. Do not let a decision about safety rest on it alone.",
        "It knows its classes only, and calls everything one of them.",
        f"It was trained with {noise}: under {'other' if any(card.sigma) else 'any'} noise it may abstain more.",
    ]
