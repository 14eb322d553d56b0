"""Ensemble: the mean of logits, views, joined files."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify import InputError, models
from segcertify.models import Card, Ensemble, Lite, View, join, save_model
from segcertify.models.families import build, describe
from segcertify.models.networks.hrnet import Architecture, HRNet


class Fixed(nn.Module):
    """The same logits (classes, h, w) for every image."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(torch.as_tensor(logits, dtype=torch.float32))

    def forward(self, batch):
        return self.logits.expand(len(batch), *self.logits.shape)


BOTH = (View(), View(1.0, mirrored=True))


def card(model, **changes):
    values = {
        "architecture": describe(model), "classes": ("a", "b"), "colours": ((0, 0, 0), (9, 9, 9)), "data": "toy",
        "objective": "noise", "sigma": (0.25,), "recipe": {"steps": 1}, "metrics": {"accuracy": 0.5},
        "licence": "none", "date": "2025-01-31", "version": "1",
    }  # fmt: skip
    return Card(**{**values, **changes})


@pytest.fixture
def members():
    torch.manual_seed(3)
    return [HRNet(Architecture(4, 2, 1, (1, 1, 1)), std=(0.3, 0.2, 0.1)).eval(), Lite(2, 8, 16).eval()]


def test_the_mean_of_logits():
    one, two = torch.randn(2, 3, 4, 5)
    found = Ensemble([Fixed(one), Fixed(two)])(torch.zeros(1, 3, 4, 5))
    np.testing.assert_allclose(found[0].detach().numpy(), (one.numpy() + two.numpy()) / 2, rtol=1e-5, atol=1e-6)


def test_every_member_sees_every_view():
    """A member that answers with what it saw; the image is constant along its rows, and along its columns."""
    rows = torch.arange(8.0).view(1, 1, 8, 1).expand(1, 2, 8, 12)
    columns = torch.arange(12.0).view(1, 1, 1, 12).expand(1, 2, 8, 12)
    seen = []

    class Looks(nn.Module):
        def forward(self, batch):
            seen.append(batch)
            return batch

    looks = [Looks(), Looks()]
    for x in (rows, columns):
        seen.clear()
        found = Ensemble(looks, views=[View(), View(1.0, mirrored=True), View(0.5), View(1.5, mirrored=True)])(x)
        assert [tuple(batch.shape[2:]) for batch in seen] == [(8, 12), (8, 12), (4, 6), (12, 18)] * 2
        assert torch.equal(seen[1], x.flip(-1))
        torch.testing.assert_close(seen[2], x.unfold(2, 2, 2).unfold(3, 2, 2).mean((4, 5)))  # half: means of 2 x 2
        inside = (slice(None), slice(None), slice(2, -2), slice(2, -2))  # at its rim a rescaled ramp is flat
        torch.testing.assert_close(found[inside], x[inside])


@pytest.mark.parametrize(
    ("text", "view"), [("1", View()), ("1m", View(1.0, mirrored=True)), ("0.75m", View(0.75, mirrored=True))]
)
def test_views_are_named(text, view):
    assert View.parse(text) == view


@pytest.mark.parametrize("text", ["", "m", "0", "-1", "nan", "inf", "9", "mirrored", "1mm"])
def test_other_names_are_refused(text):
    with pytest.raises(InputError, match="view"):
        View.parse(text)


