"""Losses of attacks, against plain loops."""

import math

import pytest
import torch

from segcertify import InputError
from segcertify.attacks.losses import LOSSES, require_loss

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = 3 * torch.randn(2, 4, 3, 5, generator=GENERATOR)
LABELS = torch.randint(0, 4, (2, 3, 5), generator=GENERATOR)
VALID = torch.rand(2, 3, 5, generator=GENERATOR) < 0.7


def by_hand(weigh):
    """The mean over valid components of weight times -log p, component by component."""
    means = []
    for logits, labels, valid in zip(LOGITS, LABELS, VALID, strict=True):
        terms = []
        for at in valid.nonzero().tolist():
            scores = [float(plane[at[0], at[1]]) for plane in logits]
            total = sum(math.exp(score) for score in scores)
            p = [math.exp(score) / total for score in scores]
            label = int(labels[at[0], at[1]])
            terms.append(weigh(p, label) * -math.log(p[label]))
        means.append(sum(terms) / len(terms))
    return means


def right(p, label):
    return p[label] == max(p)


@pytest.mark.parametrize("done", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("name", "weigh"),
    [
        ("cross-entropy", lambda done: lambda p, label: 1),
        ("segpgd", lambda done: lambda p, label: 1 - done / 2 if right(p, label) else done / 2),
        ("cospgd", lambda done: lambda p, label: p[label] / math.sqrt(sum(q * q for q in p))),
    ],
)
def test_losses_equal_loops(name, weigh, done):
    found = LOSSES[name](LOGITS, LABELS, VALID, done=done)
    assert found.tolist() == pytest.approx(by_hand(weigh(done)), rel=1e-5)


def test_segpgd_follows_the_papers_schedule():
    """lambda(t) = (t - 1) / (2 T): at t = 1 only components that are right count, at the end all alike."""
    wrong = LOGITS.argmax(1) != LABELS
    assert LOSSES["segpgd"](LOGITS, LABELS, wrong, done=0.0).tolist() == [0, 0]
    late = LOSSES["segpgd"](LOGITS, LABELS, VALID, done=1.0)
    torch.testing.assert_close(late, LOSSES["cross-entropy"](LOGITS, LABELS, VALID, done=1.0) / 2)


def test_cospgd_weights_have_no_gradient():
    logits = LOGITS.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(LOSSES["cospgd"](logits, LABELS, VALID, done=0.5).sum(), logits)
    p = LOGITS.softmax(1)
    truth = torch.nn.functional.one_hot(LABELS, 4).movedim(-1, 1)
    weight = (p * truth).sum(1) / p.norm(dim=1) * VALID / VALID.flatten(1).sum(1).view(2, 1, 1)
    torch.testing.assert_close(slope, (p - truth) * weight[:, None])


def test_nothing_valid_is_no_loss():
    for loss in LOSSES.values():
        assert loss(LOGITS, LABELS, torch.zeros_like(VALID), done=0.5).tolist() == [0, 0]


def test_unknown_losses():
    with pytest.raises(InputError, match="unknown loss 'mse' for an attack: use cross-entropy, segpgd or cospgd"):
        require_loss("mse")
