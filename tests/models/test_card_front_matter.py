"""The metadata of cards: YAML that Hugging Face reads, in which no text acts."""

import pytest
from cards import FOUND, card
from huggingface_hub import ModelCard

from segcertify.models.card_front_matter import data_sets


def front(text):
    return ModelCard(text).data


def test_the_metadata_of_a_trained_model():
    data = front(card(metrics={"accuracy at sigma 0.25": 0.5, "mIoU at sigma 0.25": 0.25, "odd": 3.0}).markdown())
    assert (data.license, data.library_name, data.pipeline_tag) == ("other", "segcertify", "image-segmentation")
    assert data.datasets == ["camvid"]
    assert [(each.metric_type, each.metric_value) for each in data.eval_results] == [
        ("accuracy", 0.5),
        ("mean_iou", 0.25),
    ]
    assert {each.dataset_name for each in data.eval_results} == {"scenes that training left out, one noisy copy each"}


def test_certified_results_come_first():
    data = front(card().markdown("runs/roads.safetensors", FOUND))
    assert data.model_name == "roads"
    assert data.metrics == ["accuracy", "mean_iou"]
    first = data.eval_results[0]
    assert (first.dataset_name, first.dataset_type, first.metric_value) == ("pets/val", "pets", 0.9475)


def test_without_numbers_there_is_no_index():
    data = front(card(metrics={}).markdown())
    assert data.eval_results is None
    assert data.metrics is None


@pytest.mark.parametrize("evil", ["x\n---\n# owned", "a: b", "- yes", '"', "\\", "{a: 1}", "&a *a", "\u2028\ud800"])
def test_texts_stay_texts(evil):
    written = card(metrics={f"accuracy {evil}": 0.5}).markdown(f"{evil}.safetensors")
    data = front(written)
    assert data.library_name == "segcertify"
    assert [each.metric_value for each in data.eval_results] == [0.5]
    assert "\n# owned" not in written


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("camvid/train+val (468 scenes); camvid/train (3 scenes)", ["camvid"]),
        ("my photographs", []),
        ("/home/me/photos/train", []),
    ],
)
def test_data_sets(text, found):
    assert data_sets(text) == found
