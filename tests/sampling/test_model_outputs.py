"""What models of other libraries return, certified without being asked about."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import segcertify as sc
from segcertify import InputError
from segcertify.attacks import L2, pgd
from segcertify.sampling.model_outputs import as_tensor, scores_in

NOISE = sc.Gaussian(0.2)
IMAGE = torch.rand(3, 8, 12, generator=torch.Generator().manual_seed(0))


def scores(batch):
    return torch.stack([batch[:, 0], 1.2 * batch[:, 1], 0.9 * batch[:, 2]], 1)


@dataclass
class Output:
    """As Hugging Face returns it."""

    logits: object
    hidden_states: tuple = ()


class Jaxlike:
    """An array of a library that is not ours: it can be read, and not written."""

    def __init__(self, array):
        self.array = np.asarray(array)
        self.array.flags.writeable = False

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


class Exchanged:
    """An array that is exchanged by DLPack alone, as one on a GPU."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


PACKS = {
    "torchvision": lambda s: OrderedDict(out=s, aux=-s),
    "a dict with logits": lambda s: {"loss": None, "logits": s, "features": s},
    "a dict with one tensor": lambda s: {"segmentation": s, "loss": s.mean()},
    "an object": Output,
    "a tuple with one tensor": lambda s: (s, None),
    "a tuple with the scores of whole images": lambda s: (s, s.mean((1, 2, 3))),
    "a list": lambda s: [s],
    "a tuple of objects": lambda s: (Output(s), None),
    "numpy": lambda s: s.numpy(),
    "numpy, read-only": lambda s: Jaxlike(s.numpy()),
    "numpy in a dict": lambda s: {"out": s.numpy()},
    "doubles of the other byte order": lambda s: s.numpy().astype(">f8"),
    "dlpack": Exchanged,
    "labels of numpy": lambda s: s.numpy().argmax(1).astype(np.uint16),
}


@pytest.mark.parametrize("pack", PACKS)
def test_every_entry_point_takes_it(pack):
    def model(batch):
        return PACKS[pack](scores(batch))

    expected = sc.sample(scores, IMAGE, noise=NOISE, n=8, n0=4, seed=0)
    votes = sc.sample(model, IMAGE, noise=NOISE, n=8, n0=4, seed=0)
    assert (votes.candidate == expected.candidate).all()
    assert (votes.agree == expected.agree).all()
    certificates = [
        sc.certify(model, IMAGE, sigma=0.2, n=60, n0=4, tau=0.6, seed=0),
        sc.Smooth(model, sigma=0.2, seed=0).certify(IMAGE, n=60, n0=4, tau=0.6),
        sc.certify(scores, IMAGE, sigma=0.2, n=60, n0=4, tau=0.6, seed=0),
    ]
    assert all((each.labels == certificates[-1].labels).all() for each in certificates)
    metric = sc.metrics.agreement(np.zeros((8, 12), int))
    bounds = [sc.certify_metric(m, IMAGE, metric, sigma=0.2, radius=0.05, n=60, seed=0) for m in (model, scores)]
    assert bounds[0].bound == bounds[1].bound


@pytest.mark.parametrize(
    ("pack", "cure"),
    [
        (lambda s: (s, -s), r"a tuple and tensors of the shapes \(2, 3, 8, 12\), \(2, 3, 8, 12\): say .*output=0\)"),
        (lambda s: {"a": s, "b": -s}, r"a dict with the keys 'a', 'b' .*adapt\(model, output='a'\)"),
        (lambda s: {"out": s, "logits": -s}, "the keys 'out', 'logits': say which"),
        (lambda s: "text", "scores are str, not a tensor"),
        (lambda s: np.array(["a"]), "scores are ndarray"),
        (lambda s: {}, "scores are dict"),
        (lambda s: ("text", 3), "scores are str"),
        (lambda s: torch.Tensor, "scores are _TensorMeta"),
    ],
)
def test_what_is_ambiguous_is_refused_with_the_cure(pack, cure):
    with pytest.raises(InputError, match=cure):
        sc.certify(lambda batch: pack(scores(batch)), IMAGE, sigma=0.2)


def test_the_named_entry_wins():
    first, second = torch.zeros(1, 2), torch.ones(1, 2)
    assert scores_in((first, second), -1) is second
    assert scores_in({"out": first, "mask": second}, "mask") is second


def test_arrays_become_tensors_of_their_numbers():
    assert as_tensor(np.float16([[1.5]])).dtype == torch.float32
    assert as_tensor(np.array([[True]])).dtype == torch.bool
    assert as_tensor(np.array([[40_000]], np.uint16)).tolist() == [[40_000]]
    assert as_tensor([1.0]) is None


def test_an_attack_follows_the_scores_in_a_dict():
    x, target = IMAGE[None], scores(IMAGE[None]).argmax(1)
    found = [pgd(model, x, target, L2(0.5), steps=3).x for model in (scores, lambda batch: {"out": scores(batch)})]
    assert torch.equal(*found)
    with pytest.raises(InputError, match="no gradient in its input"):
        pgd(lambda batch: scores(batch).detach().numpy(), x, target, L2(0.5), steps=3)
