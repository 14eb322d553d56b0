"""Which models can be hardened, on what, and how the results load again."""

import json

import pytest
import torch
from torch import nn
from toys import load, quick, same, small, trained, tree, weights

from segcertify import InputError, models
from segcertify.models import read_card
from segcertify.models.networks.hrnet import Architecture, HRNet
from segcertify.training.hardening import classes_of, trainable, training_data

pytestmark = pytest.mark.usefixtures("no_pictures")


def make(width=4):
    """A factory without an argument for classes."""
    torch.manual_seed(width)
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 3, 1))


def make_function():
    return lambda batch: batch


def hf_folder(root):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 1, 1]}
    config = transformers.SegformerConfig(num_labels=3, decoder_hidden_size=8, **sizes)
    torch.manual_seed(0)
    transformers.SegformerForSemanticSegmentation(config).save_pretrained(root)
    processor = {"do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.25] * 3}
    (root / "preprocessor_config.json").write_text(json.dumps(processor))
    return f"hf:{root}"


def hrnet_file(root):
    torch.manual_seed(0)
    root.mkdir()
    torch.save(HRNet(Architecture(4, 3, 1, (1, 1, 1))).state_dict(), root / "a.pth")
    return f"hrnet:{root / 'a.pth'}"


def lite_file(root):
    model = models.new("lite?width=8&stride=16", classes=3)
    return f"trained:{trained(load(root / 'toys'), root / 'run', quick(iterations=1), model=model)}"


SPECS = {
    "hf": hf_folder,
    "hrnet": hrnet_file,
    "trained": lite_file,
    "python": lambda root: f"python:{__name__}:make?width=6",
    "normalised": lambda root: f"python:{__name__}:make?mean=0.5,0.4,0.3&std=0.2,0.2,0.2",
}


@pytest.mark.parametrize("labels", ["truth", "own"])
@pytest.mark.parametrize("kind", SPECS)
def test_the_same_network_comes_out_and_loads_again(tmp_path, kind, labels):
    """No step is taken with a learning rate of nearly 0: what loads again answers as what went in."""
    spec = SPECS[kind](tmp_path / "base")
    before, x = models.load(spec), torch.rand(2, 3, 32, 32)
    network, described, start = trainable(spec)
    recipe = quick(iterations=2, batch_size=2, lr=1e-12, crop=(32, 32), labels=labels, ema=0, weight_decay=0.0)
    path = trained(load(tmp_path / "toys"), tmp_path / "out", recipe, model=network, spec=described, start=start)
    again = models.load(read_card(path).spec(str(path)))
    for module in (*before.modules(), *again.modules()):  # training moves the statistics of batch norms
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    with torch.no_grad():
        assert torch.allclose(again(x), before(x), atol=1e-4)
    assert models.card_of(again).classes == ("red", "green", "blue")
    assert "weights" in start


def test_the_weights_change_and_the_run_belongs_to_its_start(tmp_path):
    spec, data = f"python:{__name__}:make", load(tmp_path / "toys")
    network, described, start = trainable(spec)
    recipe = quick(labels="own")
    path = trained(data, tmp_path / "out", recipe, model=network, spec=described, start=start)
    assert not same(weights(path), make().state_dict())
    other, _, other_start = trainable(f"python:{__name__}:make?width=5")
    with pytest.raises(InputError, match="start"):
        trained(data, tmp_path / "out", recipe, model=other, spec=described, start=other_start)


def test_own_labels_are_of_the_start_also_in_a_resumed_run(tmp_path, monkeypatch):
    from toys import killed

    spec, data, recipe = f"python:{__name__}:make", load(tmp_path / "toys"), quick(labels="own", ema=0)

    def settings():
        network, described, start = trainable(spec)
        return {"model": network, "spec": described, "start": start}

    whole = trained(data, tmp_path / "whole", recipe, **settings())
    killed(data, tmp_path / "parts", recipe, monkeypatch, after=7, **settings())
    assert same(weights(trained(data, tmp_path / "parts", recipe, **settings())), weights(whole))
    truth = trained(data, tmp_path / "truth", quick(ema=0), **settings())
    assert not same(weights(truth), weights(whole))


def test_own_labels_need_a_start(tmp_path):
    with pytest.raises(InputError, match="own labels are those of the model that training starts from: give start"):
        trained(load(tmp_path / "toys"), tmp_path / "out", quick(labels="own"), model=small())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("onnx:a.onnx", r"onnx:a\.onnx is an ONNX file, whose weights are fixed: give the PyTorch network itself"),
        ("torchscript:a.pt", "is a TorchScript program, whose weights are fixed: .*hf:FOLDER, hrnet:FILE"),
        ("pt2:a.pt2", r"is a torch\.export program"),
        (f"python:{__name__}:make_function", r"shows no weights to train \(is it a function\?\): give the PyTorch"),
        ("pets?scale=0.5", "leave scale out, and certify with it later"),
        ("pets?denoiser=default", "leave denoiser out, and certify with it later"),
    ],
)
def test_what_cannot_be_hardened(spec, message):
    with pytest.raises(InputError, match=message):
        trainable(spec)


def test_data_with_and_without_labels(tmp_path):
    spec = tree(tmp_path / "toys")
    network, _, _ = trainable(f"python:{__name__}:make")
    assert training_data(spec, network, labels=None)[1] == "truth"
    assert training_data(spec, network, labels="own")[1] == "own"
    images = str(tmp_path / "toys/train/images")
    data, labels = training_data(images, network, labels=None)
    assert (labels, data.classes, len(data)) == ("own", ("class 0", "class 1", "class 2"), 6)
    with pytest.raises(InputError, match="folder of images without labels: use --labels own"):
        training_data(images, network, labels="truth")
    carded, _, _ = trainable("pets")
    assert training_data(images, carded, labels=None)[0].classes == ("background", "cat", "dog")


def test_what_gives_no_logits():
    with pytest.raises(InputError, match=r"must give logits .* but gave \(1, 3\)"):
        classes_of(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
