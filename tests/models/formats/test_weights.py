"""Weights from files: wrappers and prefixes removed, misfits named, nothing executed."""

import logging
import os
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from segcertify import InputError
from segcertify.models.formats import zip_files
from segcertify.models.formats.weights import State, first_line, load_state, set_weights, with_weights
from segcertify.models.networks.hrnet import load_hrnet

WEIGHTS = {"conv.weight": torch.arange(4.0).view(2, 2, 1, 1), "bn.bias": torch.ones(2), "head.weight": torch.ones(1, 2)}
WRAPPER = {"loss.criterion.weight": torch.ones(2), "std": torch.ones(1)}


def prefixed(prefix, weights=WEIGHTS):
    return {prefix + name: tensor for name, tensor in weights.items()}


class Attack:
    """Unpickling this would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize(
    ("content", "ignored"),
    [
        (WEIGHTS, set()),
        (prefixed("model."), set()),
        (prefixed("module."), set()),
        (prefixed("module.model."), set()),
        (prefixed("model.module."), set()),
        (prefixed("model.") | WRAPPER, {"loss.criterion.weight", "std"}),
        (prefixed("module.", prefixed("model.") | WRAPPER), {"loss.criterion.weight", "std"}),
        ({"state_dict": prefixed("module."), "epoch": 3, "optimizer": {"lr": 0.1}}, {"epoch", "optimizer"}),
        ({"model_state_dict": WEIGHTS, "best": 0.5}, {"best"}),
        ({"state_dict": {"model_state_dict": WEIGHTS}}, set()),
    ],
)
def test_wrappers_and_prefixes(tmp_path, content, ignored, caplog):
    torch.save(content, tmp_path / "a.pth")
    with caplog.at_level(logging.INFO, "segcertify"):
        state = load_state(tmp_path / "a.pth")
    assert {name: tensor.tolist() for name, tensor in state.tensors.items()} == {
        name: tensor.tolist() for name, tensor in WEIGHTS.items()
    }
    assert set(state.ignored) == ignored
    assert all(key in caplog.text for key in ignored)


def test_safetensors(tmp_path):
    save_file(prefixed("module.") | WRAPPER, tmp_path / "a.safetensors")
    assert load_state(tmp_path / "a.safetensors").tensors.keys() == WEIGHTS.keys()


def test_names_of_any_type_beside_the_weights_are_ignored(tmp_path):
    """A pickle may have them, as one that was damaged had."""
    torch.save({"state_dict": {"weight": torch.ones(1)}, 5: 1, (1, 2): 3}, tmp_path / "a.pth")
    assert load_state(tmp_path / "a.pth").ignored == ("5", "(1, 2)")


def test_surprising_keys_are_a_warning(tmp_path):
    torch.save(prefixed("model.") | {"steps": torch.ones(1), "name": "x"}, tmp_path / "a.pth")
    with pytest.warns(UserWarning, match="ignored name, steps, which no wrapper known here adds"):
        state = load_state(tmp_path / "a.pth")
    assert state.tensors.keys() == WEIGHTS.keys()


@pytest.mark.parametrize("legacy", [False, True])
def test_numpy_scalars_load(tmp_path, legacy):
    scores = {"mIoU": np.float64(0.5), "loss": np.float32(1), "epoch": np.int64(7), "done": np.bool_(True)}
    torch.save({**scores, "state_dict": WEIGHTS}, tmp_path / "a.pth", _use_new_zipfile_serialization=not legacy)
    assert load_state(tmp_path / "a.pth").tensors.keys() == WEIGHTS.keys()


def test_numpy_scalars_from_before_numpy_2_load(tmp_path):
    torch.save(
        {"mIoU": np.float64(0.5), "state_dict": WEIGHTS}, tmp_path / "a.pth", _use_new_zipfile_serialization=False
    )
    content = (tmp_path / "a.pth").read_bytes()
    assert b"numpy._core.multiarray" in content
    (tmp_path / "a.pth").write_bytes(content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert load_state(tmp_path / "a.pth").tensors.keys() == WEIGHTS.keys()


@pytest.mark.parametrize("legacy", [False, True])
def test_code_is_not_run(tmp_path, legacy):
    made = tmp_path / "made"
    torch.save({**WEIGHTS, "x": Attack(made)}, tmp_path / "a.pth", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(
        InputError, match=r"holds code or objects \(posix.mkdir|nt.mkdir\).*none of it was run.*state_dict"
    ):
        load_state(tmp_path / "a.pth")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Attack(made)))
    with pytest.raises(InputError, match=r"plain\.pt"):
        load_state(tmp_path / "plain.pt")
    assert not made.exists()


def test_the_allow_list_is_of_numbers_only(tmp_path):
    torch.save({"x": np.array(["a"], dtype=object), **WEIGHTS}, tmp_path / "a.pth")
    with pytest.raises(InputError, match=r"holds code or objects \(numpy"):
        load_state(tmp_path / "a.pth")
    torch.save({"whole": nn.Linear(2, 2)}, tmp_path / "b.pth")
    with pytest.raises(InputError, match=r"holds code or objects \(torch.nn.*save the weights alone"):
        load_state(tmp_path / "b.pth")


def test_damaged_files(tmp_path):
    torch.save(WEIGHTS, tmp_path / "whole.pth")
    save_file(WEIGHTS, tmp_path / "whole.safetensors")
    for name in ("whole.pth", "whole.safetensors"):
        content = (tmp_path / name).read_bytes()
        for size in (0, 7, len(content) // 2, len(content) - 1):
            cut = tmp_path / name.replace("whole", "cut")
            cut.write_bytes(content[:size])
            with pytest.raises(InputError, match=rf"cannot read .*cut.*\({size} bytes\): damaged, cut short"):
                load_state(cut)


def test_a_reason_has_no_codes_of_the_terminal():
    """torch writes some of its words in bold, which acted on the terminal as they were."""
    assert first_line(ValueError("\n Weights \x1b[1monly\x1b[0m load failed\nmore")) == "Weights only load failed"
    assert first_line(ValueError("found '\x1b' here")) == r"found '\x1b' here"


def test_a_torchscript_file_is_not_weights(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(nn.Linear(2, 2)), tmp_path / "program.pt")
    with pytest.raises(InputError, match="is a TorchScript program, not weights: load it as torchscript:"):
        load_state(tmp_path / "program.pt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([torch.ones(1)], "holds list, not a state dict"),
        ({}, "holds no weights"),
        ({"loss.weight": torch.ones(1)}, "holds no weights"),
    ],
)
def test_not_a_state_dict(tmp_path, content, message):
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(InputError, match=message):
        load_state(tmp_path / "a.pth")


def test_missing_files_and_unknown_endings(tmp_path):
    with pytest.raises(InputError, match=r"no checkpoint at .*gone.pth: expected"):
        load_state(tmp_path / "gone.pth")
    with pytest.raises(InputError, match="no checkpoint at"):
        load_state(tmp_path)
    (tmp_path / "a.h5").write_bytes(b"x")
    with pytest.raises(InputError, match=r"expected a name that ends in .safetensors, .pth"):
        load_state(tmp_path / "a.h5")


def test_misfits_are_named():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    weights = model.state_dict()
    bad = {"0.weight": torch.ones(4, 2), "0.bias": weights["0.bias"], "1.bias": weights["1.bias"]}
    bad |= {f"extra.{i}": torch.ones(1) for i in range(9)}
    with pytest.raises(InputError) as error:
        set_weights(model, State("a.pth", bad))
    text = str(error.value)
    assert "a.pth does not fit Sequential" in text
    assert "1 missing: 1.weight" in text
    assert "9 unexpected: extra.0, extra.1, extra.2, extra.3 and 5 more" in text
    assert "1 of another shape: 0.weight (4, 2) instead of (3, 2)" in text
    assert "this architecture" in text


def test_weights_that_are_not_finite():
    model = nn.Linear(2, 1)
    with pytest.raises(InputError, match="NaN or infinite: bias"):
        set_weights(model, State("a.pth", {"weight": torch.ones(1, 2), "bias": torch.full((1,), torch.nan)}))


def test_weights_of_another_network(tmp_path):
    torch.save(WEIGHTS, tmp_path / "a.pth")
    with pytest.raises(InputError, match=r"a\.pth is no HRNetV2 segmentation network"):
        load_hrnet(tmp_path / "a.pth")


def test_zip_files_that_would_grow_are_refused(tmp_path):
    """A compressed part of 100 MB, in a file of 100 kB; and a pickle that makes a large object from a number."""
    torch.save({"a": torch.zeros(3)}, tmp_path / "good.pth")
    with zipfile.ZipFile(tmp_path / "good.pth") as old, zipfile.ZipFile(tmp_path / "bomb.pth", "w") as new:
        for name in old.namelist():
            large = name.endswith("data/0")
            content = b"\x00" * 100_000_000 if large else old.read(name)
            new.writestr(name, content, zipfile.ZIP_DEFLATED if large else zipfile.ZIP_STORED)
    assert (tmp_path / "bomb.pth").stat().st_size < 200_000
    with pytest.raises(InputError, match="too much compressed content"):
        zip_files.require_plain_zip(tmp_path / "bomb.pth")
    with pytest.raises(InputError, match="too much compressed content"):
        load_state(tmp_path / "bomb.pth")
    (tmp_path / "maker.pth").write_bytes(b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\x00\x02\x85R.")
    with pytest.raises(InputError, match="its pickle makes a bytearray"):
        load_state(tmp_path / "maker.pth")
    torch.save({"a": torch.zeros(1).expand(10**7)}, tmp_path / "wide.pth")
    with pytest.raises(InputError, match="its tensors would take 40,000,000"):
        load_state(tmp_path / "wide.pth")


def test_old_checkpoints_without_counts_of_batches_load():
    """PyTorch before 0.4.1 wrote no num_batches_tracked."""
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).eval()
    old = {name: value for name, value in network.state_dict().items() if "tracked" not in name}
    other = with_weights(lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)), State("old.pth", old))
    batch = torch.rand(1, 3, 2, 2)
    assert torch.equal(other(batch), network(batch))
    assert other[1].num_batches_tracked == 0
    with pytest.raises(InputError, match=r"1 missing: 1\.running_mean"):
        set_weights(network, State("old.pth", {key: value for key, value in old.items() if "mean" not in key}))
