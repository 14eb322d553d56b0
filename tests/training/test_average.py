"""Average: the moving average's formula, for weights and buffers."""

import numpy as np
import pytest
import torch
from toys import batch, small

from segcertify.training.average import Average


@pytest.mark.parametrize("decay", [0.3, 0.9])
def test_the_average_follows_its_formula(decay):
    model = small().train()
    average = Average(model, decay)
    expected = {name: value.double().numpy() for name, value in model.state_dict().items()}
    for step in range(20):
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn(weight.shape))
        model(batch(step)[0])
        average.update(step)
        keep = min(decay, (1 + step) / (10 + step))
        for name, value in model.state_dict().items():
            now = value.double().numpy()
            whole = name.endswith("num_batches_tracked")
            expected[name] = now if whole else keep * expected[name] + (1 - keep) * now
    assert {"2.running_mean", "2.num_batches_tracked", "1.weight"} <= set(expected)
    for name, value in average.model.state_dict().items():
        np.testing.assert_allclose(value.numpy(), expected[name], rtol=1e-4, atol=1e-5)
    assert average.model[2].num_batches_tracked == 20


def test_the_model_itself_is_left_alone():
    model = small().train()
    average = Average(model, 0.5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        average.model[1].weight.add_(1)
    average.update(0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert not any(module.training for module in average.model.modules())
    assert not any(weight.requires_grad for weight in average.model.parameters())


def test_the_first_weights_are_soon_forgotten():
    model = small()
    average = Average(model, 0.999)
    with torch.no_grad():
        model[1].bias.fill_(1.0)
        average.model[1].bias.fill_(0.0)
    for step in range(30):
        average.update(step)
    assert average.model[1].bias.min() > 0.99
