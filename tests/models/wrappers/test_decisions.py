"""Binary and multi-label models: decisions by a number, certified like any labels."""

import numpy as np
import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify import InputError, models
from segcertify.sampling.identity import identity


class Binary(nn.Module):
    """One logit for each pixel, from the mean colour; coarser by a stride if asked for."""

    def __init__(self, stride=1):
        super().__init__()
        self.pool = nn.AvgPool2d(stride)

    def forward(self, batch):
        return self.pool(batch).mean(1, keepdim=True) - 0.5


X = np.concatenate([np.full((3, 4, 4), 0.1), np.full((3, 4, 4), 0.9)], axis=2)
SETTINGS = {"sigma": 0.25, "tau": 0.75, "seed": 0}


@pytest.mark.parametrize("stride", [1, 2])
def test_a_binary_model_is_certified(stride):
    with pytest.raises(
        InputError, match=r"have one class, .* use segcertify.models.Decisions\(model\), in a spec \?abo"
    ):
        sc.certify(Binary(stride).eval(), X, **SETTINGS)
    found = sc.certify(models.Decisions(Binary(stride).eval()), X, **SETTINGS)
    assert found.labels.shape == (4, 8)
    assert (found.labels[:, 0] == 0).all()
    assert (found.labels[:, -1] == 1).all()


def test_each_class_is_a_decision_of_its_own():
    """Several labels may hold at a pixel: N is classes times pixels, and all decisions hold at once."""
    several = models.Decisions(
        lambda batch: {"logits": torch.stack([batch.mean(1), batch.mean(1) - 0.5], 1)}, above=-0.1
    )
    found = sc.certify(several, X, **SETTINGS)
    assert (found.labels.shape, found.N) == ((2, 4, 8), 2 * 4 * 8)
    assert (found.labels[0, :, 6:] == 1).all()
    assert (found.labels[1, :, :2] == 0).all()


def test_probabilities_have_another_number_which_the_identity_has():
    logits, probabilities = (models.Decisions(Binary().eval(), above=above) for above in (0.0, 0.5))
    assert identity(logits) != identity(probabilities)
    x = torch.rand(1, 3, 4, 4)
    sigmoid = models.Decisions(lambda batch: Binary()(batch).sigmoid(), above=0.5)
    assert torch.equal(logits(x), sigmoid(x))


def test_scores_without_a_class_axis_and_of_random_models():
    assert models.Decisions(lambda batch: batch.mean(1) - 0.5)(torch.ones(2, 3, 4, 4)).shape == (2, 4, 4)

    class Random:
        random = True

        def __call__(self, batch, seeds):
            return batch[:, :1] + torch.tensor(seeds)[:, None, None, None] % 2 - 0.5

    assert models.Decisions(Random())(torch.zeros(2, 3, 4, 4), seeds=[2, 3]).flatten(1)[:, 0].tolist() == [0, 1]


def test_a_spec(tmp_path, monkeypatch):
    (tmp_path / "binary_model.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Conv2d(3, 1, 3, padding=1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    x = torch.rand(1, 3, 4, 4)
    torch.manual_seed(0)
    model = models.load("python:binary_model:make?above=0")
    assert torch.equal(model(x), (model.model(x)[:, 0] > 0).long())
    votes = sc.sample(model, x[0], noise=sc.Gaussian(0.25), n=20, n0=2, seed=0)  # by a faster copy
    assert votes.candidate.shape == (4, 4)
    assert "'above': 0.0" in str(votes.model["settings"])
    with pytest.raises(InputError, match=r"above cannot be 'high' in .*: write above=NUMBER"):
        models.load("python:binary_model:make?above=high")


def test_what_is_refused():
    with pytest.raises(InputError, match="Decisions are for scores, but the model gave"):
        models.Decisions(lambda batch: batch.long())(torch.zeros(1, 3, 4, 4))
    with pytest.raises(InputError, match="not finite"):
        models.Decisions(lambda batch: batch[:, :1] / 0)(torch.zeros(1, 3, 4, 4))
    with pytest.raises(InputError, match="above must be finite"):
        models.Decisions(Binary(), above=float("nan"))
