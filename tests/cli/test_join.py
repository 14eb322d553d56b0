"""`segcertify join`."""

import pytest
import torch

from segcertify import models
from segcertify.models import Card, Lite, save_model
from segcertify.models.families import describe


@pytest.fixture
def member(folder):
    torch.manual_seed(3)
    model = Lite(2, 8, 16).eval()
    card = Card(
        architecture=describe(model), classes=("a", "b"), colours=((0, 0, 0), (9, 9, 9)), data="toy",
        objective="noise", sigma=(0.25,), recipe={"steps": 1}, metrics={"accuracy": 0.5},
        licence="none", date="2025-01-31", version="1",
    )  # fmt: skip
    save_model(folder / "one.safetensors", model, card)
    return "one.safetensors"


def test_join(segcertify, folder, member):
    arguments = ["join", member, f"trained:{member}", "--view", "1", "--view", "0.5m", "--half", "--out"]
    shown = segcertify(*arguments, "both.safetensors")
    assert "joined: use it as trained:both.safetensors" in shown.out
    assert models.read_card(folder / "both.safetensors").architecture["views"] == [[1.0, False], [0.5, True]]
    assert "both.md" in shown.out
    found = segcertify(*arguments, "again.safetensors", "--json").json
    assert found == {"spec": "trained:again.safetensors", "files": ["again.safetensors", "again.md"]}
    assert "its name is too long: shorten it" in segcertify(*arguments, "x" * 256, code=2).err
