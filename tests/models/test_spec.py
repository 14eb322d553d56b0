"""Model specs: the python scheme, and what is refused."""

import pytest
import torch
from torch import nn

from segcertify import InputError, models


def make(width=3, name="a", flip=False):
    """A network, left in training mode."""
    model = nn.Sequential(nn.Conv2d(3, width, 1), nn.Dropout())
    model.settings = (width, name, flip)
    return model


def not_a_model():
    return 3


def test_python_spec():
    model = models.load(f"python:{__name__}:make?width=5&name=b&flip=true")
    assert model.settings == (5, "b", True)
    assert not model.training
    assert model(torch.zeros(1, 3, 2, 2)).shape == (1, 5, 2, 2)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("resnet", "unknown model spec 'resnet': expected python:..."),
        ("python:", "unknown model spec"),
        ("python:only_a_module", "expected python:module:factory"),
        ("python:no_such_module_x:make", "cannot import 'no_such_module_x'.*is it in this folder"),
        (f"python:{__name__}:missing", "has no function 'missing'"),
        (f"python:{__name__}:make?depth=3", "could not be called with"),
        (f"python:{__name__}:not_a_model", "gave int, which is not callable"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(InputError, match=message):
        models.load(spec)