def test_a_mirrored_image_has_mirrored_logits(members):
    x = torch.rand(2, 3, 32, 48)
    ensemble = Ensemble(members, views=BOTH)
    torch.testing.assert_close(ensemble(x.flip(-1)), ensemble(x).flip(-1), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(Ensemble(members)(x.flip(-1)), Ensemble(members)(x).flip(-1), atol=1e-3)


def test_members_of_other_resolutions_take_the_first_ones():
    coarse, fine = torch.zeros(2, 1, 1), torch.zeros(2, 4, 6)
    coarse[1] = 9
    logits = Ensemble([Fixed(fine), Fixed(coarse)])(torch.zeros(1, 3, 4, 6))
    assert logits.shape == (1, 2, 4, 6)
    assert (logits.argmax(1) == 1).all()


def test_no_view_makes_logits_finer_than_the_image():
    full = nn.Conv2d(3, 2, 1)
    assert Ensemble([full], views=[View(2), View()])(torch.rand(1, 3, 8, 6)).shape == (1, 2, 8, 6)


def test_an_ensemble_has_as_many_views_as_can_be_read_back():
    with pytest.raises(InputError, match="at most 100 views, but got 101"):
        Ensemble([nn.Conv2d(3, 2, 1)], views=[View()] * 101)


def test_a_description_builds_the_ensemble(members):
    ensemble = Ensemble(members, views=[View(), View(0.75, mirrored=True)])
    description = describe(ensemble)
    assert json.loads(json.dumps(description)) == description
    again = build(description)
    again.load_state_dict(ensemble.state_dict())
    x = torch.rand(1, 3, 32, 32)
    assert torch.equal(again.eval()(x), ensemble(x))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": []}, "at least one member"),
        ({"members": "lite"}, "members must be a list of at most 100"),
        ({"members": [{"family": "lite"}] * 101}, "members must be a list of at most 100"),
        (
            {"members": [{"family": "ensemble", "views": [], "members": []}]},
            "must be the description of a network that is no ensemble",
        ),
        ({"members": [{"family": "python", "spec": "python:os:abort"}]}, "no file is allowed to name code"),
        ({"members": ["lite"]}, "must be the description of a network that is no ensemble, but got 'lite'"),
        ({"views": []}, "at least one view"),
        ({"views": "all"}, "views must be a list of at most 100"),
        ({"views": [[1.0, False]] * 101}, "views must be a list of at most 100"),
        ({"views": [1.0]}, "a view must be a scale and whether it is mirrored, but got 1.0"),
        ({"views": [[1.0]]}, "a view must be a scale and whether it is mirrored"),
        ({"views": [[1.0, "yes"]]}, "expected True or False, but got 'yes'"),
        ({"views": [["x", False]]}, "the scale of a view"),
        ({"views": [[9.0, False]]}, "the scale of a view must be from 0.125 to 8, but got 9.0"),
        ({"views": [[0.1, False]]}, "the scale of a view must be from 0.125 to 8, but got 0.1"),
        ({"flip": True}, r"with views, members, flip \(got an unexpected .*'flip'\): .* another version"),
    ],
)
def test_bad_descriptions(changes, message):
    lite = describe(Lite(2, 8))
    with pytest.raises(InputError, match=message):
        build({"family": "ensemble", "views": [[1.0, False]], "members": [lite], **changes})


def test_joined_files_load_as_one_model(members, tmp_path):
    first, second = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    save_model(first, members[0], card(members[0]))
    save_model(second, members[1], card(members[1], sigma=(0.5,), licence="other", recipe={"steps": 2}))
    path = join([first, second], tmp_path / "both.safetensors", views=BOTH)
    model = models.load(f"trained:{path}")
    x = torch.rand(1, 3, 40, 32)
    torch.testing.assert_close(model(x), Ensemble(members, views=BOTH)(x))
    made = models.read_card(path)
    assert made.recipe == {"members": [{"steps": 1}, {"steps": 2}]}
    assert (made.sigma, made.licence, made.data, made.metrics) == ((0.25, 0.5), "none; other", "toy", {})
    assert (tmp_path / "both.md").read_text() == made.markdown("both.safetensors")


def test_members_label_alike(members, tmp_path):
    first, second = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    save_model(first, members[0], card(members[0]))
    save_model(second, members[1], card(members[1], classes=("a", "c")))
    with pytest.raises(InputError, match=r"two\.safetensors has other classes than .*one\.safetensors"):
        join([first, second], tmp_path / "both.safetensors")
    assert not (tmp_path / "both.safetensors").exists()


def test_only_single_models_of_images_are_joined(members, tmp_path):
    """What is written can be read: a file of ensembles could not, and clouds have no mirrored image."""
    one, both, clouds = (tmp_path / f"{name}.safetensors" for name in ("one", "both", "clouds"))
    save_model(one, members[1], card(members[1]))
    join([one], both)
    network = models.PointNet2(normals=False, parts=2)
    save_model(clouds, network, card(network))
    out = tmp_path / "out.safetensors"
    with pytest.raises(InputError, match=r"but .*both\.safetensors is an ensemble itself"):
        join([one, both], out)
    with pytest.raises(InputError, match=r"but .*clouds\.safetensors is of clouds"):
        join([clouds, clouds], out, views=BOTH)
    with pytest.raises(InputError, match="at most 100 members, but got 101"):
        join([one] * 101, out)
    with pytest.raises(InputError, match="at least one member"):
        join([], out)
    with pytest.raises(InputError, match=r"no model file at .*nothing"):
        join([one, tmp_path / "nothing"], out)
    assert not out.exists()


def test_nothing_is_overwritten_that_is_no_ensemble(members, tmp_path):
    one = tmp_path / "one.safetensors"
    save_model(one, members[1], card(members[1]))
    before = one.read_bytes()
    with pytest.raises(InputError, match=r"one\.safetensors is one of the models to join: name another"):
        join([one, one], tmp_path / "." / "one.safetensors")
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.md exists, where the ensemble's card would be written"):
        join([one], tmp_path / "notes.safetensors")
    assert (one.read_bytes(), (tmp_path / "notes.md").read_text()) == (before, "mine")
    assert join([one], join([one], tmp_path / "both.safetensors")).exists()  # its own card may be written again


def test_an_ensemble_is_certified_like_any_model(members):
    certificate = sc.certify(
        Ensemble(members).eval(), torch.rand(3, 16, 16), sigma=0.1, tau=0.6, n=60, n0=5, progress=False, seed=0
    )
    assert certificate.labels.shape == (16, 16)
