"""Mask2Former and OneFormer with random weights, against their own post-processing."""

import json
import logging

import pytest
import torch

import segcertify as sc
from segcertify import models
from segcertify.cli.inputs import class_names
from segcertify.models.wrappers.mask_queries import MaskQueries

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install 'segcertify[hf]'")

PROCESSOR = {"do_normalize": True, "do_rescale": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
NAMES = {0: "road", 1: "car", 2: "sky"}
SIZE = 64
SWIN = {
    "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 4, "image_size": SIZE,
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}  # fmt: skip


def mask2former():
    config = transformers.Mask2FormerConfig(
        backbone_config=transformers.SwinConfig(**SWIN), feature_size=32, mask_feature_size=32, hidden_dim=32,
        encoder_feedforward_dim=16, encoder_layers=1, decoder_layers=2, num_attention_heads=2, dim_feedforward=16,
        num_queries=6, id2label=NAMES, label2id={name: number for number, name in NAMES.items()},
    )  # fmt: skip
    return transformers.Mask2FormerForUniversalSegmentation(config)


def oneformer():
    config = transformers.OneFormerConfig(
        backbone_config=transformers.SwinConfig(**SWIN), conv_dim=32, mask_dim=32, hidden_dim=32,
        encoder_feedforward_dim=16, encoder_layers=1, decoder_layers=2, num_attention_heads=2, dim_feedforward=16,
        num_queries=6, task_seq_len=12, max_seq_len=12, text_encoder_width=32, text_encoder_context_length=12,
        text_encoder_num_layers=1, text_encoder_vocab_size=40, use_task_norm=True, id2label=NAMES,
        label2id={name: number for number, name in NAMES.items()},
    )  # fmt: skip
    return transformers.OneFormerForUniversalSegmentation(config)


def saved(make, folder, *, seed=0):
    """The model, with weights large enough to give several labels, and its folder."""
    torch.manual_seed(seed)
    model = make().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "class_predictor" in name or "class_embed" in name:
                weight.normal_(0, 3)
    logging.disable(logging.WARNING)
    model.save_pretrained(folder)
    logging.disable(logging.NOTSET)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return model


@pytest.fixture
def image():
    return torch.rand(3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def inference(said, size):
    """As the authors' own code: masks at the image's size, times their classes."""
    masks = torch.nn.functional.interpolate(said.masks_queries_logits, size=size, mode="bilinear", align_corners=False)
    classes = said.class_queries_logits.softmax(-1)[..., :-1]
    return (classes[:, :, :, None, None] * masks.sigmoid()[:, :, None]).sum(1)


def test_mask2former(tmp_path, image):
    network = saved(mask2former, tmp_path)
    model = models.load(f"hf:{tmp_path}")
    with torch.no_grad():
        expected = inference(network(pixel_values=(image[None] - 0.5) / 0.25), (SIZE, SIZE))
        scores = model(image[None])
    torch.testing.assert_close(scores, expected)
    assert scores.shape == (1, 3, SIZE, SIZE)
    assert class_names(model, 3) == ("road", "car", "sky")
    certificate = sc.certify(model, image, sigma=0.1, n=60, n0=2, tau=0.6, seed=0)
    assert certificate.labels.shape == (SIZE, SIZE)
    assert "MaskQueries" in certificate.model["classes"]


def test_its_labels_are_those_of_its_post_processing(tmp_path, image):
    """transformers rounds masks to 384 x 384 on the way, which moves a few borders."""
    network = saved(mask2former, tmp_path)
    home = "transformers.models.mask2former.image_processing_pil_mask2former"  # the other one needs torchvision
    post = pytest.importorskip(home, reason="transformers is older than 5").Mask2FormerImageProcessorPil
    with torch.no_grad():
        said = network(pixel_values=(image[None] - 0.5) / 0.25)
        labels = models.load(f"hf:{tmp_path}")(image[None]).argmax(1)[0]
    theirs = post.post_process_semantic_segmentation(None, said, target_sizes=[(SIZE, SIZE)])[0]
    assert (labels == theirs).float().mean() > 0.97


def test_oneformer_is_told_its_task(tmp_path, image, monkeypatch):
    network = saved(oneformer, tmp_path)
    tokens = torch.arange(12)[None] % 5

    class Tokenizer:
        def __call__(self, text, **options):
            assert text == "the task is semantic"
            assert options["max_length"] == 12
            return {"input_ids": tokens, "attention_mask": (tokens > 0).long()}

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *a, **options: Tokenizer())
    model = models.load(f"hf:{tmp_path}")
    with torch.no_grad():
        said = network(pixel_values=(image[None] - 0.5) / 0.25, task_inputs=tokens)
        torch.testing.assert_close(model(image[None]), inference(said, (SIZE, SIZE)))
        batch = torch.stack([image, 1 - image])
        torch.testing.assert_close(model(batch)[:1], model(image[None]), atol=1e-4, rtol=1e-4)


def test_it_is_in_evaluation_mode(tmp_path):
    saved(mask2former, tmp_path)
    assert not any(each.training for each in models.load(f"hf:{tmp_path}").modules() if isinstance(each, MaskQueries))
