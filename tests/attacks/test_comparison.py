"""Comparisons of attacked models, and their picture."""

import dataclasses

import numpy as np
import pytest
import torch

import segcertify as sc
from segcertify.attacks.comparison import compare
from segcertify.figures.attack import attack_figure
from segcertify.sampling.segmenter import predict


def steep(batch, by=40.0):
    score = by * (torch.nn.functional.avg_pool2d(batch.mean(1, keepdim=True), 5, 1, 2) - 0.25)[:, 0]
    return torch.stack([torch.zeros_like(score), score], 1)


def fragile(batch):
    score = 40 * (batch.mean(1) - 0.25)
    return torch.stack([torch.zeros_like(score), score], 1)


ROBUST, FRAGILE = steep, fragile


def picture():
    """Bright on the right, dark on the left, with a soft edge between."""
    ramp = torch.linspace(0.1, 0.6, 24).expand(3, 16, 24)
    return (ramp + 0.05 * torch.rand(3, 16, 24, generator=torch.Generator().manual_seed(0))).contiguous()


@pytest.fixture(scope="module")
def certificate():
    return sc.certify(ROBUST, picture(), sigma=0.25, tau=0.75, n=100, seed=0)


@pytest.mark.parametrize("with_target", [False, True])
def test_three_attacks(certificate, with_target):
    x = picture()
    target = None
    if with_target:
        target = predict(ROBUST, x[None])[0].numpy()
        target[:2] = -1
    found = compare(ROBUST, FRAGILE, x, certificate, target=target, steps=10, radius=0.168, seed=0)
    assert list(found.attacks) == ["non-robust base model", "robust base model", "smoothed model"]
    for each in found.attacks.values():
        assert 0 < np.linalg.norm((each.x.astype(float) - x.numpy()).ravel()) <= certificate.radius
        assert each.smoothed.refuted == 0
        assert each.smoothed.certified == certificate.certified > 50
    for model, each in ((FRAGILE, found.non_robust), (ROBUST, found.robust)):
        assert np.array_equal(each.clean, predict(model, x[None])[0])
        assert np.array_equal(each.labels, predict(model, torch.from_numpy(each.x)[None])[0])
        assert each.flipped == (each.clean != each.labels).sum() > 0
    figure = attack_figure(x.numpy(), found, target=target, names=("dark", "bright"))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == "attacked image (l2, 0.168)"
    assert titles[2] == ("ground truth" if with_target else "no attack: the non-robust model")
    assert titles[3] == f"attacked: non-robust, {found.non_robust.flipped / 384:.1%} flipped"
    assert titles[5].startswith(f"certified: {certificate.certified / 384:.1%}, ")
    far = attack_figure(x.numpy(), dataclasses.replace(found, radius=0.5), target=target)
    assert far.axes[5].get_title().startswith("certified to 0.168: ")
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words[:2] == ["dark", "bright"]


def test_a_certificate_that_abstains_everywhere_leaves_nothing_to_attack():
    def unsure(batch):
        score = torch.sin(100 * batch.mean(1))  # noise decides
        return torch.stack([score, -score], 1)

    certificate = sc.certify(unsure, picture(), sigma=0.25, tau=0.75, n=100, seed=0)
    assert certificate.certified == 0
    found = compare(unsure, FRAGILE, picture(), certificate, steps=5, seed=0)
    assert np.array_equal(found.smoothed.x, picture())
    assert found.non_robust.flipped > 0
    assert found.verdict.startswith("Nothing is certified")


@pytest.mark.parametrize(
    ("moved", "refuted", "said"),
    [
        (0, 0, "No certified pixel of the smoothed model moved"),
        (3, 0, "Up to 3 certified pixels had another majority, none significantly"),
        (3, 2, "Up to 2 certified pixels moved significantly. The chance of that is at most 0.004: please report it."),
    ],
)
def test_the_verdict_is_of_the_worst_attack(certificate, moved, refuted, said):
    found = compare(ROBUST, FRAGILE, picture(), certificate, steps=1, seed=0)
    recounted = dataclasses.replace(found.robust.smoothed, moved=moved, refuted=refuted)
    worst = dataclasses.replace(found.robust, smoothed=recounted)
    still = [
        dataclasses.replace(each, smoothed=dataclasses.replace(recounted, moved=0, refuted=0))
        for each in (found.non_robust, found.smoothed)
    ]
    found = dataclasses.replace(found, non_robust=still[0], robust=worst, smoothed=still[1])
    assert found.verdict.startswith(said)


@pytest.mark.parametrize("moved", [0, 3])
@pytest.mark.parametrize("radius", [0.1, 9.0])
def test_a_verdict_on_false_discoveries_calls_no_pixel_certified(moved, radius):
    certificate = sc.certify(ROBUST, picture(), sigma=0.25, tau=0.75, n=100, seed=0, correction="bh")
    found = compare(ROBUST, FRAGILE, picture(), certificate, steps=1, seed=0)
    recounted = dataclasses.replace(found.robust.smoothed, moved=moved, refuted=0)
    same = dataclasses.replace(found.robust, smoothed=recounted)
    found = dataclasses.replace(found, non_robust=same, robust=same, smoothed=same, radius=radius)
    assert "certified" not in found.verdict
    assert found.verdict.endswith(certificate.claim)
    assert found.verdict.startswith("Up to 3 labels" if moved else "No labelled pixel")
    assert attack_figure(picture().numpy(), found).axes[5].get_title().startswith("labels by bh, no certificate: ")


def test_only_l2():
    certificate = sc.certify(ROBUST, picture(), noise=sc.Laplace(0.2), n=100, seed=0)
    with pytest.raises(sc.InputError, match="in the l2 norm, but the certificate is in 'l1'"):
        compare(ROBUST, FRAGILE, picture(), certificate, seed=0)
