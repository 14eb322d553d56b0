"""What the tests of whole runs share."""

import pytest
from toys import load


@pytest.fixture
def data(tmp_path):
    return load(tmp_path / "toys")


@pytest.fixture
def no_pictures(monkeypatch):
    """They have tests of their own, and take longer than a run."""
    monkeypatch.setattr("segcertify.training.journal.loss_figure", lambda rows, title: None)
    monkeypatch.setattr("segcertify.training.journal.save_figure", lambda figure, path: path.touch())
