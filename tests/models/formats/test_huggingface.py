"""Hugging Face folders: the same votes as the model called directly, normalisation from the processor's file."""

import json
import logging
import os
import sys
import warnings

import pytest
import torch

import segcertify as sc
from segcertify import InputError, models
from segcertify.models.formats.huggingface import colour_statistics

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install 'segcertify[hf]'")

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PROCESSOR = {
    "image_processor_type": "SegformerImageProcessor",
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "rescale_factor": 1 / 255,
    "image_mean": MEAN,
    "image_std": STD,
    "size": {"height": 512, "width": 512},
}
NAME = "preprocessor_config.json"


class Attack:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def segformer():
    torch.manual_seed(0)
    config = transformers.SegformerConfig(
        num_labels=5,
        hidden_sizes=[8, 8, 8, 8],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        initializer_range=0.5,
    )
    return transformers.SegformerForSemanticSegmentation(config).eval()


@pytest.fixture
def folder(segformer, tmp_path):
    segformer.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / NAME).write_text(json.dumps(PROCESSOR))
    return tmp_path / "model"


@pytest.fixture
def image():
    return torch.rand(3, 64, 96, generator=torch.Generator().manual_seed(1))


def called_directly(model):
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    return lambda batch: model((batch - mean) / std).logits


def test_segformer(segformer, folder, same_votes, image):
    model = models.load(f"hf:{folder}")
    assert same_votes(model, called_directly(segformer))
    assert model(image[None]).shape == (1, 5, 16, 24)
    assert not any(module.training for module in model.modules())
    assert "torchvision" not in sys.modules


def test_segformer_as_torchscript(segformer, tmp_path, same_votes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(segformer, torch.rand(1, 3, 64, 96), strict=False)
        torch.jit.save(traced, tmp_path / "a.pt")
    model = models.load(
        f"torchscript:{tmp_path / 'a.pt'}?mean=0.485,0.456,0.406&std=0.229,0.224,0.225", trust_code=True
    )
    assert same_votes(model, called_directly(segformer))


def test_segformer_as_onnx(segformer, tmp_path, votes):
    for package in ("onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'segcertify[dev]'")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = (torch.rand(1, 3, 64, 96),)
        torch.onnx.export(segformer, example, tmp_path / "a.onnx", dynamo=True, external_data=False, verbose=False)
    ours = votes(models.load(f"onnx:{tmp_path / 'a.onnx'}?mean=0.485,0.456,0.406&std=0.229,0.224,0.225"))
    theirs = votes(called_directly(segformer))
    assert (ours.candidate != theirs.candidate).mean() <= 0.005  # another runtime rounds otherwise
    assert abs(ours.agree - theirs.agree).sum() / (ours.n * ours.agree.size) <= 0.005


def test_pickled_weights(segformer, folder, tmp_path, image):
    (folder / "model.safetensors").unlink()
    torch.save(segformer.state_dict(), folder / "pytorch_model.bin")
    assert torch.equal(models.load(f"hf:{folder}")(image[None]), called_directly(segformer)(image[None]))
    torch.save({"a": Attack(tmp_path / "made")} | segformer.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"holds code or objects \(\w+.mkdir\), and none of it was run"):
        models.load(f"hf:{folder}")
    assert not (tmp_path / "made").exists()


def test_upernet(tmp_path, same_votes):
    torch.manual_seed(0)
    backbone = transformers.ConvNextConfig(
        hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"]
    )
    config = transformers.UperNetConfig(
        backbone_config=backbone, hidden_size=16, num_labels=4, use_auxiliary_head=False, initializer_range=0.5
    )
    model = transformers.UperNetForSemanticSegmentation(config).eval()
    model.save_pretrained(tmp_path)
    (tmp_path / NAME).write_text(json.dumps(PROCESSOR))
    assert same_votes(models.load(f"hf:{tmp_path}"), called_directly(model))


def test_options(segformer, folder, same_votes):
    (folder / NAME).unlink()
    with pytest.raises(InputError, match=rf"has no {NAME}: give the normalisation, for example \?mean"):
        models.load(f"hf:{folder}")
    assert same_votes(models.load(f"hf:{folder}?mean=0,0,0&std=1,1,1"), lambda batch: segformer(batch).logits)
    scaled = models.load(f"hf:{folder}?mean=0,0,0&std=1,1,1&scale=0.5")
    assert same_votes(scaled, models.MultiScale(segformer, (0.5,)))


def test_channels_in_reverse(segformer, folder, same_votes):
    (folder / NAME).write_text(json.dumps({"do_flip_channel_order": True, "do_rescale": True}))
    assert same_votes(models.load(f"hf:{folder}"), lambda batch: segformer(batch.flip(1)).logits)


def test_a_backbone_is_refused(segformer, tmp_path):
    segformer.segformer.save_pretrained(tmp_path)
    (tmp_path / NAME).write_text(json.dumps(PROCESSOR))
    with pytest.raises(InputError, match=r"lacks \d+ weights \(decode_head.*without a segmentation head"):
        models.load(f"hf:{tmp_path}")


def test_code_that_comes_with_a_model_is_not_run(folder, tmp_path):
    made = tmp_path / "made"
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(made)!r})\n")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.C", "AutoModelForSemanticSegmentation": "evil.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="cannot load hf:"):
        models.load(f"hf:{folder}")
    assert not made.exists()


