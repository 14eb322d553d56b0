"""A wrapper has the mode, the randomness and the categories of the model inside."""

import pytest
from torch import nn

from segcertify import models
from segcertify.models.wrappers.wrapper import Wrapper


class ForCategory(nn.Module):
    random = True

    def __init__(self, category=""):
        super().__init__()
        self.category = category

    def for_category(self, category):
        return ForCategory(category)


@pytest.mark.parametrize(
    "wrap",
    [
        Wrapper,
        lambda model: models.adapt(model, mean=[0.5], std=[0.25]),
        lambda model: models.MultiScale(model, (0.5,)),
        lambda model: models.with_precision(model, "bf16"),
    ],
)
def test_a_wrapper_is_as_its_model(wrap):
    model = ForCategory().eval()
    wrapped = wrap(model)
    assert wrapped.random
    assert not wrapped.training
    chair = wrapped.for_category("Chair")
    assert type(chair) is type(wrapped)
    assert [each.category for each in chair.modules() if isinstance(each, ForCategory)] == ["Chair"]
    assert [each for each in wrapped.modules() if isinstance(each, ForCategory)] == [model]  # it is left alone
    assert {name for name, _ in chair.named_buffers()} == {name for name, _ in wrapped.named_buffers()}
    plain = wrap(nn.Identity())
    assert plain.training
    assert not plain.random
    assert plain.for_category("Chair") is plain
