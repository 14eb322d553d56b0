"""The format fuzzer in small: a few malformed files of every kind, each refused or read as it is."""

import pytest

from tests.campaign.findings import Tally
from tests.campaign.formats import fuzz
from tests.campaign.given_files import GIVEN
from tests.campaign.kinds import WRITTEN

SLOW = ("pt2", "hf", "hrnet", "lite", "pointnet2", "torchscript")


@pytest.mark.parametrize("subject", [*WRITTEN, *GIVEN], ids=lambda subject: subject.name)
def test_no_malformed_file_is_believed_or_raises_anything_else(subject):
    if subject.name.startswith(("onnx", "hf")):
        pytest.importorskip("onnxruntime" if subject.name == "onnx" else "transformers")
        pytest.importorskip("onnx")
    tally = Tally("formats")
    fuzz(tally, subject, 3 if subject.name.startswith(SLOW) else 60, seed=1)
    assert not tally.found, tally.examples