@pytest.mark.parametrize(
    ("config", "mean", "std"),
    [
        (PROCESSOR, MEAN, STD),
        ({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}, [0.5] * 3, [0.5] * 3),
        ({"image_mean": 0.5, "image_std": 0.25}, [0.5] * 3, [0.25] * 3),
        ({"do_normalize": False, "image_mean": MEAN, "image_std": STD}, [0] * 3, [1] * 3),
        ({"do_normalize": False, "do_rescale": False}, [0] * 3, [1 / 255] * 3),
        ({"image_mean": [127.5] * 3, "image_std": [51.0] * 3, "do_rescale": False}, [0.5] * 3, [0.2] * 3),
        ({"image_mean": [1.0] * 3, "image_std": [1.0] * 3, "rescale_factor": 1 / 127.5}, [0.5] * 3, [0.5] * 3),
        ({"do_flip_channel_order": True}, [0] * 3, [1] * 3),
    ],
)
def test_colour_statistics(config, mean, std):
    ours = colour_statistics(config, source="x")
    assert ours[0] == pytest.approx(mean, rel=1e-15)
    assert ours[1] == pytest.approx(std, rel=1e-15)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot read preprocessor_config.json"),
        ("[]", "must hold values by name, but holds list"),
        ('{"size": 512}', "does not say how images are normalised"),
        ('{"do_normalize": true}', "asks to normalise but has no image_mean"),
        ('{"image_mean": [0.5, 0.5, 0.5]}', "has no image_std"),
        ('{"image_mean": ["a"], "image_std": [1]}', "image_mean in preprocessor_config.json must be a list of numbers"),
        ('{"image_mean": [0], "image_std": [1], "rescale_factor": 0}', "rescale_factor must be positive"),
    ],
)
def test_bad_processors(folder, content, message):
    (folder / NAME).write_text(content)
    with pytest.raises(InputError, match=message):
        models.load(f"hf:{folder}")


def test_bad_targets(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"no folder at .*gone, and it is no hub id"):
        models.load(f"hf:{tmp_path / 'gone'}")
    with pytest.raises(InputError, match=r"cannot load hf:.* \(a folder\): it has no config\.json"):
        models.load(f"hf:{tmp_path}")
    auto = transformers.AutoModelForSemanticSegmentation

    def offline(target, **options):
        assert options == {
            "revision": "v1",
            "local_files_only": False,
            "trust_remote_code": False,
            "output_loading_info": True,
        }
        raise OSError("We couldn't connect to the hub")

    monkeypatch.setattr(auto, "from_pretrained", offline)
    with pytest.raises(InputError, match=r"cannot load hf:nobody/nothing .no folder of that name.*couldn't connect"):
        models.load("hf:nobody/nothing?revision=v1")


def test_a_hub_id(segformer, folder, monkeypatch, same_votes):
    """The hub is played by a folder: what is fetched, and from where."""
    import huggingface_hub

    auto = transformers.AutoModelForSemanticSegmentation
    real = auto.from_pretrained
    monkeypatch.setattr(auto, "from_pretrained", lambda target, **options: real(str(folder), output_loading_info=True))
    read = transformers.AutoConfig.from_pretrained
    monkeypatch.setattr(
        transformers.AutoConfig, "from_pretrained", lambda target, **options: read(str(folder), **options)
    )
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda target, name, revision: str(folder / name))
    assert same_votes(models.load("hf:some/model"), called_directly(segformer))

    def missing(target, name, revision):
        raise huggingface_hub.errors.EntryNotFoundError("404")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", missing)
    with pytest.raises(InputError, match=r"hf:some/model has no preprocessor_config.json"):
        models.load("hf:some/model")

    def unreachable(target, name, revision):
        raise huggingface_hub.errors.LocalEntryNotFoundError("not in the cache, and no network")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    with pytest.raises(InputError, match=r"cannot load hf:some/model.*no network"):
        models.load("hf:some/model")


def test_without_transformers(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"pip install 'segcertify\[hf\]'"):
        sc.models.load(f"hf:{tmp_path}")
