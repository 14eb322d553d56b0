"""Folding: only where a batch norm alone uses a convolution's output, and then the same function up to rounding."""

import pytest
import torch
from torch import nn

from segcertify.models.folding import Pair, folded, recorded


def lively(model, seed=0):
    """The model in evaluation mode, with batch norms that do something."""
    torch.manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.3, 2)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, std=0.3)
    return model.eval()


class Net(nn.Module):
    """A convolution, a batch norm and a second convolution, put together by ``how``."""

    def __init__(self, how, **options):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1, **options), nn.BatchNorm2d(4)
        self.other, self.second = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)
        self.how = how

    def forward(self, x):
        return self.how(self, x)


EXAMPLE = torch.rand(2, 3, 9, 8, generator=torch.Generator().manual_seed(0))


def same(model, copy, x=EXAMPLE, rounding=1e-5):
    with torch.no_grad():
        a, b = model(x), copy(x)
    return float((a - b).abs().max()) <= rounding * float(a.abs().max())


@pytest.mark.parametrize(
    "how",
    [
        lambda net, x: net.norm(net.conv(x)),
        lambda net, x: net.norm(net.conv(x)).relu_() + net.other(x),
        lambda net, x: net.norm(net.conv(net.norm(net.conv(x))[:, :3])),  # the pair twice
        lambda net, x: torch.cat([(y := net.conv(x)).size(1) + net.norm(y), net.other(x)], 1),  # a size is no use
    ],
)  # fmt: skip
def test_a_pair_is_folded(how):
    net = lively(Net(how))
    copy, count = folded(net, EXAMPLE)
    assert count == 1
    assert isinstance(copy.norm, nn.Identity)
    assert same(net, copy)
    assert same(net, copy, 3 * torch.randn(2, 3, 9, 8))


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(lambda net, x: net.norm(y := net.conv(x)) + y, id="the convolution's output is used twice"),
        pytest.param(lambda net, x: net.norm(net.conv(x)) + net.norm(net.other(x)), id="a norm after two convolutions"),
        pytest.param(lambda net, x: net.norm(y := net.conv(x)) + net.second(y), id="a convolution before two norms"),
        pytest.param(lambda net, x: net.norm(net.conv(x)) + net.second(net.conv(x)), id="two norms in two calls"),
        pytest.param(lambda net, x: net.norm(net.conv(x)) + net.conv(x), id="a convolution also called without it"),
        pytest.param(lambda net, x: net.norm(net.conv(x).relu()), id="something between them"),
        pytest.param(lambda net, x: net.norm(net.conv(x).add_(1)), id="changed in place between them"),
        pytest.param(lambda net, x: net.norm(net.conv(x) + 0 * net.other(x)), id="a sum before the norm"),
        pytest.param(lambda net, x: net.norm(net.conv(x)) * net.norm.weight.sum(), id="the norm's weights are read"),
    ],
)
def test_other_pairs_are_left(how):
    net = lively(Net(how))
    copy, count = folded(net, EXAMPLE)
    assert count == 0
    assert isinstance(copy.norm, nn.BatchNorm2d)
    assert same(net, copy, rounding=0)


def test_an_output_that_the_model_returns_counts_as_used():
    net = lively(Net(lambda net, x: (net.norm(y := net.conv(x)), y)))
    assert folded(net, EXAMPLE)[1] == 0


def test_weights_that_are_shared_are_left():
    net = Net(lambda net, x: net.norm(net.conv(x)) + net.twin(x))
    net.twin = nn.Conv2d(3, 4, 3, padding=1)
    net.twin.weight = net.conv.weight
    assert folded(lively(net), EXAMPLE)[1] == 0
    twice = Net(lambda net, x: net.norm(net.conv(x)))
    twice.alias = twice.conv  # one module at two paths: replacing one attribute would not replace the other
    assert folded(lively(twice), EXAMPLE)[1] == 0


def test_training_mode_and_batch_statistics_are_left():
    net = lively(Net(lambda net, x: net.norm(net.conv(x))))
    net.norm.train()
    assert folded(net, EXAMPLE)[1] == 0
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)).eval()
    assert folded(plain, EXAMPLE)[1] == 0


def test_weights_that_are_computed_are_left():
    net = lively(Net(lambda net, x: net.norm(net.conv(x))))
    nn.utils.parametrizations.weight_norm(net.conv)
    assert folded(net, EXAMPLE)[1] == 0


def test_a_convolution_of_a_kind_of_its_own_is_left():
    class Doubled(nn.Conv2d):
        def forward(self, x):
            return 2 * super().forward(x)

    net = lively(nn.Sequential(Doubled(3, 4, 3), nn.BatchNorm2d(4)))
    assert folded(net, EXAMPLE)[1] == 0


@pytest.mark.parametrize("options", [{"bias": False}, {"groups": 1, "dilation": 2}, {"padding_mode": "reflect"}])
def test_options_of_the_convolution(options):
    net = lively(Net(lambda net, x: net.norm(net.conv(x)), **options))
    copy, count = folded(net, EXAMPLE)
    assert count == 1
    assert same(net, copy)


@pytest.mark.parametrize(
    ("conv", "norm", "shape"), [(nn.Conv1d, nn.BatchNorm1d, (2, 3, 9)), (nn.Conv3d, nn.BatchNorm3d, (2, 3, 5, 6, 7))]
)
def test_other_dimensions_and_norms_without_weights(conv, norm, shape):
    net, x = lively(nn.Sequential(conv(3, 5, 3), norm(5, affine=False))), torch.rand(shape)
    copy, count = folded(net, x)
    assert count == 1
    assert same(net, copy, x)


def test_a_wrong_fold_is_found_by_the_comparison(monkeypatch):
    """Defence in depth: were a pair recorded that is none, the outputs would differ, and the model stays as it is."""
    net = lively(Net(lambda net, x: net.norm(y := net.conv(x)) + y))
    monkeypatch.setattr(
        "segcertify.models.folding.recorded", lambda model, example: ([Pair("conv", "norm")], model(example))
    )
    copy, count = folded(net, EXAMPLE)
    assert count == 0
    assert same(net, copy, rounding=0)


def test_a_model_that_fails_on_the_example_stays_as_it_is():
    net = lively(nn.Sequential(nn.Conv2d(5, 4, 3), nn.BatchNorm2d(4)))
    copy, count = folded(net, EXAMPLE)
    assert count == 0
    assert isinstance(copy[1], nn.BatchNorm2d)


def test_pairs_are_named_by_their_paths():
    found, _ = recorded(lively(nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), nn.ReLU())), EXAMPLE)
    assert found == [Pair("0.0", "0.1")]


def test_the_model_itself_is_not_changed():
    net = lively(Net(lambda net, x: net.norm(net.conv(x))))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    folded(net, EXAMPLE)
    assert isinstance(net.norm, nn.BatchNorm2d)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
