"""The demo of a generated shape: what it says, writes and certifies, with a model that takes no time."""

import numpy as np
import pytest
from PIL import Image

import segcertify as sc
from segcertify.demo import Shape, run
from segcertify.metrics.shapenet import CATEGORIES
from segcertify.sampling.segmenter import predict

BACK, SEAT, LEG, ARM = CATEGORIES["Chair"]


def by_height(batch):
    """Backs are high, legs are low."""
    return (batch[..., 1] < 0).long() * (LEG - BACK) + BACK


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("segcertify.demo.subjects.load", lambda spec: {"parts?category=Chair&runs=1": by_height}[spec])
        return run(tmp_path_factory.mktemp("shape"), category="Chair", sigma=0.1)


def test_the_shape_is_not_one_of_the_training(demo):
    x, target = demo.subject.x.numpy(), demo.subject.target
    assert x.shape == (2048, 6)
    assert set(target) <= set(CATEGORIES["Chair"])
    assert demo.subject.data.name == "shapes/1 of seed 2021 Chair with normals"  # `parts` was trained on seed 0


def test_the_certificate(demo):
    proved = demo.certificate
    assert proved.noise == sc.Gaussian(0.1, (0, 1, 2), 1)
    assert (proved.N, proved.n, proved.n0, proved.tau, proved.input_id) == (2048, 100, 10, 0.75, "Chair-000004")
    assert 0.5 < proved.certified / proved.N < 1
    again = sc.Certificate.load(demo.files[-1])
    np.testing.assert_array_equal(again.labels, proved.labels)


def test_the_sentence_and_the_table(demo):
    proved, labels = demo.certificate, demo.certificate.labels
    share = proved.certified / proved.N
    for words in (
        "at least 99.9%",
        "however the 2,048 points of the cloud are moved",
        "up to 0.0674 in l2 norm over all of them (such as one point by that much, or each by 0.0014)",
        "with all else as it is",
        f"{proved.certified:,} of 2,048 points ({share:.1%}) all keep their label",
    ):
        assert words in demo.sentence
    assert proved.radius >= 0.0014 * 2048**0.5
    table = demo.table
    assert table.title == "The chair's points"
    assert [row[0] for row in table.rows] == [
        "Chair back",
        "Chair leg",
        "abstained",
        "certified but wrong",
        "wrong without noise",
    ]
    assert table.rows[0][1] == f"{(labels == BACK).sum():,} ({(labels == BACK).mean():.1%})"
    wrong = (labels != demo.subject.target) & (labels != sc.ABSTAIN)
    assert table.rows[-2][1].startswith(f"{wrong.sum():,} (")
    assert table.rows[-2][2] == table.rows[-1][1] == "-"
    assert f"{(labels == demo.subject.target).sum():,} of the {proved.certified:,} certified labels" in table.notes[1]
    assert "n0 = 10, n = 100, tau = 0.75 and one run of the network" in table.notes[2]


def test_the_files(demo):
    picture, page, _ = demo.files
    assert [file.name for file in demo.files] == ["certified.png", "certified.html", "certificate.safetensors"]
    with Image.open(picture) as image:
        assert image.size[0] == 1500
    for words in ("Chair back", "#4477aa", "Chair-000004", '"target"', '"prediction"'):
        assert words in page.read_text()


def test_the_bundled_model_knows_it():
    shape = Shape("Mug")
    labels = predict(shape.model, shape.x[None], [0])[0].numpy()
    assert set(labels) <= set(CATEGORIES["Mug"])
    assert (labels == shape.target).mean() > 0.7
